/* ipc/handle/share.c -- storages in shared memory: making, sending, receiving. */
#include "ipc/handle/share.h"

#include "api/error.h"
#include "ipc/session/request.h"
#include "ipc/handle/lease_channel.h"

#include "base/debug.h"
#include "ipc/handle/storage_files.h"
#include "ipc/handle/saved_descriptors.h"
#include "ipc/session/session.h"
#include "ipc/handle/unsent_leases.h"
#include "os/failpoint.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

static atomic_int strategy; /* relaxed: a setting */

void shmt__sharing_set_strategy(int s) {
  atomic_store_explicit(&strategy, s, memory_order_relaxed);
}
int shmt__sharing_strategy(void) { return atomic_load_explicit(&strategy, memory_order_relaxed); }

static void* data_of(const shmt__held_block* h) {
  const shmt__session* s = h->session;
  if (h->map != NULL) return h->map;
  return (s->base != NULL ? s->base : s->reading_base) + h->offset;
}

/* Where the holding's bytes lie in the arena: read once, as any member can write there.
 * Errors: SHMT_E_HANDLE when that is no place for them. */
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

/* Of a process that has the arena for reading only. */
static uint32_t flags_of(const shmt__held_block* h) {
  bool reading = h->map == NULL && h->session->base == NULL;
  return SHMT_STORAGE_SHARED | (reading ? (uint32_t)SHMT_STORAGE_READ_ONLY : 0u);
}

shmt_status shmt__arena_block_create(shmt__session* s, uint64_t nbytes, bool is_filled_next,
                                     shmt__held_block** out) {
  uint32_t block = 0;
  uint64_t generation = 0;
  SHMT_TRY(shmt__arena_alloc(&s->arena, nbytes, is_filled_next, &block, &generation));
  shmt_status status = shmt__session_add_held_block(s, block, generation, out);
  /* Not when it is in use here already: another member wrote over its state. */
  if (status == SHMT_E_NOMEM) shmt__arena_free(&s->arena, block);
  if (status != SHMT_OK) return status;
  (*out)->is_owned = true;
  (*out)->nbytes = nbytes;
  (*out)->offset = shmt__arena_offset(&s->arena, block);
  return SHMT_OK;
}

/* --- tracing --- */

void (*shmt__allocation_site)(char* out, size_t capacity);

/* Note where the holding's storage was made. Without memory for it there is no note. */
static void write_site(shmt__session* s, const shmt__held_block* h, const char* text) {
  shmt__site* site = &s->map.sites[h->block];
  uint64_t at = (uint64_t)((char*)site - (char*)s->map.control);
  if (text[0] == '\0' || shmt__os_populate(s->control_fd, NULL, at, sizeof *site) != SHMT_OK) return;
  site->generation = 0; /* fits no block while the text is being written */
  memcpy(site->text, text, sizeof site->text);
  site->generation = h->generation;
  /* release: who sees it finds the text. */
  atomic_store_explicit(&s->map.control->has_sites, 1, memory_order_release);
}

/* --- the allocator --- */

/* What a caller of managed_malloc may ask for. */
typedef struct wanted {
  int how;             /* a strategy */
  bool is_filled_next; /* pages may be missing, until fill() */
} wanted;

/* arg: NULL, or a wanted. */
static shmt_status managed_malloc(void* arg, uint64_t nbytes, void** data, void** ctx) {
  wanted w = {shmt__sharing_strategy(), false};
  if (arg != NULL) w = *(const wanted*)arg;
  shmt__session* s = NULL;
  shmt__held_block* h = NULL;
  char site[sizeof(((shmt__site*)NULL)->text)] = "";
  if (SHMT_UNLIKELY(shmt__allocation_site != NULL)) shmt__allocation_site(site, sizeof site);
  shmt__sessions_lock();
  shmt_status status = shmt__session_open_default(&s);
  bool as_file = w.how == SHMT_SHARING_FILE_DESCRIPTOR;
  if (status == SHMT_OK && as_file) {
    status = shmt__file_block_create(s, nbytes, w.is_filled_next, &h);
    /* Too many open files, here or in the manager: the arena needs none. */
    as_file = status != SHMT_E_OS;
    if (status == SHMT_OK) h->is_owned = true;
    if (!as_file) {
      shmt_error_clear();
      status = SHMT_OK;
    }
  }
  if (status == SHMT_OK && !as_file)
    status = shmt__arena_block_create(s, nbytes, w.is_filled_next, &h);
  if (status == SHMT_OK) {
    *data = data_of(h);
    *ctx = h;
    if (SHMT_UNLIKELY(shmt__allocation_site != NULL)) write_site(s, h, site);
  }
  shmt__sessions_unlock();
  return status;
}

static void managed_free(void* data, void* ctx, uint64_t nbytes) {
  (void)data;
  (void)nbytes;
  if (ctx == NULL) return;
  shmt__sessions_lock();
  shmt__session_drop_held_block(ctx);
  shmt__sessions_unlock();
}

const shmt__allocator shmt__allocator_managed = {
    .name = "managed", .malloc = managed_malloc, .free = managed_free};

/* --- making --- */

static void remember_storage(shmt__held_block* h, shmt_storage* s) {
  if (h == NULL) return;
  shmt__sessions_lock();
  h->storage = s;
  shmt__sessions_unlock();
}

/* Taken while a storage's bytes move, before the sessions' lock; several, so that a thread seldom waits for the bytes of
 * another storage. */
static pthread_mutex_t movers[] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
enum { N_MOVERS = sizeof movers / sizeof *movers };

void shmt__sharing_lock(void) {
  for (int i = 0; i < N_MOVERS; i++) (void)pthread_mutex_lock(&movers[i]);
}
void shmt__sharing_unlock(void) {
  for (int i = N_MOVERS - 1; i >= 0; i--) (void)pthread_mutex_unlock(&movers[i]);
}

/* Store the first bytes of a block that was made to be filled. */
static shmt_status fill(shmt__held_block* h, const void* bytes, uint64_t nbytes) {
  if (h->map == NULL)
    return shmt__arena_fill(&h->session->arena, h->block, h->offset, bytes, nbytes);
  if (h->has_pages) {
    /* In one call, for less than the faults would cost. */
    if (!h->is_entered) SHMT_TRY(shmt__os_populate(-1, h->map, 0, nbytes));
    memcpy(h->map, bytes, nbytes);
    h->is_entered = true;
    return SHMT_OK;
  }
  shmt__sessions_lock();
  int fd = shmt__os_dup(shmt__saved_descriptor(h)); /* another thread may close the one that is kept */
  shmt__sessions_unlock();
  shmt_status status = fd >= 0 ? shmt__os_write_pages(fd, 0, bytes, nbytes)
                               : shmt__os_populate(-1, h->map, 0, nbytes);
  if (fd < 0 && status == SHMT_OK) memcpy(h->map, bytes, nbytes);
  shmt__os_close(fd);
  return status;
}

/* Move the bytes of s to `fresh` unless another thread has moved them meanwhile. `fresh` becomes what is left over. */
static shmt_status move_bytes(shmt_storage* s, uint64_t nbytes, shmt__bytes* fresh) {
  pthread_mutex_t* lock = &movers[((uintptr_t)s >> 6) % N_MOVERS]; /* headers are 64 bytes apart */
  shmt_status status = SHMT_OK;

  (void)pthread_mutex_lock(lock);
  if (!shmt__storage_is_shared(s)) {
    if (nbytes > 0) status = fill(fresh->ctx, s->data, nbytes);
    if (status == SHMT_OK) {
      remember_storage(fresh->ctx, s); /* first: who sees that it is shared may send it */
      status = shmt__storage_exchange(s, fresh, SHMT_STORAGE_SHARED);
    }
  }
  (void)pthread_mutex_unlock(lock);
  return status;
}

static shmt_status share_as(shmt_storage* s, int how) {
  shmt__bytes bytes = {.allocator = &shmt__allocator_managed};
  if (shmt__storage_is_shared(s)) return SHMT_OK;
  SHMT_REQUIRE(!(__atomic_load_n(&s->flags, __ATOMIC_RELAXED) & SHMT_STORAGE_META), SHMT_E_NOT_IMPLEMENTED,
               "share_memory_(): a meta storage of %" PRIu64 " bytes has no data to share",
               s->nbytes);
  int32_t exports = atomic_load_explicit(&s->exports, memory_order_acquire);
  SHMT_REQUIRE(exports == 0, SHMT_E_BUFFER,
               "share_memory_(): the storage of %" PRIu64
               " bytes has %d live export%s (NumPy, DLPack or buffer), whose "
               "memory would be left behind",
               s->nbytes, (int)exports, exports == 1 ? "" : "s");
  const uint64_t nbytes = s->nbytes;
  if (nbytes > 0) SHMT_TRY(managed_malloc(&(wanted){how, true}, nbytes, &bytes.data, &bytes.ctx));
  shmt_status status = move_bytes(s, nbytes, &bytes);
  /* Without the lock: the end of foreign bytes may call Python. */
  if (bytes.data != NULL || bytes.ctx != NULL) bytes.allocator->free(bytes.data, bytes.ctx, nbytes);
  return status;
}

shmt_status shmt__storage_share(shmt_storage* s) { return share_as(s, shmt__sharing_strategy()); }
shmt_status shmt__storage_share_as_file(shmt_storage* s) {
  return share_as(s, SHMT_SHARING_FILE_DESCRIPTOR);
}

shmt_status shmt__storage_create_shared(uint64_t nbytes, int how, shmt_storage** out) {
  SHMT_TRY(
      shmt__storage_create_from(&shmt__allocator_managed, &(wanted){how, false}, nbytes, SHMT_STORAGE_SHARED, out));
  remember_storage((*out)->ctx, *out);
  return SHMT_OK;
}

static shmt_status create_in_place(void* arg, uint64_t nbytes, bool zeroed, shmt_storage** out) {
  (void)arg;
  SHMT_TRY(shmt__storage_create_shared(nbytes, shmt__sharing_strategy(), out));
  if (zeroed && nbytes > 0) memset((*out)->data, 0, nbytes);
  return SHMT_OK;
}

const shmt__place shmt__place_shared = {.create = create_in_place};

shmt_status shmt__storage_of_held_block(shmt__held_block* h, uint64_t nbytes, shmt_storage** out) {
  void* data = h == NULL ? NULL : data_of(h);
  shmt_status status =
      shmt__storage_adopt(&shmt__allocator_managed, data, h, nbytes, SHMT_STORAGE_SHARED, out);
  if (status != SHMT_OK)
    managed_free(NULL, h, nbytes);
  else
    remember_storage(h, *out);
  return status;
}

/* --- sending --- */

shmt_status shmt__storage_check_sendable(const shmt_storage* storage) {
  SHMT_REQUIRE(!(storage->flags & SHMT_STORAGE_READ_ONLY), SHMT_E_RUNTIME,
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
  *out = (shmt__handle){.magic = SHMT_HANDLE_MAGIC};
  if (out_secret != NULL) *out_secret = 0;
  if (storage->nbytes == 0) {
    out->block = (uint32_t)SHMT_HANDLE_NO_BLOCK;
    out->check = shmt__handle_check_of(0, out);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__storage_check_sendable(storage));
  shmt__held_block* h = storage->ctx;
  shmt__session* s = h->session;
  SHMT_REQUIRE(h->generation != 0 && !s->is_lost, SHMT_E_HANDLE,
               "the storage of %" PRIu64 " bytes belongs to session %016" PRIx64
               ", whose manager is gone; it can be used here but not sent",
               storage->nbytes, s->id);
  if (SHMT_UNLIKELY(shmt__debug)) SHMT_TRY(shmt__held_block_check(h, "send"));
  shmt__lease_ticket ticket = {0};
  if (lease) {
    SHMT_TRY(shmt__lease_take(&s->map, s->control_fd, &s->leases, s->client, h->block, h->generation,
                              0, &ticket));
    shmt__sent_messages_track();
  }
  out->session = s->id;
  out->world = s->world;
  out->generation = h->generation;
  out->nbytes = storage->nbytes;
  out->block = h->block;
  out->lease_id = ticket.id;
  out->lease_place = ticket.place;
  out->check = shmt__handle_check_of(s->map.fixed.secret, out);
  if (out_secret != NULL) *out_secret = s->map.fixed.secret;
  return SHMT_OK;
}

/* Under the sessions' lock. */
static void unexport_locked(const shmt__handle* h) {
  shmt__session* s = h->lease_id == 0 ? NULL : shmt__session_lookup(h->session, h->world);
  const shmt__lease_ticket ticket = {h->lease_id, h->lease_place};
  if (s != NULL) (void)shmt__lease_end(&s->map, &ticket, s->client);
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
    unexport_locked(&h);
  }
  shmt__sessions_unlock();
  return status;
}

void shmt__storage_unexport(const shmt__handle* h) {
  shmt__sessions_lock();
  unexport_locked(h);
  shmt__sessions_unlock();
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
  shmt__block_add_plain_lease(b, ((const shmt__held_block*)s->ctx)->generation);
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

/* --- receiving --- */

static shmt_status check_bytes(uint64_t secret, const shmt__checked_bytes* beside) {
  if (beside == NULL) return SHMT_OK;
  uint32_t check = shmt__handle_checksum(secret, beside->data, beside->nbytes);
  SHMT_REQUIRE(check == beside->check, SHMT_E_HANDLE,
               "forged or damaged tensor: check sum %08" PRIx32 ", its contents give %08" PRIx32,
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

/* Count one more reference of a storage that may be at its end; false when it is. */
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
         atomic_load_explicit(&s->map.slabs[slab].state, memory_order_relaxed) == SHMT_SLAB_FILE;
}

/* The storage over the block of a handle that was found good. */
static shmt_status find_or_open(shmt__session* s, const shmt__handle* handle, shmt_storage** out) {
  shmt__held_block* h = shmt__session_held_block(s, handle->block);
  if (h == NULL) {
    SHMT_TRY(take_hold(s, handle, &h));
  } else if (h->generation != handle->generation) {
    return fail_stale(handle, &s->map.blocks[handle->block]);
  } else if (SHMT_UNLIKELY(shmt__debug) && shmt__held_block_check(h, "receive") != SHMT_OK) {
    return SHMT_E_HANDLE;
  } else if (h->storage != NULL && try_retain(h->storage)) {
    *out = h->storage;
    return SHMT_OK;
  } else if (h->map != NULL || !is_file(s, handle->block)) {
    SHMT_TRY(shmt__session_supersede_held_block(h, &h));
  } /* else: another thread was opening it when our parent forked */
  shmt_status status = SHMT_OK;
  if (h->nbytes == 0)
    status = is_file(s, handle->block) ? shmt__file_block_open(h, handle->nbytes)
                                       : locate(h, handle->nbytes);
  else if (handle->nbytes != h->nbytes)
    status = fail_size(handle, h->nbytes);
  if (status == SHMT_OK) h->nbytes = handle->nbytes;
  if (status == SHMT_OK)
    status = shmt__storage_adopt(&shmt__allocator_managed, data_of(h), h, handle->nbytes,
                                 flags_of(h), out);
  if (status == SHMT_OK)
    h->storage = *out;
  else
    shmt__session_drop_held_block(h);
  return status;
}

/* A file is asked for, perhaps without the lock: whoever has the turn is alone with half a holding. */
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
      "forged or damaged handle: check sum %08" PRIx32 " does not fit block %" PRIu32
      " generation %" PRIu64 " of %" PRIu64 " bytes",
      handle->check, handle->block, handle->generation, handle->nbytes);
  SHMT_TRY(check_bytes(s->map.fixed.secret, beside));
  return open_locked(s, handle, out);
}

/* Under the sessions' lock. On failure *out may be a storage all the same, to be released without it. */
static shmt_status import_one(const shmt__handle* handle, const shmt__checked_bytes* beside,
                              shmt_storage** out) {
  shmt__session* s = NULL;
  *out = NULL;
  SHMT_REQUIRE(handle->magic == SHMT_HANDLE_MAGIC, SHMT_E_HANDLE,
               "not a handle: it begins with %08" PRIx32 ", expected %08" PRIx32, handle->magic,
               SHMT_HANDLE_MAGIC);
  if (handle->block == (uint32_t)SHMT_HANDLE_NO_BLOCK) {
    SHMT_REQUIRE(handle->check == shmt__handle_check_of(0, handle) && handle->nbytes == 0, SHMT_E_HANDLE,
                 "forged or damaged handle: check sum %08" PRIx32 " does not fit an empty storage",
                 handle->check);
    SHMT_TRY(check_bytes(0, beside));
    return shmt__storage_adopt(&shmt__allocator_managed, NULL, NULL, 0, SHMT_STORAGE_SHARED, out);
  }
  SHMT_TRY(shmt__session_open(handle->session, handle->world, &s));
  SHMT_TRY(import_locked(s, handle, beside, out));
  if (handle->lease_id == 0) return SHMT_OK;
  SHMT_FAILPOINT(import_held);
  /* Only now: until here the message kept the block, from now on our hold does. */
  const shmt__lease_ticket ticket = {handle->lease_id, handle->lease_place};
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
  while (status != SHMT_OK && i-- > 0)
    if (out[i] != NULL) shmt__storage_release(out[i]);
  return status;
}

shmt_status shmt__storage_import(const shmt__handle* handle, const shmt__checked_bytes* beside,
                                 shmt_storage** out) {
  shmt_storage* opened = NULL;
  SHMT_TRY(shmt__storages_import(handle, 1, beside, &opened));
  *out = opened;
  return SHMT_OK;
}

shmt_status shmt__ring_blocks_open(shmt__session* s, const shmt__ring_block* blocks, uint32_t n,
                                   shmt_storage** out) {
  shmt_status status = SHMT_OK;
  uint32_t i = 0;
  shmt__sessions_lock();
  shmt__request_keep_lock(true); /* the caller has the ring's */
  uint32_t end = shmt__map_blocks_end(&s->map);
  for (; status == SHMT_OK && i < n; i++) {
    shmt__handle h = {.generation = blocks[i].generation,
                      .nbytes = blocks[i].nbytes,
                      .block = blocks[i].block,
                      .session = s->id};
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
  for (uint32_t j = 0; j + 1 < i; j++) shmt__storage_release(out[j]);
  return status;
}
