/* storage/blob.c -- storages over foreign memory with a deleter. */
#include "storage/allocator.h"

#include <string.h>

static shmt_status blob_malloc(void* arg, uint64_t nbytes, void** data, void** ctx) {
  const shmt__blob* blob = arg;
  void* copy = NULL;
  (void)nbytes;
  SHMT_TRY(shmt__alloc(sizeof *blob, &copy));
  memcpy(copy, blob, sizeof *blob);
  *data = blob->data;
  *ctx = copy;
  return SHMT_OK;
}

static void blob_free(void* data, void* ctx, uint64_t nbytes) {
  shmt__blob* blob = ctx;
  (void)nbytes;
  if (blob == NULL) return; /* an empty storage that owns nothing */
  if (blob->deleter) blob->deleter(blob->deleter_arg, data);
  shmt__dealloc(blob, sizeof *blob);
}

const shmt__allocator shmt__allocator_blob = {.name = "blob", .malloc = blob_malloc, .free = blob_free};

void shmt__storage_disown(shmt_storage* s) { ((shmt__blob*)s->ctx)->deleter = NULL; }

const shmt__blob* shmt__storage_blob(const shmt_storage* s) {
  bool is_blob = __atomic_load_n(&s->allocator, __ATOMIC_RELAXED) == &shmt__allocator_blob;
  return is_blob ? s->ctx : NULL;
}

shmt_status shmt__storage_from_blob(void* data, uint64_t nbytes, void (*deleter)(void* arg, void* data), void* arg,
                                    uint32_t flags, shmt_storage** out) {
  shmt__blob blob = {.data = data, .deleter = deleter, .deleter_arg = arg};
  void *same = NULL, *ctx = NULL;
  SHMT_TRY(blob_malloc(&blob, nbytes, &same, &ctx));
  shmt_status status = shmt__storage_adopt(&shmt__allocator_blob, data, ctx, nbytes, flags, out);
  if (status != SHMT_OK) shmt__dealloc(ctx, sizeof blob); /* the data stays the caller's */
  return status;
}
