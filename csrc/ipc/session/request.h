/* ipc/session/request.h -- sends a request to a manager and waits for the reply, also when the manager is stopped.
 *
 * Note [Waiting for a manager]
 * A manager answers within microseconds, and the requester waits for that with the sessions' lock. A manager that is
 * stopped, or gets no processor, must not hold up everybody. So after QUICK_MS the requester waits in slices without
 * the lock, and between slices lets Python run other threads and signal handlers. Meanwhile other threads use what they
 * have; those that also need a manager wait until the requester is done. So after a request the held blocks, lists and
 * sessions may have changed. While a fork is prepared or a lock of a ring is held, no handler may run: then the
 * requester waits with the lock.
 */
#ifndef SHMT_IPC_SESSION_REQUEST_H
#define SHMT_IPC_SESSION_REQUEST_H

#include "ipc/session/session.h"

/* What runs before and after a slice of waiting, without the sessions' lock. */
typedef struct shmt__wait_hooks {
  void* (*begin)(void);      /* let other threads run */
  bool (*end)(void* begun);  /* handle signals; false: give up, status SHMT_E_PYTHON */
} shmt__wait_hooks;

void shmt__request_set_hooks(shmt__wait_hooks hooks);

/* --- below: the caller holds the sessions' lock --- */

/* Become the requester, until shmt__request_end; calls may nest. The lock may be released meanwhile. Errors:
 * SHMT_E_MANAGER (another thread waits for too long; or this thread waits already, and this is a signal handler),
 * SHMT_E_PYTHON. */
shmt_status shmt__request_begin(void);
void shmt__request_end(void);
/* Wait a moment without the lock, as the requester, for something that is no reply. Errors: SHMT_E_PYTHON (give up),
 * SHMT_E_MANAGER (a signal handler forked, and this is the child). */
shmt_status shmt__request_pause(void);
/* Is a thread waiting for a manager at this moment? */
bool shmt__request_is_waiting(void);
/* true: from now on this thread keeps the lock while it waits, and runs no handlers. false: ends that. Calls nest. */
void shmt__request_keep_lock(bool keep);
/* From now on whatever this thread waits for with a manager ends at deadline_ms, of shmt__os_now_ms. UINT64_MAX: ends
 * that. */
void shmt__request_set_limit(uint64_t deadline_ms);
/* Returns when a wait of this thread for a manager ends that may take most_ms. */
uint64_t shmt__request_deadline(uint32_t most_ms);
/* In a forked child: there is no requester. */
void shmt__request_reset(void);

/* Send one request on a socket and receive its reply. s: the requester's session; NULL: wait with the lock.
 * Errors: what the manager answers, SHMT_E_MANAGER, SHMT_E_PYTHON, SHMT_E_OS (no room for the reply's descriptors).
 * timeout_ms: within the thread's limit. *lost: the connection is gone. */
shmt_status shmt__request(shmt__session* s, const shmt__descriptor* socket, const shmt__packet* request,
                      const int* fds, int n_fds, shmt__packet* reply, int* out_fds, int* n_out_fds,
                      uint32_t timeout_ms, bool* lost);
/* Its two halves on the session's connection, to send requests to several managers at once and wait for all replies
 * until one deadline. The caller keeps the lock (shmt__request_keep_lock). Errors: as above. */
shmt_status shmt__request_send(shmt__session* s, const shmt__packet* request, uint64_t deadline_ms);
shmt_status shmt__request_receive(shmt__session* s, uint32_t serial, shmt__packet* reply, int* out_fds,
                                  int* n_out_fds, uint64_t deadline_ms);

#endif
