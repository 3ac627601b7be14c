/* ipc/handle/import.c -- receives storages: checks handles, holds their blocks, finds or makes the storages over
 * them. */
#include "ipc/handle/import.h"

#include "api/error.h"
#include "base/debug.h"
#include "ipc/handle/release.h"
#include "ipc/handle/share.h"
#include "ipc/handle/storage_files.h"
#include "ipc/session/request.h"
#include "ipc/session/session.h"
#include "os/failpoint.h"
#include "shm/block.h"

#include <inttypes.h>
#include <string.h>

/* Read where the block's bytes lie in the arena, once, as any member can write there. Errors: SHMT_E_HANDLE (they
 * cannot lie there). */
static shmt_status locate(shmt__held_block* h, uint64_t nbytes) {
  const shmt__block* b = &h->session->map.blocks[h->block];
  uint64_t arena_bytes = h->session->map.fixed.arena_bytes, offset = b->offset;
  SHMT_REQUIRE(offset % 64 == 0 && offset <= arena_bytes && nbytes <= arena_bytes - offset,
               SHMT_E_HANDLE,
               "the session is damaged: block %" PRIu32 " of %" PRIu64 " bytes at %" PRIu64
               " lies outside its memory of %" PRIu64 " bytes",
               h->block, nbytes, offset, arena_bytes);
  h->offset = offset;
  return SHMT_OK;
}

/* The flags of a storage: a process that has mapped the arena for reading only gets read-only storages. */
static uint32_t flags_of(const shmt__held_block* h) {
  bool reading = h->map == NULL && h->session->base == NULL;
  return SHMT_STORAGE_SHARED | (reading ? (uint32_t)SHMT_STORAGE_READ_ONLY : 0u);
}

static shmt_status check_bytes(uint64_t secret, const shmt__checked_bytes* beside) {
  if (beside == NULL) return SHMT_OK;
  uint32_t check = shmt__handle_checksum(secret, beside->data, beside->nbytes);
  SHMT_REQUIRE(check == beside->check, SHMT_E_HANDLE,
               "forged or damaged tensor: checksum %08" PRIx32 ", its contents give %08" PRIx32,
               beside->check, check);
  return SHMT_OK;
}

static shmt_status fail_stale(const shmt__handle* h, const shmt__block* b) {
  uint64_t now =
      b != NULL ? shmt__head_generation(atomic_load_explicit(&b->head, memory_order_relaxed)) : 0;
  SHMT_FAIL(SHMT_E_HANDLE,
            "the handle's block is gone: block %" PRIu32 " generation %" PRIu64 " of %" PRIu64
            " bytes in session %016" PRIx64 ", now generation %" PRIu64,
            h->block, h->generation, h->nbytes, h->session, now);
}

/* Take a reference to a storage that may be being destroyed. False: it is. */
static bool try_retain(shmt_storage* s) {
  int_least32_t n = atomic_load_explicit(&s->refs, memory_order_relaxed);
  while (n > 0) {
    if (atomic_compare_exchange_weak_explicit(&s->refs, &n, n + 1, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  }
  return false;
}

static shmt_status fail_size(const shmt__handle* h, uint64_t nbytes) {
  SHMT_FAIL(SHMT_E_HANDLE, "the handle says %" PRIu64 " bytes, block %" PRIu32 " has %" PRIu64,
            h->nbytes, h->block, nbytes);
}

/* Begin to hold the handle's block. */
static shmt_status take_hold(shmt__session* s, const shmt__handle* handle, shmt__held_block** out) {
  shmt__block* b = &s->map.blocks[handle->block];
  if (!shmt__block_hold(&s->map, handle->block, s->client, handle->generation))
    return fail_stale(handle, b);
  shmt_status status = SHMT_OK;
  uint64_t nbytes =
      atomic_load_explicit(&b->nbytes, memory_order_relaxed) & ~SHMT_BLOCK_IS_RING;
  if (nbytes != handle->nbytes) status = fail_size(handle, nbytes);
  if (status == SHMT_OK)
    status = shmt__session_add_held_block(s, handle->block, handle->generation, out);
  if (status != SHMT_OK) {
    shmt__block_unhold(&s->map, handle->block, s->client);
    shmt__map_note_activity(&s->map);
    return status;
  }
  return status;
}

static bool is_file(const shmt__session* s, uint32_t block) {
  uint32_t slab = s->map.blocks[block].slab;
  return slab < s->map.fixed.n_slabs &&
         shmt__slab_state_is_file(atomic_load_explicit(&s->map.slabs[slab].state, memory_order_relaxed));
}

/* Find or make the storage over the block of a valid handle. */
static shmt_status find_or_open(shmt__session* s, const shmt__handle* handle, shmt_storage** out) {
  shmt__held_block* h = shmt__session_held_block(s, handle->block);
  if (h == NULL) {
    SHMT_TRY(take_hold(s, handle, &h));
  } else if (h->generation != handle->generation) {
    return fail_stale(handle, &s->map.blocks[handle->block]);
  } else if (SHMT_UNLIKELY(shmt__debug) && shmt__held_block_check(h, "receive") != SHMT_OK) {
    return SHMT_E_HANDLE;
  } else if (h->nbytes != 0 && handle->nbytes != h->nbytes) {
    return fail_size(handle, h->nbytes);
  } else if (h->storage != NULL && try_retain(h->storage)) {
    *out = h->storage;
    return SHMT_OK;
  } else if (h->map != NULL || !is_file(s, handle->block)) {
    SHMT_TRY(shmt__session_supersede_held_block(h, &h));
  } /* else: another thread of our parent was opening it during the fork */
  shmt_status status = SHMT_OK;
  if (h->nbytes == 0)
    status = is_file(s, handle->block) ? shmt__file_block_open(h, handle->nbytes)
                                       : locate(h, handle->nbytes);
  if (status == SHMT_OK) h->nbytes = handle->nbytes;
  if (status == SHMT_OK)
    status = shmt__storage_adopt(&shmt__allocator_managed, shmt__held_block_data(h), h, handle->nbytes,
                                 flags_of(h), out);
  if (status == SHMT_OK)
    h->storage = *out;
  else
    shmt__session_drop_held_block(h);
  return status;
}

/* A file must be requested from the manager, perhaps without the lock. Only the requester ever sees a held block that
 * is half open. */
static shmt_status open_locked(shmt__session* s, const shmt__handle* handle, shmt_storage** out) {
  if (SHMT_LIKELY(!is_file(s, handle->block))) return find_or_open(s, handle, out);
  shmt__session_pin(s);
  shmt_status status = shmt__request_begin();
  if (status == SHMT_OK) {
    status = find_or_open(s, handle, out);
    shmt__request_end();
  }
  shmt__session_unpin(s);
  return status;
}

static shmt_status import_locked(shmt__session* s, const shmt__handle* handle,
                                 const shmt__checked_bytes* beside, shmt_storage** out) {
  uint32_t blocks_end = shmt__map_blocks_end(&s->map);
  SHMT_REQUIRE(
      shmt__handle_check_of(s->map.fixed.secret, handle) == handle->check && handle->block < blocks_end,
      SHMT_E_HANDLE,
      "forged or damaged handle: checksum %08" PRIx32 " does not fit block %" PRIu32
      " generation %" PRIu64 " of %" PRIu64 " bytes",
      handle->check, handle->block, handle->generation, handle->nbytes);
  SHMT_TRY(check_bytes(s->map.fixed.secret, beside));
  return open_locked(s, handle, out);
}

/* Under the sessions' lock. Even on failure *out may be a storage; the caller releases it without the lock. */
static shmt_status import_one(const shmt__handle* handle, const shmt__checked_bytes* beside,
                              shmt_storage** out) {
  shmt__session* s = NULL;
  *out = NULL;
  SHMT_REQUIRE(handle->magic == SHMT_HANDLE_MAGIC, SHMT_E_HANDLE,
               "not a handle: it begins with %08" PRIx32 ", expected %08" PRIx32, handle->magic,
               SHMT_HANDLE_MAGIC);
  if (handle->block == (uint32_t)SHMT_HANDLE_NO_BLOCK) {
    SHMT_REQUIRE(handle->check == shmt__handle_check_of(0, handle) && handle->nbytes == 0, SHMT_E_HANDLE,
                 "forged or damaged handle: checksum %08" PRIx32 " does not fit an empty storage",
                 handle->check);
    SHMT_TRY(check_bytes(0, beside));
    return shmt__storage_adopt(&shmt__allocator_managed, NULL, NULL, 0, SHMT_STORAGE_SHARED, out);
  }
  SHMT_TRY(shmt__session_open(handle->session, handle->incarnation, &s));
  SHMT_TRY(import_locked(s, handle, beside, out));
  if (handle->lease_id == 0) return SHMT_OK;
  SHMT_FAILPOINT(import_held);
  /* Only now: until here the lease kept the block, from now on our hold does. */
  const shmt__lease_ticket ticket = {handle->lease_id, handle->lease_slot};
  bool ended = shmt__lease_end(&s->map, &ticket, s->client);
  SHMT_REQUIRE(ended || !shmt__debug, SHMT_E_HANDLE,
               "lease %016" PRIx64 " of block %" PRIu32 " generation %" PRIu64 " of %" PRIu64
               " bytes has ended: its message was opened before, or collected",
               handle->lease_id, handle->block, handle->generation, handle->nbytes);
  return SHMT_OK;
}

shmt_status shmt__storages_import(const void* handles, uint32_t n, const shmt__checked_bytes* beside,
                                  shmt_storage** out) {
  shmt_status status = SHMT_OK;
  uint32_t i = 0;
  shmt__sessions_lock();
  for (; i < n && status == SHMT_OK; i++) {
    shmt__handle h;
    memcpy(&h, (const char*)handles + i * sizeof h, sizeof h);
    status = import_one(&h, i == 0 ? beside : NULL, &out[i]);
  }
  shmt__sessions_unlock();
  /* Releasing takes the lock. */
  while (status != SHMT_OK && i-- > 0) {
    if (out[i] != NULL) shmt__storage_release(out[i]);
    out[i] = NULL;
  }
  return status;
}

shmt_status shmt__storage_import(const shmt__handle* handle, const shmt__checked_bytes* beside,
                                 shmt_storage** out) {
  shmt_storage* opened = NULL;
  SHMT_TRY(shmt__storages_import(handle, 1, beside, &opened));
  *out = opened;
  return SHMT_OK;
}

/* Others have the cache lines of these blocks, so each takes a while to come: have those of the blocks from `first` to
 * `last` on their way. */
static void prefetch(const shmt__map* m, const shmt__ring_block* blocks, uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; i++)
    if (SHMT_LIKELY(blocks[i].block < m->fixed.n_blocks)) shmt__block_prefetch(m, blocks[i].block);
}

shmt_status shmt__ring_blocks_open(shmt__session* s, const shmt__ring_block* blocks, uint32_t n,
                                   shmt_storage** out) {
  enum { AHEAD = 8 };
  shmt_status status = SHMT_OK;
  uint32_t i = 0;
  shmt__sessions_lock(); /* first: whoever joins again writes the map */
  prefetch(&s->map, blocks, 0, n < AHEAD ? n : AHEAD);
  shmt__request_keep_lock(true); /* the caller has a lock of the ring */
  uint32_t end = shmt__map_blocks_end(&s->map);
  for (; status == SHMT_OK && i < n; i++) {
    shmt__handle h = {.generation = blocks[i].generation,
                      .nbytes = blocks[i].nbytes,
                      .block = blocks[i].block,
                      .session = s->id};
    if (i + AHEAD < n) prefetch(&s->map, blocks, i + AHEAD, i + AHEAD + 1);
    if (h.block == (uint32_t)SHMT_HANDLE_NO_BLOCK)
      status = shmt__storage_adopt(&shmt__allocator_managed, NULL, NULL, 0, SHMT_STORAGE_SHARED,
                                   &out[i]);
    else if (h.block < end)
      status = open_locked(s, &h, &out[i]);
    else
      status = shmt__fail(SHMT_E_HANDLE, "a message names block %" PRIu32 " of %" PRIu32, h.block,
                          end);
  }
  shmt__request_keep_lock(false);
  shmt__sessions_unlock();
  if (status == SHMT_OK) return SHMT_OK;
  /* Releasing takes the lock. */
  for (uint32_t j = 0; j + 1 < i; j++) {
    shmt__storage_release(out[j]);
    out[j] = NULL;
  }
  return status;
}
