/* tensor/batched.c -- tensors that stand for one example of a batch. */
#include "tensor/batched.h"

#include "storage/allocator.h"

static void free_batched(void* data, void* ctx, uint64_t nbytes) {
  shmt__batched* b = ctx;
  (void)data, (void)nbytes;
  shmt__tensor_release(b->value);
  shmt__dealloc(b, sizeof *b);
}

static const shmt__allocator allocator = {.name = "batched", .free = free_batched};

/* A storage without bytes that keeps value. */
static shmt_status keep_value(shmt_tensor* value, int dim, int level, uint64_t level_id, shmt_storage** out) {
  void* memory = NULL;
  SHMT_TRY(shmt__alloc(sizeof(shmt__batched), &memory));
  shmt__batched* b = memory;
  *b = (shmt__batched){shmt__tensor_ref(value), level_id, level, dim};
  shmt_status status =
      shmt__storage_adopt(&allocator, NULL, b, 0, SHMT_STORAGE_META, out); /* no bytes to share or send */
  if (status != SHMT_OK) free_batched(NULL, b, 0);
  return status;
}

/* Sizes and strides without those of dim; returns how many. */
static int example_geometry(const shmt_tensor* value, int dim, int64_t* sizes, int64_t* strides) {
  int n = 0;
  for (int d = 0; d < value->n_dims; d++) {
    if (d == dim) continue;
    sizes[n] = value->sizes[d];
    strides[n++] = value->strides[d];
  }
  return n;
}

shmt_status shmt__batched_create(shmt_tensor* value, int dim, int level, uint64_t level_id, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  const int n = example_geometry(value, dim, sizes, strides);
  SHMT_AUTO(shmt_storage) storage = NULL;
  SHMT_AUTO(shmt_tensor) t = NULL;
  SHMT_TRY(keep_value(value, dim, level, level_id, &storage));
  SHMT_TRY(shmt__tensor_alias(value, (shmt_ints){sizes, n}, (shmt_ints){strides, n}, value->offset, &t));
  shmt__storage_release(t->storage);
  t->storage = SHMT_TAKE(storage);
  t->keys &= ~(shmt_keyset)(SHMT_KEYBIT_Conjugate | SHMT_KEYBIT_Negative); /* the value resolves its bits */
  t->flags |= value->flags & SHMT_TENSOR_WRAPPED_NUMBER;
  t->keys |= SHMT_BATCHED_KEYS;
  *out = SHMT_TAKE(t);
  return SHMT_OK;
}

shmt_status shmt__batched_replace(shmt_tensor* t, shmt_tensor* value, int dim) {
  const shmt__batched* b = shmt__batched_of(t);
  SHMT_AUTO(shmt_tensor) fresh = NULL;
  SHMT_TRY(shmt__batched_create(value, dim, b->level, b->level_id, &fresh));
  SHMT_TRY(shmt__tensor_set_data(t, fresh));
  t->keys &= ~(shmt_keyset)(SHMT_KEYBIT_Conjugate | SHMT_KEYBIT_Negative);
  return SHMT_OK;
}
