/* ipc/session/launch.h -- starts the manager of a session. */
#ifndef SHMT_IPC_SESSION_LAUNCH_H
#define SHMT_IPC_SESSION_LAUNCH_H

#include "ipc/session/session.h"

typedef struct shmt__launch {
  int listener;    /* a socket that listens already; -1: bind one */
  bool takes_over; /* take the place of a running manager, which has given us its files: */
  int control_fd, arena_fd, lock_fd; /* lock_fd may be -1; all belong to the caller */
  uint64_t limit_bytes, client_limit_bytes;
  uint32_t gid;
  bool has_gid;    /* open to a group */
  bool may_create; /* else only continue a session whose memory somebody has */
  bool stays;      /* this process becomes the manager */
} shmt__launch;

/* Bind the socket and start a manager with it. The manager continues with the files of `member` (may be NULL) or of
 * another process. Does not return when this process becomes the manager. Else the caller is the requester, and others
 * have the lock while it waits for a manager that is slow to start: Note [Waiting for a manager]. Errors:
 * SHMT_E_BUFFER, without a record (another process has the socket, or the manager was killed before it began: try
 * again), SHMT_E_HANDLE (nobody has the memory, and it may not be created), SHMT_E_OS, SHMT_E_MANAGER, SHMT_E_PYTHON (a
 * signal handler raised). */
shmt_status shmt__manager_launch(const shmt__session_key* key, const shmt__session* member,
                                 const shmt__launch* how);

#endif
