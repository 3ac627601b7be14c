/* ipc/handle/share.c -- makes storages in shared memory, and moves the bytes of private ones there. */
#include "ipc/handle/share.h"

#include "api/error.h"
#include "base/debug.h"
#include "ipc/handle/release.h"
#include "ipc/handle/saved_descriptors.h"
#include "ipc/handle/storage_files.h"
#include "ipc/session/move_locks.h"
#include "ipc/session/session.h"
#include "os/memfd.h"
#include "os/process.h"
#include "shm/block.h"

#include <inttypes.h>
#include <string.h>

enum { FEW_BYTES = 16 << 10 }; /* are copied in less time than a descriptor is duplicated */

static atomic_int strategy; /* relaxed: a setting */

void shmt__sharing_set_strategy(int s) {
  atomic_store_explicit(&strategy, s, memory_order_relaxed);
}
int shmt__sharing_strategy(void) { return atomic_load_explicit(&strategy, memory_order_relaxed); }

shmt_status shmt__arena_block_create(shmt__session* s, uint64_t nbytes, uint64_t n_paged, shmt__held_block** out) {
  uint32_t block = 0;
  uint64_t generation = 0;
  SHMT_TRY(shmt__arena_alloc(&s->arena, nbytes, n_paged, &block, &generation));
  shmt_status status = shmt__session_add_held_block(s, block, generation, out);
  /* Do not free it when it is in use here already: a member has overwritten its state. */
  if (status == SHMT_E_NOMEM) shmt__arena_free(&s->arena, block);
  if (status != SHMT_OK) return status;
  shmt__held_block_own(*out);
  (*out)->nbytes = nbytes;
  (*out)->offset = shmt__arena_offset(&s->arena, block);
  return SHMT_OK;
}

/* --- tracing --- */

void (*shmt__allocation_site)(char* out, size_t capacity);

/* Note where the storage of the held block was made. When memory is out there is no note. */
static void write_site(shmt__session* s, const shmt__held_block* h, const char* text) {
  shmt__site* site = &s->map.sites[h->block];
  uint64_t at = (uint64_t)((char*)site - (char*)s->map.control);
  if (text[0] == '\0' || shmt__os_populate(shmt__descriptor_number(&s->control), s->map.control, at,
                                           sizeof *site) != SHMT_OK)
    return;
  site->generation = 0; /* fits no block while the text is being written */
  memcpy(site->text, text, sizeof site->text);
  site->generation = h->generation;
  /* release: who sees it finds the text. */
  atomic_store_explicit(&s->map.control->has_sites, 1, memory_order_release);
}

/* --- the allocator --- */

/* What a caller of managed_malloc may specify. */
typedef struct wanted {
  int how;          /* a strategy */
  uint64_t n_paged; /* so many bytes get pages now; 0: none, all are filled next */
} wanted;

/* A block that is filled next. Whether the program has closed the arena's descriptor is asked only where pages are
 * missing: it is a system call, and most blocks were used before. *out is NULL if it must have pages now. */
static shmt_status create_to_fill(shmt__session* s, uint64_t nbytes, shmt__held_block** out) {
  SHMT_TRY(shmt__arena_block_create(s, nbytes, 0, out));
  if (shmt__arena_has_pages(&s->arena, (*out)->block, nbytes) || shmt__descriptor_number(&s->arena_file) >= 0)
    return SHMT_OK;
  shmt__session_drop_held_block(*out);
  *out = NULL;
  return SHMT_OK;
}

/* Old kernels need the arena's descriptor to give a block pages. If the program has closed it, get another. */
static shmt_status create_in_arena(shmt__session* s, uint64_t nbytes, uint64_t n_paged, shmt__held_block** out) {
  int fd = -1;
  if (n_paged == 0) {
    SHMT_TRY(create_to_fill(s, nbytes, out));
    if (*out != NULL) return SHMT_OK;
    n_paged = nbytes;
  }
  shmt_status status = shmt__arena_block_create(s, nbytes, n_paged, out);
  if (status != SHMT_E_OS || shmt__descriptor_number(&s->arena_file) >= 0) return status;
  SHMT_TRY(shmt__session_arena_number(s, &fd));
  return shmt__arena_block_create(s, nbytes, n_paged, out);
}

/* arg: NULL, or a wanted. */
static shmt_status managed_malloc(void* arg, uint64_t nbytes, void** data, void** ctx) {
  wanted w = {shmt__sharing_strategy(), nbytes};
  if (arg != NULL) w = *(const wanted*)arg;
  shmt__session* s = NULL;
  shmt__held_block* h = NULL;
  char site[sizeof(((shmt__site*)NULL)->text)] = "";
  if (SHMT_UNLIKELY(shmt__allocation_site != NULL)) shmt__allocation_site(site, sizeof site);
  shmt__sessions_lock();
  shmt_status status = shmt__session_open_default(&s);
  bool as_file = w.how == SHMT_SHARING_FILE_DESCRIPTOR;
  if (status == SHMT_OK && as_file) {
    status = shmt__file_block_create(s, nbytes, w.n_paged == 0, &h);
    /* Too many files are open, here or in the manager. Use the arena, which needs none. */
    as_file = status != SHMT_E_OS;
    if (status == SHMT_OK) shmt__held_block_own(h);
    if (!as_file) {
      shmt_error_clear();
      status = SHMT_OK;
    }
  }
  if (status == SHMT_OK && !as_file) status = create_in_arena(s, nbytes, w.n_paged, &h);
  if (status == SHMT_OK) {
    *data = shmt__held_block_data(h);
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

/* Store the first bytes of a block that was made to be filled. */
static shmt_status fill_block(shmt__held_block* h, const void* bytes, uint64_t nbytes) {
  if (h->map == NULL)
    return shmt__arena_fill(&h->session->arena, h->block, h->offset, bytes, nbytes);
  if (h->has_pages) {
    /* One call costs less than the faults would. */
    if (!h->is_entered) SHMT_TRY(shmt__os_populate(-1, h->map, 0, nbytes));
    memcpy(h->map, bytes, nbytes);
    h->is_entered = true;
    return SHMT_OK;
  }
  shmt__sessions_lock();
  int saved = shmt__descriptor_number(shmt__saved_descriptor(h));
  bool is_short = saved >= 0 && nbytes <= FEW_BYTES;
  shmt_status status = is_short ? shmt__os_write_pages(saved, 0, bytes, nbytes) : SHMT_OK;
  /* A duplicate: without the lock another thread may close the saved one. */
  int fd = is_short ? -1 : shmt__os_dup(saved);
  shmt__sessions_unlock();
  if (is_short) return status;
  status = fd >= 0 ? shmt__os_write_pages(fd, 0, bytes, nbytes) : shmt__os_populate(-1, h->map, 0, nbytes);
  if (fd < 0 && status == SHMT_OK) memcpy(h->map, bytes, nbytes);
  shmt__os_close(fd);
  return status;
}

/* Move the bytes of s to `fresh`, unless another thread has moved them meanwhile. `fresh` gets the bytes that are left
 * over. */
static shmt_status move_bytes(shmt_storage* s, uint64_t nbytes, shmt__bytes* fresh) {
  shmt_status status = SHMT_OK;
  shmt__move_lock(s);
  if (!shmt__storage_is_shared(s)) {
    if (nbytes > 0) status = fill_block(fresh->ctx, s->data, nbytes);
    if (status == SHMT_OK) {
      remember_storage(fresh->ctx, s); /* first: a thread that sees that it is shared may send it */
      status = shmt__storage_exchange(s, fresh, SHMT_STORAGE_SHARED);
    }
  }
  shmt__move_unlock(s);
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
  if (nbytes > 0) SHMT_TRY(managed_malloc(&(wanted){how, 0}, nbytes, &bytes.data, &bytes.ctx));
  shmt_status status = move_bytes(s, nbytes, &bytes);
  /* Without the lock: freeing foreign bytes may call Python. */
  if (bytes.data != NULL || bytes.ctx != NULL) bytes.allocator->free(bytes.data, bytes.ctx, nbytes);
  return status;
}

shmt_status shmt__storage_share(shmt_storage* s) { return share_as(s, shmt__sharing_strategy()); }
shmt_status shmt__storage_share_as_file(shmt_storage* s) {
  return share_as(s, SHMT_SHARING_FILE_DESCRIPTOR);
}

static shmt_status create_shared(const wanted* w, uint64_t nbytes, shmt_storage** out) {
  SHMT_TRY(shmt__storage_create_from(&shmt__allocator_managed, (void*)(uintptr_t)w, nbytes, SHMT_STORAGE_SHARED, out));
  remember_storage((*out)->ctx, *out);
  return SHMT_OK;
}

shmt_status shmt__storage_create_shared(uint64_t nbytes, int how, shmt_storage** out) {
  return create_shared(&(wanted){how, nbytes}, nbytes, out);
}

shmt_status shmt__storage_create_sparse(uint64_t nbytes, uint64_t n_paged, shmt_storage** out) {
  SHMT_ASSERT(n_paged > 0);
  return create_shared(&(wanted){SHMT_SHARING_FILE_SYSTEM, n_paged}, nbytes, out);
}

static shmt_status create_in_place(void* arg, uint64_t nbytes, bool zeroed, shmt_storage** out) {
  (void)arg;
  SHMT_TRY(shmt__storage_create_shared(nbytes, shmt__sharing_strategy(), out));
  if (zeroed && nbytes > 0) memset((*out)->data, 0, nbytes);
  return SHMT_OK;
}

const shmt__storage_source shmt__place_shared = {.create = create_in_place};

shmt_status shmt__storage_of_held_block(shmt__held_block* h, uint64_t nbytes, shmt_storage** out) {
  void* data = h == NULL ? NULL : shmt__held_block_data(h);
  shmt_status status =
      shmt__storage_adopt(&shmt__allocator_managed, data, h, nbytes, SHMT_STORAGE_SHARED, out);
  if (status != SHMT_OK)
    managed_free(NULL, h, nbytes);
  else
    remember_storage(h, *out);
  return status;
}

shmt_status shmt__storage_create_in(shmt__session* s, uint64_t nbytes, shmt_storage** out) {
  return shmt__storage_create_sparse_in(s, nbytes, nbytes, out);
}

shmt_status shmt__storage_create_sparse_in(shmt__session* s, uint64_t nbytes, uint64_t n_paged, shmt_storage** out) {
  shmt__held_block* h = NULL;
  shmt__sessions_lock();
  shmt_status status = shmt__session_ensure_client(s);
  if (status == SHMT_OK && nbytes > 0) status = shmt__arena_block_create(s, nbytes, n_paged, &h);
  shmt__sessions_unlock();
  if (status != SHMT_OK) return status;
  return shmt__storage_of_held_block(h, nbytes, out);
}
