/* os/process.h -- clocks, randomness, and watching and starting other processes. */
#ifndef SHMT_OS_PROCESS_H
#define SHMT_OS_PROCESS_H

#include "base/error.h"

/* Milliseconds of a clock that never steps; coarse (a few ms), some nanoseconds to read. */
uint64_t shmt__os_now_ms(void);
/* Milliseconds of processor time of this thread; some hundred nanoseconds to read. */
uint64_t shmt__os_thread_cpu_ms(void);
/* Unpredictable bits. */
uint64_t shmt__os_random(void);
void shmt__os_sleep_ms(unsigned ms);
/* How many descriptors this process may have open. */
int shmt__os_descriptor_limit(void);

int32_t shmt__os_pid(void);
/* Tells this process's pid namespace, and its network namespace, from others; 0: not known. */
uint64_t shmt__os_pid_namespace(void);
uint64_t shmt__os_net_namespace(void);
uint32_t shmt__os_uid(void);
/* Clock ticks after boot at which pid started; 0 when it does not run. Tells a reused pid apart. */
uint64_t shmt__os_process_start(int32_t pid);
/* Does the process that began at `start` (0: unknown) run still? False only when it surely does
 * not: what cannot be looked at, for want of descriptors or rights, runs. */
bool shmt__os_process_runs(int32_t pid, uint64_t start);
/* A descriptor that becomes readable when pid ends; -errno. Close-on-exec. */
int shmt__os_pidfd(int32_t pid);
/* Has the process mapped the file? unreadable: the answer when its maps may not be read. */
bool shmt__os_process_maps(int32_t pid, const uint64_t file_identity[2], bool unreadable);
/* Open anew the file that pid has open under any number; -1 when it has not, or is not ours to look
 * at. */
int shmt__os_open_from_process(int32_t pid, const uint64_t file_identity[2]);
/* The same from any process of this user but this one. */
int shmt__os_open_from_any_process(const uint64_t file_identity[2]);
/* Look through the open files of this user's processes for a memory file with this name, and open
 * it anew. since: only processes that did not start before (shmt__os_process_start); 0: all. visit
 * gets a descriptor (its own to close) and says whether to go on. */
void shmt__os_find_memfd(const char* name, uint64_t since, bool (*visit)(int fd, void* arg),
                         void* arg);

/* Run a program in the background: the descriptors fds become 3, 4, ..., standard streams go to
 * /dev/null, everything else is closed by the program itself. The program is expected to fork
 * and let its first process exit, which is waited for.
 * *out_exit: its exit status, -1: none. Errors: SHMT_E_MANAGER with the path and reason. */
shmt_status shmt__os_spawn_daemon(const char* path, char* const argv[], const int* fds, int n_fds,
                                  int* out_exit);

/* For a daemon. */
/* Go on in a child in a session of its own; the first process exits. */
bool shmt__os_detach(void);
/* Ignore what a terminal or a dying peer sends, close all descriptors from first_fd on, use all
 * descriptors the hard limit allows. */
void shmt__os_daemon_init(int first_fd);
/* Call `before` ahead of each fork(), then `parent` or `child` behind it. */
shmt_status shmt__os_at_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

#endif
