/* ipc/handle/export.c -- sends storages: makes handles, and takes the leases that keep the blocks until they are
 * opened. */
#include "ipc/handle/export.h"

#include "base/debug.h"
#include "ipc/handle/lease_channel.h"
#include "ipc/handle/share.h"
#include "ipc/handle/unsent_leases.h"
#include "ipc/session/session.h"
#include "shm/block.h"

#include <inttypes.h>
#include <string.h>

shmt_status shmt__storage_check_sendable(const shmt_storage* storage) {
  SHMT_REQUIRE(!shmt__storage_has(storage, SHMT_STORAGE_READ_ONLY), SHMT_E_RUNTIME,
               "a read-only storage of %" PRIu64
               " bytes cannot be sent: its receiver could write to it; send a clone, or open or attach "
               "it in the other process",
               storage->nbytes);
  SHMT_REQUIRE(storage->allocator == &shmt__allocator_managed, SHMT_E_RUNTIME,
               "a storage mapped from a file (allocator \"%s\", %" PRIu64
               " bytes) cannot be sent; open or attach it in the other process",
               storage->allocator->name, storage->nbytes);
  return SHMT_OK;
}

/* Under the sessions' lock. */
static shmt_status export_locked(shmt_storage* storage, bool lease, shmt__handle* out,
                                 uint64_t* out_secret) {
  SHMT_REQUIRE(shmt__storage_is_shared(storage), SHMT_E_RUNTIME,
               "the storage of %" PRIu64 " bytes is not shared", storage->nbytes);
  if (storage->nbytes == 0) {
    *out = (shmt__handle){.magic = SHMT_HANDLE_MAGIC, .block = (uint32_t)SHMT_HANDLE_NO_BLOCK};
    out->check = shmt__handle_check_of(0, out);
    if (out_secret != NULL) *out_secret = 0;
    return SHMT_OK;
  }
  SHMT_TRY(shmt__storage_check_sendable(storage));
  shmt__held_block* h = storage->ctx;
  shmt__session* s = h->session;
  SHMT_REQUIRE(h->generation != 0 && !s->is_lost, SHMT_E_HANDLE,
               "the storage of %" PRIu64 " bytes belongs to session %016" PRIx64
               ", whose manager is gone; it can be used here but not sent",
               storage->nbytes, s->id);
  SHMT_TRY(shmt__session_ensure_client(s)); /* who has no number takes no lease */
  SHMT_REQUIRE(h->generation != 0, SHMT_E_HANDLE,
               "the block of the storage of %" PRIu64 " bytes went before this process became a client",
               storage->nbytes);
  if (SHMT_UNLIKELY(shmt__debug)) SHMT_TRY(shmt__held_block_check(h, "send"));
  shmt__lease_ticket ticket = {0};
  if (lease) {
    SHMT_TRY(shmt__lease_take(&s->map, &s->control, &s->leases, s->client, h->block, h->generation,
                              0, &ticket));
    shmt__sent_messages_track();
  }
  *out = (shmt__handle){.magic = SHMT_HANDLE_MAGIC,
                        .session = s->id,
                        .incarnation = s->incarnation,
                        .generation = h->generation,
                        .nbytes = storage->nbytes,
                        .block = h->block,
                        .lease_id = ticket.id,
                        .lease_slot = ticket.slot};
  out->check = shmt__handle_check_of(s->map.fixed.secret, out);
  if (out_secret != NULL) *out_secret = s->map.fixed.secret;
  return SHMT_OK;
}

shmt_status shmt__storage_export(shmt_storage* storage, bool lease, shmt__handle* out,
                                 uint64_t* out_secret) {
  shmt__sessions_lock();
  shmt_status status = export_locked(storage, lease, out, out_secret);
  shmt__sessions_unlock();
  if (status == SHMT_OK) shmt__unsent_note(out);
  return status;
}

shmt_status shmt__storages_export(shmt_storage* const* storages, uint32_t n, void* out,
                                  uint64_t* out_secret) {
  shmt_status status = SHMT_OK;
  shmt__handle h;
  uint32_t i = 0;
  char* at = out;
  *out_secret = 0;
  shmt__sessions_lock();
  for (; i < n; i++) {
    status = export_locked(storages[i], true, &h, i == 0 ? out_secret : NULL);
    if (status != SHMT_OK) break;
    memcpy(at + i * sizeof h, &h, sizeof h);
  }
  while (status != SHMT_OK && i-- > 0) {
    memcpy(&h, at + i * sizeof h, sizeof h);
    shmt__handle_end_lease_locked(&h);
  }
  shmt__sessions_unlock();
  return status;
}

static shmt__block* block_of(const shmt_storage* s) {
  if (s->allocator != &shmt__allocator_managed || s->ctx == NULL) return NULL;
  const shmt__held_block* h = s->ctx;
  return h->generation == 0 ? NULL : &h->session->map.blocks[h->block];
}

shmt_status shmt__storage_add_plain_lease(shmt_storage* s) {
  shmt__block* b = block_of(s);
  if (b == NULL) return SHMT_OK;
  if (SHMT_UNLIKELY(shmt__debug)) SHMT_TRY(shmt__held_block_check(s->ctx, "_shared_incref"));
  const shmt__held_block* h = s->ctx;
  shmt__block_add_plain_lease(b, h->generation);
  shmt__map_note_activity(&h->session->map); /* from when the manager sees it, it gets older */
  return SHMT_OK;
}

shmt_status shmt__storage_end_plain_lease(shmt_storage* s) {
  shmt__block* b = block_of(s);
  if (b == NULL) return SHMT_OK;
  if (SHMT_UNLIKELY(shmt__debug)) SHMT_TRY(shmt__held_block_check(s->ctx, "_shared_decref"));
  bool ended = shmt__block_end_plain_lease(b);
  SHMT_REQUIRE(ended || !shmt__debug, SHMT_E_RUNTIME,
               "_shared_decref: block %" PRIu32 " of %" PRIu64
               " bytes has no _shared_incref left: released twice",
               ((const shmt__held_block*)s->ctx)->block, s->nbytes);
  return SHMT_OK;
}
