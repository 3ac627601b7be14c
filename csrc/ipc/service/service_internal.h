/* ipc/service/service_internal.h -- what a shmt_service is, for the files of ipc/ that serve api/service.h.
 */
#ifndef SHMT_IPC_SERVICE_SERVICE_INTERNAL_H
#define SHMT_IPC_SERVICE_SERVICE_INTERNAL_H

#include "api/service.h"
#include "ipc/service/service.h"
#include "os/futex.h"

struct shmt_service {
  shmt__session_key key;
  bool may_start;
};

/* So many ms from now, for a futex. */
static inline uint64_t shmt__deadline_of(int timeout_ms) {
  return shmt__os_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
}

/* The session, joined if need be, under the sessions' lock. Errors: SHMT_E_MANAGER, SHMT_E_NOMEM.
 */
shmt_status shmt__service_locked(shmt_service* v, bool writing, shmt__session** out);
/* SHMT_AUTO(shmt__pinned_session): unpinned at the end of its scope. */
typedef shmt__session shmt__pinned_session;
static inline void shmt__auto_shmt__pinned_session(shmt__pinned_session** s) {
  if (*s != NULL) shmt__session_unpin(*s);
}

/* The session, joined if need be, and pinned: for use without the lock. Errors: SHMT_E_MANAGER,
 * SHMT_E_NOMEM; *out is NULL then. */
shmt_status shmt__service_pinned(shmt_service* v, bool writing, shmt__pinned_session** out);
/* Send a request, filled in here but for its own fields, with a name (may be NULL). */
shmt_status shmt__service_request(shmt_service* v, shmt__packet* p, const char* name,
                              shmt__packet* reply);

#endif
