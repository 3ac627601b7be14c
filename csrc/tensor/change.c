/* tensor/change.c -- resize_, set_ and .data =, and reading the value of a 1-element tensor. */
#include "tensor/tensor.h"

#include "tensor/batched.h"

#include "base/overflow.h"
#include "base/scalar.h"
#include "storage/allocator.h"
#include "tensor/sparse.h"

#include <inttypes.h>
#include <string.h>

enum {
  GEOMETRY_FLAGS = SHMT_TENSOR_CONTIGUOUS | SHMT_TENSOR_CHANNELS_LAST | SHMT_TENSOR_CHANNELS_LAST_3D |
      SHMT_TENSOR_DENSE,
};

/* Make room for n_dims sizes and strides; the old values are lost. */
static shmt_status reserve_dims(shmt_tensor* t, int64_t n_dims) {
  if (n_dims == t->n_dims) return SHMT_OK;
  SHMT_REQUIRE(n_dims <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               n_dims);
  void* dims = t->dims;
  if (n_dims > SHMT_INLINE_DIMS) SHMT_TRY(shmt__alloc((uint64_t)n_dims * 2 * sizeof(int64_t), &dims));
  if (t->n_dims > SHMT_INLINE_DIMS) shmt__dealloc(t->sizes, (uint64_t)t->n_dims * 2 * sizeof(int64_t));
  t->sizes = dims;
  t->strides = t->sizes + n_dims;
  t->n_dims = (uint8_t)n_dims;
  return SHMT_OK;
}

/* sizes and strides may be t's own. */
static shmt_status put_geometry(shmt_tensor* t, shmt_ints sizes, shmt_ints strides, int64_t offset) {
  int64_t copy[2 * SHMT_MAX_DIMS], numel = 1;
  SHMT_REQUIRE(sizes.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               sizes.len);
  for (int64_t d = 0; d < sizes.len; d++) {
    copy[d] = sizes.data[d];
    copy[sizes.len + d] = strides.data[d];
    numel *= sizes.data[d];
  }
  SHMT_TRY(reserve_dims(t, sizes.len));
  memcpy(t->sizes, copy, (size_t)sizes.len * 2 * sizeof(int64_t));
  t->numel = numel;
  t->offset = offset;
  t->flags = (t->flags & ~(uint32_t)GEOMETRY_FLAGS) | shmt__geometry_flags(t->sizes, t->strides, t->n_dims, numel);
  return SHMT_OK;
}

static shmt_status grow_storage(shmt_tensor* t, uint64_t nbytes) {
  return nbytes > t->storage->nbytes ? shmt__storage_resize(t->storage, nbytes) : SHMT_OK;
}

/* Operators do not bring sparse tensors here; this keeps those that C programs bring from becoming half strided. */
static shmt_status check_strided(const char* name, const shmt_tensor* t) {
  SHMT_REQUIRE(!shmt__tensor_is_sparse(t), SHMT_E_RUNTIME, "%s is not allowed on a tensor with layout %s", name,
               shmt__layout_name(t->sparse->layout));
  return SHMT_OK;
}

shmt_status shmt__tensor_set_geometry(shmt_tensor* t, shmt_ints sizes, shmt_ints strides, int64_t offset) {
  uint64_t nbytes;
  SHMT_TRY(check_strided("set_geometry", t));
  SHMT_REQUIRE(sizes.len == strides.len, SHMT_E_RUNTIME,
               "mismatch in length of strides and shape: %" PRId64 " and %" PRId64, strides.len, sizes.len);
  SHMT_REQUIRE(offset >= 0, SHMT_E_RUNTIME, "Tensor: invalid storage offset %" PRId64, offset);
  SHMT_TRY(shmt__storage_bytes_for(sizes, strides, offset, shmt__tensor_item_bytes(t), &nbytes));
  SHMT_TRY(grow_storage(t, nbytes));
  return put_geometry(t, sizes, strides, offset);
}

shmt_status shmt__tensor_resize(shmt_tensor* t, shmt_ints sizes, shmt_memory_format format) {
  int64_t numel, strides[SHMT_MAX_DIMS];
  uint64_t nbytes;
  bool same = t->n_dims == sizes.len;
  SHMT_TRY(check_strided("resize_", t));
  SHMT_REQUIRE(format != SHMT_PRESERVE_FORMAT, SHMT_E_RUNTIME, "Unsupported memory format Preserve");
  SHMT_REQUIRE(sizes.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               sizes.len);
  SHMT_REQUIRE(format != SHMT_CHANNELS_LAST || sizes.len == 4, SHMT_E_RUNTIME,
               "required rank 4 tensor to use channels_last format");
  SHMT_REQUIRE(format != SHMT_CHANNELS_LAST_3D || sizes.len == 5, SHMT_E_RUNTIME,
               "required rank 5 tensor to use channels_last_3d format");
  for (int64_t d = 0; same && d < sizes.len; d++) same = t->sizes[d] == sizes.data[d];
  if (same && (format == SHMT_MEMORY_FORMAT_NONE || shmt__tensor_is_contiguous_in(t, format))) return SHMT_OK;

  SHMT_TRY(shmt__checked_numel(sizes, &numel));
  shmt__contiguous_strides(sizes, format, strides);
  shmt_ints strides_list = {strides, sizes.len};
  SHMT_TRY(shmt__storage_bytes_for(sizes, strides_list, t->offset, shmt__tensor_item_bytes(t), &nbytes));
  SHMT_TRY(grow_storage(t, nbytes));
  return put_geometry(t, sizes, strides_list, t->offset);
}

shmt_status shmt__tensor_set_storage(shmt_tensor* t, shmt_storage* s) {
  uint64_t nbytes;
  if (t->storage == s) return SHMT_OK;
  SHMT_TRY(shmt__storage_bytes_for(shmt__tensor_sizes(t), shmt__tensor_strides(t), t->offset,
                                   shmt__tensor_item_bytes(t), &nbytes));
  if (nbytes > s->nbytes && shmt__storage_has(s, SHMT_STORAGE_META)) SHMT_TRY(shmt__storage_resize(s, nbytes));
  SHMT_REQUIRE(nbytes <= s->nbytes, SHMT_E_RUNTIME,
               "setStorage: a tensor of shape %s needs %" PRIu64 " bytes, the storage has %" PRIu64, SHMT_SHAPE_TEXT(t),
               nbytes, s->nbytes);
  shmt_storage* old = t->storage;
  shmt__storage_retain(s);
  t->storage = s;
  shmt__storage_release(old);
  return SHMT_OK;
}

shmt_status shmt__tensor_set_data(shmt_tensor* t, shmt_tensor* src) {
  if (t == src) return SHMT_OK;
  shmt_sparse* parts = NULL;
  if (SHMT_UNLIKELY(src->sparse != NULL)) SHMT_TRY(shmt__sparse_copy(src->sparse, &parts));
  int16_t old_dtype = t->dtype;
  t->dtype = src->dtype;
  shmt_status status = put_geometry(t, shmt__tensor_sizes(src), shmt__tensor_strides(src), src->offset);
  if (status != SHMT_OK) {
    t->dtype = old_dtype;
    shmt__sparse_free(parts);
    return status;
  }
  shmt_storage* old = t->storage;
  shmt__storage_retain(src->storage);
  t->storage = src->storage;
  shmt__storage_release(old);
  t->device = src->device;
  shmt__sparse_free(t->sparse);
  t->sparse = parts;
  if (SHMT_UNLIKELY(parts != NULL)) {
    t->numel = src->numel;
    t->flags &= ~(uint32_t)GEOMETRY_FLAGS;
  }
  shmt__tensor_set_conj_neg(t, src->flags & SHMT_TENSOR_CONJ_NEG);
  const shmt_keyset moved = SHMT_BACKEND_KEYS | SHMT_KEYBIT_AutogradSparse | SHMT_BATCHED_KEYS;
  shmt__tensor_set_own_keys(t, (shmt__tensor_own_keys(t) & ~moved) | (shmt__tensor_own_keys(src) & moved));
  return SHMT_OK;
}

SHMT_COLD shmt_status shmt__fail_no_memory(void) {
  SHMT_FAIL(SHMT_E_RUNTIME, "Cannot access data pointer of Tensor that doesn't have storage");
}

SHMT_COLD shmt_status shmt__fail_read_only(const char* name, const shmt_tensor* t) {
  SHMT_FAIL(SHMT_E_RUNTIME,
            "%s(): cannot write to a read-only tensor with shape %s over %" PRIu64
            " bytes; clone() it, or attach it with mode \"rw\" or \"cow\"",
            name, SHMT_SHAPE_TEXT(t), t->storage->nbytes);
}

/* The value of an element of a conj or neg view. */
static void resolve_scalar(shmt_scalar* s, uint32_t bits) {
  const bool negate = (bits & SHMT_TENSOR_NEG) != 0, conjugate = (bits & SHMT_TENSOR_CONJ) != 0;
  if (s->tag != SHMT_SCALAR_COMPLEX) {
    if (negate) s->v.d = -s->v.d;
    return;
  }
  if (negate) s->v.z[0] = -s->v.z[0];
  if (negate != conjugate) s->v.z[1] = -s->v.z[1];
}

static SHMT_COLD shmt_status item_of_batched(const shmt__batched* b, shmt_scalar* out) {
  SHMT_REQUIRE(b->dim == SHMT_NOT_BATCHED, SHMT_E_RUNTIME,
               "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on "
               "a Tensor, please try to rewrite what you're doing with other operations. If error is occurring "
               "somewhere inside PyTorch internals, please file a bug report.");
  return shmt__tensor_item(b->value, out);
}

shmt_status (*shmt__answered_item)(shmt_tensor*, shmt_scalar*) = shmt__tensor_item_in_memory;

shmt_status shmt__tensor_item(shmt_tensor* t, shmt_scalar* out) {
  return SHMT_UNLIKELY(shmt__tensor_is_answered(t)) ? shmt__answered_item(t, out) : shmt__tensor_item_in_memory(t, out);
}

shmt_status shmt__tensor_item_in_memory(shmt_tensor* t, shmt_scalar* out) {
  if (SHMT_UNLIKELY(shmt__batched_of(t) != NULL)) return item_of_batched(shmt__batched_of(t), out);
  SHMT_REQUIRE(t->numel == 1, SHMT_E_RUNTIME, "a Tensor with %" PRId64 " elements cannot be converted to Scalar",
               t->numel);
  SHMT_REQUIRE(!shmt__tensor_is_meta(t), SHMT_E_RUNTIME, "Tensor.item() cannot be called on meta tensors");
  if (SHMT_UNLIKELY(t->sparse != NULL)) return shmt__sparse_item(t, out);
  SHMT_TRY(shmt__check_has_memory(t));
  *out = shmt__scalar_load(shmt__tensor_data(t), t->dtype);
  if (SHMT_UNLIKELY(shmt__tensor_is_conj_neg(t))) resolve_scalar(out, t->flags);
  return SHMT_OK;
}

shmt_status shmt__tensor_set_sparse(shmt_tensor* t, const shmt_sparse* parts, shmt_ints sizes) {
  shmt_sparse* fresh = NULL;
  const shmt_ints wanted = sizes.len < 0 ? shmt__tensor_sizes(t) : sizes;
  SHMT_REQUIRE(t->sparse && parts->layout == t->sparse->layout, SHMT_E_RUNTIME,
               "a tensor with layout %s cannot become one with layout %s", shmt__layout_name(shmt__tensor_layout(t)),
               shmt__layout_name(parts->layout));
  SHMT_TRY(shmt__sparse_check(parts, wanted, t->dtype));
  SHMT_TRY(shmt__sparse_copy(parts, &fresh));
  if (sizes.len >= 0) {
    int64_t strides[SHMT_MAX_DIMS] = {0};
    shmt_status status = put_geometry(t, sizes, (shmt_ints){strides, sizes.len}, 0);
    if (status != SHMT_OK) {
      shmt__sparse_free(fresh);
      return status;
    }
    t->flags &= ~(uint32_t)GEOMETRY_FLAGS;
  }
  shmt__sparse_free(t->sparse);
  t->sparse = fresh;
  return SHMT_OK;
}
