/* shm/manager/quota.c -- enforces the memory limits of a session and of each of its clients. */
#include "shm/manager/arena_manager.h"

#include <inttypes.h>
#include <stdio.h>

/* Add up what the slabs of each client cover. [0] is for clients that have ended. */
static void count_bytes(const shmt__arena_manager* k, uint64_t bytes[SHMT_MAX_CLIENTS]) {
  for (uint32_t i = 0; i < SHMT_MAX_CLIENTS; i++) bytes[i] = 0;
  for (uint32_t i = 0; i < k->slabs_end; i++) {
    const shmt__slab_view* s = shmt__arena_manager_slab_at(k, i);
    if (s != NULL && !k->slabs[i].is_parked) bytes[s->owner] += shmt__slab_session_bytes(s);
  }
}

/* "process 17 has most, 4096" */
static void name_largest(const shmt__arena_manager* k, const uint64_t bytes[SHMT_MAX_CLIENTS], char* out,
                         size_t capacity) {
  uint32_t largest = 0;
  for (uint32_t i = 1; i < SHMT_MAX_CLIENTS; i++)
    if (bytes[i] > bytes[largest]) largest = i;
  if (largest == 0)
    (void)snprintf(out, capacity, "ended processes have most, %" PRIu64, bytes[0]);
  else
    (void)snprintf(out, capacity, "process %" PRId32 " has most, %" PRIu64,
                   k->clients[largest].pid, bytes[largest]);
}

static bool fits(uint64_t used, uint64_t nbytes, uint64_t limit) {
  return limit == 0 || (used <= limit && nbytes <= limit - used);
}

/* Is there room below both bounds? Fills in what each client has when that was counted. */
static bool has_room(const shmt__arena_manager* k, uint32_t client, uint64_t nbytes, uint64_t bytes[SHMT_MAX_CLIENTS]) {
  const shmt__fixed* c = &k->map.fixed;
  if (!fits(k->granted_bytes, nbytes, c->limit_bytes)) return false;
  if (c->client_limit_bytes == 0) return true;
  count_bytes(k, bytes);
  return fits(bytes[client], nbytes, c->client_limit_bytes);
}

shmt_status shmt__arena_manager_check_quota(shmt__arena_manager* k, uint32_t client, uint64_t nbytes) {
  const shmt__fixed* c = &k->map.fixed;
  uint64_t bytes[SHMT_MAX_CLIENTS];
  char largest[64];
  if (SHMT_LIKELY(has_room(k, client, nbytes, bytes))) return SHMT_OK;
  /* Memory that nobody uses any more may take up the room. */
  shmt__arena_manager_sweep(k, true);
  shmt__arena_manager_park(k);
  if (has_room(k, client, nbytes, bytes)) return SHMT_OK;
  count_bytes(k, bytes);
  SHMT_REQUIRE(fits(bytes[client], nbytes, c->client_limit_bytes), SHMT_E_NOMEM,
               "unable to allocate shared memory: tried %" PRIu64 " bytes, process %" PRId32
               " has %" PRIu64 " of the %" PRIu64 " that one may have",
               nbytes, k->clients[client].pid, bytes[client], c->client_limit_bytes);
  name_largest(k, bytes, largest, sizeof largest);
  SHMT_FAIL(SHMT_E_NOMEM,
            "unable to allocate shared memory: tried %" PRIu64 " bytes, %" PRIu64
            " of the session's %" PRIu64 " are in use; %s",
            nbytes, k->granted_bytes, c->limit_bytes, largest);
}
