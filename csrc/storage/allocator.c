/* storage/allocator.c -- the caching default allocator. */
#include "storage/allocator.h"

#include "os/pages.h"
#include "storage/blocks.h"

#include <inttypes.h>
#include <string.h>

/* --- default -------------------------------------------------------------------- */

static SHMT_COLD shmt_status fail_nomem(uint64_t nbytes) {
  SHMT_FAIL(SHMT_E_NOMEM,
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate %" PRIu64
            " bytes. Error code 12 (Cannot allocate memory)",
            nbytes);
}

shmt_status shmt__alloc(uint64_t nbytes, void** out) {
  void* p = nbytes <= SHMT_SMALL_MAX_BYTES ? shmt__small_alloc(nbytes) : shmt__large_alloc(nbytes, false);
  if (SHMT_UNLIKELY(p == NULL)) return fail_nomem(nbytes);
  *out = p;
  return SHMT_OK;
}

shmt_status shmt__alloc_zeroed(uint64_t nbytes, void** out) {
  void* p;
  if (nbytes <= SHMT_SMALL_MAX_BYTES) {
    p = shmt__small_alloc(nbytes);
    if (SHMT_LIKELY(p != NULL)) memset(p, 0, nbytes);
  } else {
    p = shmt__large_alloc(nbytes, true);
  }
  if (SHMT_UNLIKELY(p == NULL)) return fail_nomem(nbytes);
  *out = p;
  return SHMT_OK;
}

void shmt__dealloc(void* p, uint64_t nbytes) {
  if (p == NULL) return;
  if (nbytes <= SHMT_SMALL_MAX_BYTES)
    shmt__small_free(p, nbytes);
  else
    shmt__large_free(p, nbytes);
}

static shmt_status default_malloc(void* arg, uint64_t nbytes, void** data, void** ctx) {
  (void)arg;
  *ctx = NULL;
  return shmt__alloc(nbytes, data);
}

static uint64_t block_bytes(uint64_t nbytes) {
  unsigned c;
  return nbytes <= SHMT_SMALL_MAX_BYTES ? shmt__small_class_bytes[shmt__small_class(nbytes)]
                                        : shmt__large_class_bytes(nbytes, &c);
}

static shmt_status default_realloc(void** data, void** ctx, uint64_t old_nbytes, uint64_t new_nbytes) {
  void* p = NULL;
  (void)ctx;
  if (block_bytes(old_nbytes) == block_bytes(new_nbytes)) {
    SHMT_UNPOISON(*data, new_nbytes);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__alloc(new_nbytes, &p));
  memcpy(p, *data, old_nbytes < new_nbytes ? old_nbytes : new_nbytes);
  shmt__dealloc(*data, old_nbytes);
  *data = p;
  return SHMT_OK;
}

static void default_free(void* data, void* ctx, uint64_t nbytes) {
  (void)ctx;
  shmt__dealloc(data, nbytes);
}

const shmt__allocator shmt__allocator_default = {
    .name = "default",
    .malloc = default_malloc,
    .realloc = default_realloc,
    .free = default_free,
};
