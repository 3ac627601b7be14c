/* storage/storage.h -- a reference-counted buffer; knows nothing of shapes.
 *
 * A storage names the allocator of its bytes (storage/allocator.h), which frees them. The address of the bytes
 * changes only by resize and by exchange (share_memory_() moves private bytes into shared memory once). Both
 * refuse while the storage has exports.
 */
#ifndef SHMT_STORAGE_STORAGE_H
#define SHMT_STORAGE_STORAGE_H

#include "base/error.h"
#include "base/refs.h"
#include "base/types.h"

#include <stdatomic.h>

/* Allocates and frees the bytes of storages. There is one static instance for each kind. */
typedef struct shmt__allocator {
  const char* name; /* "default", "blob", "mapped_file", "managed", ... */
  /* nbytes > 0. On success *data is 64-byte aligned, and *ctx is what free needs. */
  shmt_status (*malloc)(void* arg, uint64_t nbytes, void** data, void** ctx);
  /* Resize, and keep the first min(old, new) bytes. NULL: storages of this kind cannot be resized. */
  shmt_status (*realloc)(void** data, void** ctx, uint64_t old_nbytes, uint64_t new_nbytes);
  void (*free)(void* data, void* ctx, uint64_t nbytes); /* never fails */
} shmt__allocator;

enum {
  SHMT_STORAGE_RESIZABLE = 1 << 0,
  SHMT_STORAGE_SHARED = 1 << 1,    /* other processes can map these bytes */
  SHMT_STORAGE_READ_ONLY = 1 << 2,
  SHMT_STORAGE_META = 1 << 3,      /* no data at all */
  SHMT_STORAGE_WEAK = 1 << 4,      /* weak references exist (storage/weak.c) */
  SHMT_STORAGE_OBSERVED = 1 << 5,  /* shmt__storage_observed_ends is told when it is freed */
};

struct shmt_storage {
  atomic_int_least32_t refs;
  atomic_int_least32_t exports; /* live foreign views (NumPy, DLPack, buffers); pins the address */
  void* data;                   /* NULL when nbytes == 0 or Meta */
  uint64_t nbytes;
  uint32_t flags;
  const shmt__allocator* allocator;
  void* ctx;                    /* the allocator's; for "managed" the block, see ipc/ */
  void* py_object;              /* the live Python wrapper; borrowed */
};

/* Has it one of these flags? relaxed: another thread may share the storage, or make a weak reference, just now. */
static inline bool shmt__storage_has(const shmt_storage* s, uint32_t flags) {
  return (__atomic_load_n(&s->flags, __ATOMIC_RELAXED) & flags) != 0;
}

void shmt__storage_destroy(shmt_storage* s);
static inline void shmt__storage_retain(shmt_storage* s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}
static inline void shmt__storage_release(shmt_storage* s) {
  /* See Note [The last holder]. The flags are read after the count, because a holder may set them. A process that
   * receives a handle may find a shared storage in a table. */
  const uint32_t found_elsewhere = SHMT_STORAGE_WEAK | SHMT_STORAGE_SHARED;
  if (s && ((shmt__is_last_reference(&s->refs) && !shmt__storage_has(s, found_elsewhere)) ||
            shmt__drop_reference(&s->refs)))
    shmt__storage_destroy(s);
}
static inline void shmt__auto_shmt_storage(shmt_storage** p) { shmt__storage_release(*p); }

/* Makes a thread's new storages somewhere else than in private memory. While a thread has set one, every storage
 * that it creates is made by it; the function that sets it also resets it. */
typedef struct shmt__storage_source {
  shmt_status (*create)(void* arg, uint64_t nbytes, bool zeroed, shmt_storage** out);
  void* arg;
} shmt__storage_source;
extern _Thread_local const shmt__storage_source* shmt__tls_storage_source __attribute__((tls_model("initial-exec")));

/* Called before a storage with SHMT_STORAGE_OBSERVED is freed. Installed before any has that flag. */
extern void (*shmt__storage_observed_ends)(const shmt_storage* s);

/* Make a storage of uninitialised bytes, from the caching default allocator or the thread's shmt__storage_source.
 * Errors: SHMT_E_NOMEM. Of this and the functions below, *out is a new reference. */
shmt_status shmt__storage_create(uint64_t nbytes, shmt_storage** out);
/* The same, with zeros; large blocks are fresh pages, not yet touched. */
shmt_status shmt__storage_create_zeroed(uint64_t nbytes, shmt_storage** out);
/* The same, with bytes from another allocator; arg goes to its malloc. nbytes may be 0. */
shmt_status shmt__storage_create_from(const shmt__allocator* a, void* arg, uint64_t nbytes, uint32_t flags,
                                      shmt_storage** out);
/* Make a storage of existing bytes. Consumes (data, ctx) on success: allocator->free gets them at the end. */
shmt_status shmt__storage_adopt(const shmt__allocator* a, void* data, void* ctx, uint64_t nbytes,
                                uint32_t flags, shmt_storage** out);
/* Make a storage without data, for Meta tensors. */
shmt_status shmt__storage_create_meta(uint64_t nbytes, shmt_storage** out);
/* Resize. Errors: SHMT_E_RUNTIME "Trying to resize storage that is not resizable" (also while exported),
 * SHMT_E_NOMEM. */
shmt_status shmt__storage_resize(shmt_storage* s, uint64_t nbytes);
/* Bytes without a storage; their owner frees them by allocator->free. */
typedef struct shmt__bytes {
  const shmt__allocator* allocator;
  void *data, *ctx;
} shmt__bytes;
/* Exchange the bytes of s with *bytes, which are as many; share_memory_() uses this. A thread that sees the new flags
 * also sees the new bytes. Errors: SHMT_E_BUFFER while exports > 0; then nothing is exchanged. */
shmt_status shmt__storage_exchange(shmt_storage* s, shmt__bytes* bytes, uint32_t flags);

/* --- weak references (storage/weak.c) ------------------------------------------ */

typedef struct shmt__storage_weak shmt__storage_weak;
/* Make a reference that does not keep s alive; shmt__storage_weak_free frees it. Errors: SHMT_E_NOMEM. */
shmt_status shmt__storage_weak_create(shmt_storage* s, shmt__storage_weak** out);
/* A new reference to the storage, or NULL when the storage was destroyed. */
shmt_storage* shmt__storage_weak_lock(shmt__storage_weak* weak);
void shmt__storage_weak_free(shmt__storage_weak* weak); /* NULL is fine */
/* Let all weak references to s expire, because s is being destroyed. */
void shmt__storage_weak_expire(shmt_storage* s);

#endif
