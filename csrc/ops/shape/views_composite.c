/* ops/shape/views_composite.c -- views made of other views: reshape, unflatten, movedim, real and imag. */
#include "base/dtype.h"
#include "base/overflow.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "storage/allocator.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <string.h>

/* The tensor itself as a result. */
static shmt_status give(shmt_tensor* self, shmt_tensor** out) {
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

/* --- shapes -------------------------------------------------------------------------- */

shmt_status shmt__impl_reshape(shmt_tensor* self, shmt_ints shape, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  SHMT_REQUIRE(shape.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               shape.len);
  SHMT_TRY(shmt__infer_sizes(shape, self->numel, sizes));
  shmt_ints inferred = {sizes, shape.len};
  if (shmt__view_strides(self, inferred, strides)) return shmt_op_view(self, inferred, out);
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_TRY(shmt_op_clone(self, SHMT_CONTIGUOUS_FORMAT, &dense));
  /* Autograd does not see it as a view of the copy, because nobody else has the copy. */
  return shmt_op__unsafe_view(dense, inferred, out);
}

shmt_status shmt__impl_unflatten(shmt_tensor* self, int64_t dim, shmt_ints sizes, shmt_tensor** out) {
  int64_t inner[SHMT_MAX_DIMS], shape[2 * SHMT_MAX_DIMS], n = 0, product = 1;
  bool inferred = false;
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(sizes.len > 0, SHMT_E_RUNTIME, "unflatten: sizes must be non-empty");
  SHMT_REQUIRE(self->n_dims > 0 && sizes.len + self->n_dims - 1 <= SHMT_MAX_DIMS, SHMT_E_RUNTIME,
               "unflatten: %" PRId64 " sizes do not fit into dimension %" PRId64 " of a %d-D tensor", sizes.len, dim,
               self->n_dims);
  for (int64_t i = 0; i < sizes.len; i++) {
    SHMT_REQUIRE(sizes.data[i] >= -1, SHMT_E_RUNTIME, "invalid shape dimension %" PRId64, sizes.data[i]);
    SHMT_REQUIRE(sizes.data[i] != -1 || !inferred, SHMT_E_RUNTIME,
                 "unflatten got an unexpected error:\nonly one dimension can be inferred");
    inferred |= sizes.data[i] == -1;
    if (sizes.data[i] != -1 && __builtin_mul_overflow(product, sizes.data[i], &product)) product = -1;
    inner[i] = sizes.data[i];
  }
  int64_t size = self->sizes[dim];
  bool fits = inferred ? product > 0 && size % product == 0 : product == size;
  SHMT_REQUIRE(fits, SHMT_E_RUNTIME,
               "unflatten: Provided sizes %s don't multiply up to the size of dim %" PRId64 " (%" PRId64
               ") in the input tensor",
               shmt__ints_text(sizes, (char[256]){0}, 256), dim, size);
  for (int64_t i = 0; i < sizes.len; i++)
    if (inner[i] == -1) inner[i] = size / product;
  for (int64_t d = 0; d < self->n_dims; d++) {
    if (d != dim) {
      shape[n++] = self->sizes[d];
      continue;
    }
    for (int64_t i = 0; i < sizes.len; i++) shape[n++] = inner[i];
  }
  return shmt_op_view(self, (shmt_ints){shape, n}, out);
}

shmt_status shmt__impl_as_strided(shmt_tensor* self, shmt_ints size, shmt_ints stride, shmt_opt_int storage_offset,
                                  shmt_tensor** out) {
  int64_t offset = storage_offset.has ? storage_offset.value : self->offset;
  return shmt_op__as_strided_at(self, size, stride, offset, self->offset, out);
}

shmt_status shmt__as_strided_tangent(shmt_tensor* self, shmt_ints size, shmt_ints stride, int64_t offset,
                                     shmt_tensor** out) {
  int64_t begin;
  SHMT_REQUIRE(shmt__add_i64(self->offset, offset, &begin) && begin >= 0, SHMT_E_RUNTIME,
               "as_strided(): a tangent has no elements but those of its tensor, and the view begins %" PRId64
               " elements from the first of them",
               offset);
  return shmt_op_as_strided(self, size, stride, (shmt_opt_int){begin, true}, out);
}

/* --- parts ----------------------------------------------------------------------------- */

shmt_status shmt__impl_narrow_tensor(shmt_tensor* self, int64_t dim, shmt_tensor* start, int64_t length,
                                     shmt_tensor** out) {
  shmt_scalar at;
  SHMT_REQUIRE(start->n_dims == 0 && shmt__dtype_category(start->dtype) == 1, SHMT_E_RUNTIME,
               "start must be an 0-dim integral Tensor.");
  SHMT_TRY(shmt__tensor_item(start, &at));
  return shmt_op_narrow(self, dim, at.v.i, length, out);
}

/* Complex numbers as pairs, without their pending conjugation. */
static shmt_status unconjugated_pairs(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) raw = NULL;
  if (!(self->flags & SHMT_TENSOR_CONJ)) return shmt_op_view_as_real(self, out);
  SHMT_TRY(shmt_op__conj(self, &raw));
  return shmt_op_view_as_real(raw, out);
}

shmt_status shmt__impl_real(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) pairs = NULL;
  if (shmt__dtype_category(self->dtype) != 3) return give(self, out);
  SHMT_TRY(unconjugated_pairs(self, &pairs));
  return shmt_op_select_int(pairs, -1, 0, out);
}

shmt_status shmt__impl_imag(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) pairs = NULL;
  SHMT_REQUIRE(shmt__dtype_category(self->dtype) == 3, SHMT_E_RUNTIME,
               "imag is not implemented for tensors with non-complex dtypes.");
  SHMT_TRY(unconjugated_pairs(self, &pairs));
  if (!(self->flags & SHMT_TENSOR_CONJ)) return shmt_op_select_int(pairs, -1, 1, out);
  SHMT_AUTO(shmt_tensor) part = NULL;
  SHMT_TRY(shmt_op_select_int(pairs, -1, 1, &part));
  return shmt_op__neg_view(part, out);
}

/* --- order of dims ------------------------------------------------------------------------ */

shmt_status shmt__impl_permute_backward(shmt_tensor* grad, shmt_ints dims, shmt_tensor** out) {
  int64_t inverse[SHMT_MAX_DIMS];
  for (int64_t i = 0; i < dims.len; i++) {
    int64_t d = 0;
    SHMT_TRY(shmt__wrap_dim(dims.data[i], dims.len, &d));
    inverse[d] = i;
  }
  return shmt_op_permute(grad, (shmt_ints){inverse, dims.len}, out);
}

shmt_status shmt__impl_movedim_ints(shmt_tensor* self, shmt_ints source, shmt_ints destination, shmt_tensor** out) {
  int64_t order[SHMT_MAX_DIMS], from[SHMT_MAX_DIMS], to[SHMT_MAX_DIMS];
  uint64_t moved = 0, taken = 0;
  SHMT_REQUIRE(
      source.len == destination.len, SHMT_E_RUNTIME,
      "movedim: Invalid source or destination dims: source (%s dims) should contain the same number of dims as "
      "destination (%s dims)",
      shmt__ints_text(source, (char[256]){0}, 256), shmt__ints_text(destination, (char[256]){0}, 256));
  SHMT_REQUIRE(source.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "movedim: more than %d dims", SHMT_MAX_DIMS);
  for (int64_t i = 0; i < source.len; i++) {
    SHMT_TRY(shmt__wrap_dim(source.data[i], self->n_dims, &from[i]));
    SHMT_TRY(shmt__wrap_dim(destination.data[i], self->n_dims, &to[i]));
  }
  for (int64_t i = 0; i < source.len; i++) {
    SHMT_REQUIRE(!(moved >> from[i] & 1), SHMT_E_RUNTIME, "movedim: repeated dim in `source` (%s)",
                 shmt__ints_text(source, (char[256]){0}, 256));
    SHMT_REQUIRE(!(taken >> to[i] & 1), SHMT_E_RUNTIME, "movedim: repeated dim in `destination` (%s)",
                 shmt__ints_text(destination, (char[256]){0}, 256));
    moved |= (uint64_t)1 << from[i];
    taken |= (uint64_t)1 << to[i];
    order[to[i]] = from[i];
  }
  if (self->n_dims == 0) return shmt_op_alias(self, out);
  for (int64_t d = 0, at = 0; d < self->n_dims; d++) {
    if (moved >> d & 1) continue;
    while (taken >> at & 1) at++;
    order[at++] = d;
  }
  return shmt_op_permute(self, (shmt_ints){order, self->n_dims}, out);
}

shmt_status shmt__impl_movedim(shmt_tensor* self, int64_t source, int64_t destination, shmt_tensor** out) {
  return shmt__impl_movedim_ints(self, SHMT_INTS(source), SHMT_INTS(destination), out);
}

/* --- several tensors ------------------------------------------------------------------------ */

static shmt_status start_list(int64_t len, shmt_tensor_vec* vec) {
  void* data = NULL;
  SHMT_TRY(shmt__alloc_zeroed((uint64_t)len * sizeof(shmt_tensor*), &data));
  *vec = (shmt_tensor_vec){data, len};
  return SHMT_OK;
}

static shmt_status end_list(shmt_status status, shmt_tensor_vec* vec, shmt_tensor_vec* out) {
  if (status == SHMT_OK) {
    *out = *vec;
    return SHMT_OK;
  }
  for (int64_t i = 0; i < vec->len; i++) shmt__tensor_release(vec->data[i]);
  shmt__dealloc(vec->data, (uint64_t)vec->len * sizeof(shmt_tensor*));
  return status;
}

shmt_status shmt__impl_broadcast_tensors(shmt_tensors tensors, shmt_tensor_vec* out) {
  int64_t sizes[SHMT_MAX_DIMS], n_dims = 0;
  shmt_tensor_vec vec;
  for (int64_t i = 0; i < tensors.len; i++)
    SHMT_TRY(shmt__broadcast_sizes((shmt_ints){sizes, n_dims}, shmt__tensor_sizes(tensors.data[i]), sizes, &n_dims));
  SHMT_TRY(start_list(tensors.len, &vec));
  shmt_status status = SHMT_OK;
  for (int64_t i = 0; i < tensors.len && status == SHMT_OK; i++)
    status = shmt_op_expand(tensors.data[i], (shmt_ints){sizes, n_dims}, false, &vec.data[i]);
  return end_list(status, &vec, out);
}
