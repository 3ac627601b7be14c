/* storage/storage.c -- making, resizing, exchanging and freeing storages. */
#include "storage/storage.h"

#include "base/debug.h"
#include "storage/allocator.h"
#include "storage/blocks.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(shmt_storage) <= 64, "a storage header is one small block");
enum { HEADER_CLASS = 0 };

_Thread_local const shmt__storage_source* shmt__tls_storage_source __attribute__((tls_model("initial-exec")));

static inline shmt_storage* take_header(void) {
  shmt_storage* s = shmt__small_pop(HEADER_CLASS);
  if (SHMT_UNLIKELY(s == NULL)) {
    (void)shmt__fail(SHMT_E_NOMEM, "storage header: tried to allocate %zu bytes", sizeof *s);
    return NULL;
  }
  atomic_init(&s->refs, 1);
  atomic_init(&s->exports, 0);
  s->ctx = NULL;
  s->py_object = NULL;
  return s;
}

/* Like shmt__alloc and shmt__dealloc, but with small blocks inline, since every result of an operator needs them. */
static inline shmt_status take_data(uint64_t nbytes, void** out) {
  if (SHMT_LIKELY(nbytes <= SHMT_SMALL_MAX_BYTES)) {
    *out = shmt__small_alloc(nbytes);
    if (SHMT_LIKELY(*out != NULL)) return SHMT_OK;
  }
  return shmt__alloc(nbytes, out);
}

static inline void drop_data(void* p, uint64_t nbytes) {
  if (SHMT_LIKELY(nbytes <= SHMT_SMALL_MAX_BYTES))
    shmt__small_free(p, nbytes);
  else
    shmt__dealloc(p, nbytes);
}

static inline void fill_storage(shmt_storage* s, const shmt__allocator* a, void* data, void* ctx, uint64_t nbytes,
                                uint32_t flags) {
  s->allocator = a;
  s->data = data;
  s->ctx = ctx;
  s->nbytes = nbytes;
  s->flags = flags;
}

void (*shmt__storage_observed_ends)(const shmt_storage* s);

static SHMT_COLD void tell_of_end(shmt_storage* s) {
  if (shmt__storage_has(s, SHMT_STORAGE_WEAK)) shmt__storage_weak_expire(s);
  if (shmt__storage_has(s, SHMT_STORAGE_OBSERVED)) shmt__storage_observed_ends(s);
}

void shmt__storage_destroy(shmt_storage* s) {
  if (SHMT_UNLIKELY(shmt__storage_has(s, SHMT_STORAGE_WEAK | SHMT_STORAGE_OBSERVED))) tell_of_end(s);
  if (SHMT_LIKELY(s->allocator == &shmt__allocator_default)) {
    if (SHMT_UNLIKELY(shmt__debug) && s->data != NULL)
      memset(s->data, SHMT_DEBUG_POISON, s->nbytes);
    if (s->data != NULL) drop_data(s->data, s->nbytes);
  } else if (s->data != NULL || s->ctx != NULL) {
    s->allocator->free(s->data, s->ctx, s->nbytes);
  }
  shmt__small_push(s, HEADER_CLASS);
}

shmt_status shmt__storage_create(uint64_t nbytes, shmt_storage** out) {
  if (SHMT_UNLIKELY(shmt__tls_storage_source != NULL))
    return shmt__tls_storage_source->create(shmt__tls_storage_source->arg, nbytes, false, out);
  shmt_storage* s = take_header();
  void* data = NULL;
  if (SHMT_UNLIKELY(s == NULL)) return SHMT_E_NOMEM;
  if (SHMT_LIKELY(nbytes > 0)) {
    shmt_status status = take_data(nbytes, &data);
    if (SHMT_UNLIKELY(status != SHMT_OK)) {
      shmt__small_push(s, HEADER_CLASS);
      return status;
    }
  }
  fill_storage(s, &shmt__allocator_default, data, NULL, nbytes, SHMT_STORAGE_RESIZABLE);
  *out = s;
  return SHMT_OK;
}

shmt_status shmt__storage_create_zeroed(uint64_t nbytes, shmt_storage** out) {
  void* data = NULL;
  if (SHMT_UNLIKELY(shmt__tls_storage_source != NULL))
    return shmt__tls_storage_source->create(shmt__tls_storage_source->arg, nbytes, true, out);
  if (nbytes > 0) SHMT_TRY(shmt__alloc_zeroed(nbytes, &data));
  shmt_storage* s = take_header();
  if (SHMT_UNLIKELY(s == NULL)) {
    shmt__dealloc(data, nbytes);
    return SHMT_E_NOMEM;
  }
  fill_storage(s, &shmt__allocator_default, data, NULL, nbytes, SHMT_STORAGE_RESIZABLE);
  *out = s;
  return SHMT_OK;
}

shmt_status shmt__storage_create_from(const shmt__allocator* a, void* arg, uint64_t nbytes, uint32_t flags,
                                      shmt_storage** out) {
  shmt_storage* s = take_header();
  void *data = NULL, *ctx = NULL;
  if (s == NULL) return SHMT_E_NOMEM;
  if (nbytes > 0) {
    shmt_status status = a->malloc(arg, nbytes, &data, &ctx);
    if (status != SHMT_OK) {
      shmt__small_push(s, HEADER_CLASS);
      return status;
    }
  }
  fill_storage(s, a, data, ctx, nbytes, flags);
  *out = s;
  return SHMT_OK;
}

shmt_status shmt__storage_adopt(const shmt__allocator* a, void* data, void* ctx, uint64_t nbytes, uint32_t flags,
                                shmt_storage** out) {
  shmt_storage* s = take_header();
  if (s == NULL) return SHMT_E_NOMEM;
  fill_storage(s, a, data, ctx, nbytes, flags);
  *out = s;
  return SHMT_OK;
}

shmt_status shmt__storage_create_meta(uint64_t nbytes, shmt_storage** out) {
  shmt_storage* s = take_header();
  if (s == NULL) return SHMT_E_NOMEM;
  fill_storage(s, &shmt__allocator_default, NULL, NULL, nbytes, SHMT_STORAGE_META | SHMT_STORAGE_RESIZABLE);
  *out = s;
  return SHMT_OK;
}

static shmt_status check_not_exported(shmt_storage* s, shmt_status code, const char* what) {
  int32_t exports = atomic_load_explicit(&s->exports, memory_order_acquire);
  SHMT_REQUIRE(exports == 0, code,
               "%s: the storage of %" PRIu64 " bytes has %d live export%s (NumPy, DLPack or buffer) that would be left "
               "dangling",
               what, s->nbytes, (int)exports, exports == 1 ? "" : "s");
  return SHMT_OK;
}

shmt_status shmt__storage_resize(shmt_storage* s, uint64_t nbytes) {
  if (nbytes == s->nbytes) return SHMT_OK;
  SHMT_REQUIRE(shmt__storage_has(s, SHMT_STORAGE_RESIZABLE), SHMT_E_RUNTIME,
               "Trying to resize storage that is not resizable");
  if (shmt__storage_has(s, SHMT_STORAGE_META)) {
    s->nbytes = nbytes;
    return SHMT_OK;
  }
  SHMT_TRY(check_not_exported(s, SHMT_E_RUNTIME, "Trying to resize storage that is not resizable"));
  if (nbytes == 0) {
    s->allocator->free(s->data, s->ctx, s->nbytes);
    s->data = s->ctx = NULL;
  } else if (s->data == NULL) {
    SHMT_REQUIRE(s->allocator->realloc != NULL, SHMT_E_RUNTIME, "Trying to resize storage that is not resizable");
    SHMT_TRY(s->allocator->malloc(NULL, nbytes, &s->data, &s->ctx));
  } else {
    SHMT_REQUIRE(s->allocator->realloc != NULL, SHMT_E_RUNTIME, "Trying to resize storage that is not resizable");
    SHMT_TRY(s->allocator->realloc(&s->data, &s->ctx, s->nbytes, nbytes));
  }
  s->nbytes = nbytes;
  return SHMT_OK;
}

shmt_status shmt__storage_exchange(shmt_storage* s, shmt__bytes* bytes, uint32_t flags) {
  SHMT_TRY(check_not_exported(s, SHMT_E_BUFFER, "share_memory_"));
  const shmt__bytes old = {s->allocator, s->data, s->ctx};
  /* relaxed: a thread that has not seen the flags yet may read which allocator the storage has. */
  __atomic_store_n(&s->allocator, bytes->allocator, __ATOMIC_RELAXED);
  s->data = bytes->data;
  s->ctx = bytes->ctx;
  /* release: the new bytes become visible before the flags. Another thread may make a weak reference meanwhile. */
  uint32_t before = __atomic_load_n(&s->flags, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&s->flags, &before, flags | (before & SHMT_STORAGE_WEAK), true, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
  *bytes = old;
  return SHMT_OK;
}
