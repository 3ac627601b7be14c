/* ipc/service/service_internal.h -- the struct shmt_service, for the files that implement api/service.h. */
#ifndef SHMT_IPC_SERVICE_SERVICE_INTERNAL_H
#define SHMT_IPC_SERVICE_SERVICE_INTERNAL_H

#include "api/service.h"
#include "ipc/service/service.h"
#include "os/futex.h"

struct shmt_service {
  shmt__session_key key;
  bool may_start;
};

/* The deadline of a futex wait of so many ms. */
static inline uint64_t shmt__deadline_of(int timeout_ms) {
  return shmt__os_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
}

/* The service's session, joined if need be. The caller has the sessions' lock. Errors: SHMT_E_MANAGER, SHMT_E_NOMEM. */
shmt_status shmt__service_locked(shmt_service* v, bool writing, shmt__session** out);
/* SHMT_AUTO(shmt__pinned_session): the session is unpinned at the end of the scope. */
typedef shmt__session shmt__pinned_session;
static inline void shmt__auto_shmt__pinned_session(shmt__pinned_session** s) {
  if (*s != NULL) shmt__session_unpin(*s);
}

/* The service's session, joined if need be, and pinned, so that it can be used without the lock. Errors:
 * SHMT_E_MANAGER, SHMT_E_NOMEM; then *out is NULL. */
shmt_status shmt__service_pinned(shmt_service* v, bool writing, shmt__pinned_session** out);
/* Send a request to the service's manager. The caller has set the type and the fields that are special to it; name may
 * be NULL. */
shmt_status shmt__service_request(shmt_service* v, shmt__packet* p, const char* name,
                              shmt__packet* reply);

#endif
