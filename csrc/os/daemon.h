/* os/daemon.h -- running under a supervisor: readiness, termination, lock files, exec. */
#ifndef SHMT_OS_DAEMON_H
#define SHMT_OS_DAEMON_H

#include "base/error.h"

/* From now on SIGTERM and SIGINT only set a flag, which shmt__os_is_asked_to_end() returns. */
void shmt__os_watch_termination(void);
bool shmt__os_is_asked_to_end(void);
/* Tell systemd a state such as "READY=1", through the socket in NOTIFY_SOCKET. Does nothing when that is not set. */
void shmt__os_notify(const char* state);
/* Lock the file at path, and make it with mode 0600 when it does not exist. The lock lasts until the last copy of the
 * descriptor is closed. Returns the descriptor, which the caller closes, or -errno (EWOULDBLOCK: another has the
 * lock). */
int shmt__os_lock_file(const char* path);
/* The listening socket that systemd passed to this process (LISTEN_FDS), made non-blocking. Returns -1 when there is
 * none, and -EINVAL when there are several or it is not of type SOCK_SEQPACKET. */
int shmt__os_activation_fd(void);
/* Replace this process by another program. The descriptors fds become 3, 4, ...; standard streams stay. Returns only on
 * failure. Errors: SHMT_E_MANAGER, SHMT_E_OS (no descriptor is left). */
shmt_status shmt__os_exec(const char* path, char* const argv[], const int* fds, int n_fds);

#endif
