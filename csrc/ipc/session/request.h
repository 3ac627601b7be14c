/* ipc/session/request.h -- asking a manager, and waiting for one that does not answer.
 *
 * Note [Waiting for a manager]
 * A manager answers within microseconds, under the sessions' lock. One that is stopped, or has no
 * turn, must not hold up everybody: after QUICK_MS the asker waits without the lock, in slices,
 * and lets the language around us run other threads and signal handlers between them. Meanwhile
 * other threads use what they have; those that need a manager too wait until the asker is done.
 * So whoever asks must find its way again afterwards: holdings, lists and sessions may have changed.
 * While a fork is prepared, or a lock of a ring is held, no handler may run: the asker waits with
 * the lock.
 */
#ifndef SHMT_IPC_SESSION_REQUEST_H
#define SHMT_IPC_SESSION_REQUEST_H

#include "ipc/session/session.h"

/* What runs around a slice of waiting, without the sessions' lock. */
typedef struct shmt__wait_hooks {
  void* (*begin)(void);      /* let other threads run */
  bool (*end)(void* begun);  /* see to signals; false: give up, status SHMT_E_PYTHON */
} shmt__wait_hooks;

void shmt__request_set_hooks(shmt__wait_hooks hooks);

/* --- below: the caller holds the sessions' lock --- */

/* Be the one that asks, until shmt__request_end; calls may nest. The lock may be released meanwhile.
 * Errors: SHMT_E_MANAGER (another waits for too long; or we do, and this is a signal handler),
 * SHMT_E_PYTHON. */
shmt_status shmt__request_begin(void);
void shmt__request_end(void);
/* Is somebody waiting for a manager at this moment? */
bool shmt__request_is_waiting(void);
/* From now on this thread keeps the lock while it waits, and runs no handlers; calls nest. */
void shmt__request_keep_lock(bool keep);
/* In a forked child: nobody asks. */
void shmt__request_reset(void);

/* One request and its reply on a socket. s: the asker's session, or NULL: wait with the lock.
 * Errors: what the manager answers, SHMT_E_MANAGER, SHMT_E_PYTHON; *lost: the connection is gone. */
shmt_status shmt__request(shmt__session* s, int socket, const shmt__packet* request, const int* fds,
                      int n_fds, shmt__packet* reply, int* out_fds, int* n_out_fds, int timeout_ms,
                      bool* lost);
/* Its two halves, with the lock, for who asks several managers at once and waits for all of them
 * until one moment. Errors: as above. */
shmt_status shmt__request_send(int socket, const shmt__packet* request, const int* fds, int n_fds,
                           uint64_t deadline_ms);
shmt_status shmt__request_receive(int socket, uint32_t serial, shmt__packet* reply, int* out_fds,
                              int* n_out_fds, uint64_t deadline_ms);

#endif
