/* ipc/session/open.c -- finds the session that a caller wants, and joins it when this process is not in it yet. */
#include "ipc/session/join.h"
#include "ipc/session/request.h"
#include "ipc/session/session.h"
#include "os/lock.h"
#include "os/memfd.h"
#include "os/users.h"

#include <inttypes.h>
#include <stdlib.h>

static void free_session(shmt__session* s) {
  uint64_t arena_bytes = s->map.fixed.arena_bytes;
  uint32_t n_chunks = (s->map.fixed.n_blocks + SHMT_HELD_BLOCK_CHUNK - 1) / SHMT_HELD_BLOCK_CHUNK;
  if (s->files != NULL) s->files->close(s);
  for (uint32_t i = 0; i < n_chunks; i++) free(s->held_blocks[i]);
  shmt__os_unmap(s->base, arena_bytes);
  shmt__os_unmap(s->reading_base, arena_bytes);
  shmt__map_close(&s->map);
  shmt__os_unpin_locks(s->lock_pin);
  shmt__descriptor_close(&s->socket);
  shmt__descriptor_close(&s->control);
  shmt__descriptor_close(&s->arena_file);
  free(s->held_blocks);
  shmt__arena_fini(&s->arena);
  free(s);
}

/* Free the lost sessions of which this process uses nothing any more. */
static void forget_lost(void) {
  for (unsigned i = shmt__sessions_count(); i-- > 0;) {
    shmt__session* s = shmt__session_at(i);
    bool is_used = s->n_held_blocks > 0 || s->n_old_records > 0 ||
                   atomic_load_explicit(&s->n_users, memory_order_acquire) > 0;
    if (!s->is_lost || is_used) continue;
    shmt__sessions_remove_at(i);
    free_session(s);
  }
}

/* Join the session, unless another thread did while we waited to become the requester. */
static shmt_status open_alone(const shmt__session_key* key, bool may_create,
                                shmt__session** out) {
  shmt__session* s = shmt__session_current_of(key->id, key->owner);
  if (s != NULL) {
    *out = s;
    return SHMT_OK;
  }
  forget_lost();
  SHMT_REQUIRE(shmt__sessions_count() < SHMT_MAX_SESSIONS, SHMT_E_MANAGER,
               "this process is in %d sessions already", SHMT_MAX_SESSIONS);
  s = calloc(1, sizeof *s);
  SHMT_REQUIRE(s != NULL, SHMT_E_NOMEM, "session: tried to allocate %zu bytes", sizeof *s);
  s->key = *key;
  s->id = key->id;
  s->socket = s->control = s->arena_file = s->child_socket = s->child_control = SHMT_NO_DESCRIPTOR;
  shmt_status status = shmt__session_join(s, may_create);
  if (status != SHMT_OK) {
    free(s);
    return status;
  }
  shmt__sessions_add(s);
  *out = s;
  return SHMT_OK;
}

static shmt_status open_session(const shmt__session_key* key, bool may_create,
                                shmt__session** out) {
  SHMT_TRY(shmt__request_begin());
  shmt_status status = open_alone(key, may_create, out);
  shmt__request_end();
  return status;
}

/* A session of this user that this process is not in yet. */
SHMT_COLD static shmt_status open_own(uint64_t id, bool may_create, shmt__session** out) {
  const shmt__session_key key = {.id = id, .owner = shmt__os_uid()};
  return open_session(&key, may_create, out);
}

shmt_status shmt__session_ensure_client(shmt__session* s) {
  if (SHMT_LIKELY(s->client != 0)) return SHMT_OK;
  SHMT_REQUIRE(!s->is_lost, SHMT_E_MANAGER,
               "session %016" PRIx64 " was begun anew by another manager", s->id);
  shmt__session_pin(s);
  shmt_status status = shmt__request_begin();
  if (status == SHMT_OK) {
    if (s->client == 0) status = shmt__session_join(s, true);
    shmt__request_end();
  }
  shmt__session_unpin(s);
  return status;
}

shmt_status shmt__session_open_default(shmt__session** out) {
  const uint64_t id = shmt__sessions_default_id();
  SHMT_REQUIRE(id != 0, SHMT_E_MANAGER, "sharing is not configured: no manager program is known");
  shmt__session* s = shmt__session_current(id);
  SHMT_TRY(SHMT_LIKELY(s != NULL) ? shmt__session_ensure_client(s) : open_own(id, true, &s));
  *out = s;
  return SHMT_OK;
}

shmt_status shmt__session_open_service(const shmt__session_key* key, bool may_create,
                                  shmt__session** out) {
  shmt__session* s = shmt__session_current_of(key->id, key->owner);
  SHMT_TRY(SHMT_LIKELY(s != NULL) ? shmt__session_ensure_client(s) : open_session(key, may_create, &s));
  *out = s;
  return SHMT_OK;
}

shmt_status shmt__session_open(uint64_t id, uint64_t incarnation, shmt__session** out) {
  shmt__session* s = shmt__session_lookup(id, incarnation);
  if (SHMT_LIKELY(s != NULL)) {
    SHMT_TRY(shmt__session_ensure_client(s));
    *out = s;
    return SHMT_OK;
  }
  s = shmt__session_current(id);
  if (s == NULL) SHMT_TRY(open_own(id, false, &s));
  SHMT_REQUIRE(s->incarnation == incarnation, SHMT_E_HANDLE,
               "the handle is of incarnation %016" PRIx64 " of session %016" PRIx64
               ", which is gone; now there is incarnation %016" PRIx64,
               incarnation, id, s->incarnation);
  *out = s;
  return SHMT_OK;
}
