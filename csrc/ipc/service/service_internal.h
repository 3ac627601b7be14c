/* ipc/service/service_internal.h -- the struct shmt_service, for the files that implement api/service.h. */
#ifndef SHMT_IPC_SERVICE_SERVICE_INTERNAL_H
#define SHMT_IPC_SERVICE_SERVICE_INTERNAL_H

#include "api/service.h"
#include "ipc/service/service.h"
#include "os/futex.h"

enum { SHMT_CHECK_MS = 100 };

struct shmt_service {
  shmt__session_key key; /* owner: of the session that was used last, where is_own */
  bool may_start;
  bool is_own;          /* of whatever user this process has when it is used */
  uint64_t incarnation; /* of the session that was used last; 0: none, or its loss was reported */
  atomic_uint n_refs;
};

/* One more reference, which shmt_service_free gives up. */
static inline shmt_service* shmt__service_retain(shmt_service* v) {
  (void)atomic_fetch_add_explicit(&v->n_refs, 1, memory_order_relaxed);
  return v;
}

/* The deadline of a futex wait of so many ms. */
static inline uint64_t shmt__deadline_of(int timeout_ms) {
  return shmt__os_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
}

/* What a text calls the service: the path of its socket, or its name. */
static inline const char* shmt__service_label(const shmt_service* v) {
  return v->key.path[0] != '\0' ? v->key.path : v->key.name;
}

/* Note [A manager that was killed]
 * Shared memory does not say that nobody continues it. So everybody who uses a service looks at the connection, which
 * the kernel closes with the manager: at most every SHMT_CHECK_MS, as this is a system call; a wait is cut into slices
 * of that length. Whoever sees the end rejoins the next manager, or starts it with its own descriptors, which are good
 * in every container. A member of a service at a path, which other containers can reach, also has a thread that waits
 * for the end of the connection, as the program may be idle. So the names and versions live as long as a member,
 * wherever it runs. `shmtensor serve` cannot see the memory of other containers. Where it finds a socket that a killed
 * manager has left, it first gives the members time, and then takes the place of the manager that one of them started.
 * What it gets from that manager it checks as a whole, as any manager that continues (shm/manager/adopt.c). Members
 * compare the user of the new manager as of any other. A member that comes too late finds another incarnation under the
 * name. It is told so, once, by a ManagerError, and uses that one from then on; what it has attached stays usable.
 *
 * The service's session, joined if need be. The caller has the sessions' lock. Errors: SHMT_E_MANAGER (also, once, when
 * the service was begun anew since it was used last), SHMT_E_NOMEM, SHMT_E_PYTHON. */
shmt_status shmt__service_locked(shmt_service* v, bool writing, shmt__session** out);
/* SHMT_AUTO(shmt__pinned_session): the session is unpinned at the end of the scope. */
typedef shmt__session shmt__pinned_session;
static inline void shmt__auto_shmt__pinned_session(shmt__pinned_session** s) {
  if (*s != NULL) shmt__session_unpin(*s);
}

/* Has the service ended in order, so that nobody may continue it? */
static inline bool shmt__map_has_ended(const shmt__map* map) {
  return atomic_load_explicit(&map->control->ended, memory_order_acquire) != 0;
}
/* Notice the end of the manager while nobody in this process uses the service. For a service at a path, which other
 * containers can reach. The caller has the lock. (ipc/service/watch.c) */
void shmt__service_watch(shmt__session* s);
/* The service's session, joined if need be, and pinned, so that it can be used without the lock. Errors:
 * SHMT_E_MANAGER, SHMT_E_NOMEM; then *out is NULL. */
shmt_status shmt__service_pinned(shmt_service* v, bool writing, shmt__pinned_session** out);
/* Send a request to the service's manager. The caller has set the type and the fields that are special to it; name may
 * be NULL. */
shmt_status shmt__service_request(shmt_service* v, shmt__packet* p, const char* name,
                              shmt__packet* reply);

#endif
