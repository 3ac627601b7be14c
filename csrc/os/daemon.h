/* os/daemon.h -- running under a supervisor: readiness, termination, lock files, exec. */
#ifndef SHMT_OS_DAEMON_H
#define SHMT_OS_DAEMON_H

#include "base/error.h"

/* From now on SIGTERM and SIGINT only set a flag. */
void shmt__os_watch_termination(void);
bool shmt__os_is_asked_to_end(void);
/* Tell systemd (NOTIFY_SOCKET), e.g. "READY=1"; nothing happens without it. */
void shmt__os_notify(const char* state);
/* Lock the file at path, made with mode 0600 if need be; the lock lives as long as any copy of the
 * descriptor. Returns it, or -errno (EWOULDBLOCK: another has it). */
int shmt__os_lock_file(const char* path);
/* The socket that systemd passed to this process (LISTEN_FDS), made non-blocking, or -1. Several, or
 * one that does not carry packets, are -EINVAL. */
int shmt__os_activation_fd(void);
/* Become another program: fds become 3, 4, ..., standard streams stay. Returns only when that
 * failed. Errors: SHMT_E_MANAGER. */
shmt_status shmt__os_exec(const char* path, char* const argv[], const int* fds, int n_fds);

#endif
