/* ipc/manager/name_messages.c -- what the manager of a service does for messages about names and named locks. */
#include "ipc/manager/manager.h"
#include "ipc/manager/named_locks.h"

#include <inttypes.h>
#include <string.h>

/* Copy the name out of a request and terminate it. */
static shmt_status read_name(const shmt__packet* p, char out[SHMT_NAME_BYTES]) {
  size_t len = strnlen(p->text, sizeof p->text);
  SHMT_REQUIRE(len > 0 && len < SHMT_NAME_BYTES, SHMT_E_VALUE,
               "a name must have 1 to %d bytes, got %zu", SHMT_NAME_BYTES - 1, len);
  memcpy(out, p->text, len);
  out[len] = '\0';
  return SHMT_OK;
}

shmt_status shmt__manager_handle_name_message(shmt__manager* m, shmt__requester who, const shmt__packet* p,
                                      shmt__packet* reply) {
  char name[SHMT_NAME_BYTES];
  SHMT_TRY(read_name(p, name));
  switch (p->type) {
    case SHMT_MESSAGE_PUBLISH:
      return shmt__names_publish(&m->names, &m->arena_manager, who, name, p->block, p->generation,
                                 p->count & (SHMT_NAME_FLAGS | SHMT_NAME_IF_NONE), &reply->count);
    case SHMT_MESSAGE_UNPUBLISH:
      return shmt__names_remove(&m->names, &m->arena_manager, who, name);
    case SHMT_MESSAGE_OPEN_LOCK:
      SHMT_REQUIRE(p->count <= SHMT_NAMED_LOCK_SLOTS, SHMT_E_VALUE,
                   "%" PRIu64 " places, at most %d are possible", p->count, SHMT_NAMED_LOCK_SLOTS);
      return shmt__named_locks_open(&m->names, &m->arena_manager, who.client, name, p->block, (uint32_t)p->count,
                              &reply->block);
    default:
      SHMT_FAIL(SHMT_E_MANAGER, "message type %u is not about names", p->type);
  }
}
