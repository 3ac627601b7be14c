/* os/process.h -- randomness, user ids, and watching and starting other processes.
 *
 * Note [Unknown users]
 * In a user namespace the kernel shows every user and group that has no number there as one number, the overflow id
 * (65534). Where such a namespace maps only some ids, that number says nothing: it may be anybody, also when it is our
 * own. So nobody with that id is "the same user", no file with it is ours, and a process that has it cannot share.
 * Where all ids are mapped, as outside of user namespaces, it is a user like any other ("nobody").
 */
#ifndef SHMT_OS_PROCESS_H
#define SHMT_OS_PROCESS_H

#include "base/error.h"

/* The kernel's number of this thread; of a process's first thread it is the process's. */
int64_t shmt__os_thread_id(void);
/* Unpredictable bits. */
uint64_t shmt__os_random(void);
void shmt__os_sleep_ms(unsigned ms);

int32_t shmt__os_pid(void);
/* A number that identifies this process's pid namespace, and its network namespace; 0: unknown. */
uint64_t shmt__os_pid_namespace(void);
uint64_t shmt__os_net_namespace(void);
/* When pid started, in clock ticks after boot; 0: it does not run. This tells a reused pid from the former one. */
uint64_t shmt__os_process_start(int32_t pid);
/* Does the process pid that started at `start` (0: unknown) still run? False only when it is certain that it does not.
 * A process that cannot be inspected, for lack of descriptors or rights, counts as running. */
bool shmt__os_process_runs(int32_t pid, uint64_t start);
/* Make a close-on-exec descriptor that becomes readable when pid ends. Returns it (the caller closes it), or -errno. */
int shmt__os_pidfd(int32_t pid);
/* Has the process mapped the file? unreadable: the answer when this process may not read its mappings. */
bool shmt__os_process_maps(int32_t pid, const uint64_t file_identity[2], bool unreadable);
/* Note [What was checked is what is opened]
 * A number in /proc/PID/fd, like a path, may name another file a moment later. So nothing is decided by stat() and then
 * opened by name: the name is opened first, and fstat() tells what it is. What a process finds by a name that others
 * can change is opened as O_PATH, which does nothing to a pipe or a device, and anew for reading and writing once it is
 * known to be the file. Whoever gets a descriptor from the manager compares its identity with that of the block. */

/* Open anew a file that pid has open under any descriptor. only_found: like shmt__os_file_find, not for reading and
 * writing. Returns a descriptor, which the caller closes; -1: pid does not have the file open, or may not be
 * inspected. */
int shmt__os_open_from_process(int32_t pid, const uint64_t file_identity[2], bool only_found);
/* The same, from any other process of this user. */
int shmt__os_open_from_any_process(const uint64_t file_identity[2], bool only_found);
/* Search the open files of this user's processes for memory files with this name, open each anew, and call visit with
 * the descriptor, which visit closes. visit returns whether to go on. since: skip processes that started earlier
 * (shmt__os_process_start); 0: skip none. Returns 0, or -errno: too few descriptors are left for a search. */
int shmt__os_find_memfd(const char* name, uint64_t since, bool (*visit)(int fd, void* arg),
                        void* arg);

/* How a child ended that has no exit status. */
enum {
  SHMT_OS_EXIT_UNKNOWN = -1, /* the program ignores its children, or waited for it first */
  SHMT_OS_EXIT_KILLED = -2,  /* by SIGKILL */
  SHMT_OS_EXIT_SIGNAL = -3,  /* by another signal */
};

/* Run a program in the background. The descriptors fds become 3, 4, ..., and the standard streams go to /dev/null; the
 * program itself must close all others. The program must fork and let its first process exit: *out_pid, for which the
 * caller waits by the functions below. Errors: SHMT_E_MANAGER with the path and reason, SHMT_E_OS (no descriptor is
 * left). */
shmt_status shmt__os_spawn_daemon(const char* path, char* const argv[], const int* fds, int n_fds,
                                  int32_t* out_pid);
/* Has the child ended? Does not wait. Once it says yes, the pid is no child of ours any more. *out_exit: its exit
 * status, or SHMT_OS_EXIT_*. */
bool shmt__os_child_ended(int32_t pid, int* out_exit);
/* Kill a child that has not ended, and wait for it. */
void shmt__os_kill_child(int32_t pid);

/* --- for a daemon --- */

/* Fork: the child goes on, in a new session with "/" as its directory, and this process exits. False: it could not
 * fork, or could not change the directory. */
bool shmt__os_detach(void);
/* Ignore signals that terminals, users and closed connections cause; close all descriptors from first_fd on; raise the
 * limit of descriptors to the hard limit. */
void shmt__os_daemon_init(int first_fd);

#endif
