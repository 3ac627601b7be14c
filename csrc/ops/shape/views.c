/* ops/shape/views.c -- views by one change of sizes and strides: slice, select, permute, transpose, squeeze, expand,
 * view. */
#include "base/overflow.h"
#include "base/dtype.h"
#include "generated/impls.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <string.h>

/* Sizes and strides of a view that is being made. */
typedef struct geometry {
  int64_t sizes[SHMT_MAX_DIMS + 1];
  int64_t strides[SHMT_MAX_DIMS + 1];
  int64_t n_dims;
  int64_t offset;
} geometry;

static inline geometry* start_from(geometry* g, const shmt_tensor* t) {
  g->n_dims = t->n_dims;
  g->offset = t->offset;
  for (int d = 0; d < t->n_dims; d++) {
    g->sizes[d] = t->sizes[d];
    g->strides[d] = t->strides[d];
  }
  return g;
}

static inline shmt_status finish_view(shmt_tensor* self, const geometry* g, shmt_tensor** out) {
  return shmt__tensor_alias(self, (shmt_ints){g->sizes, g->n_dims}, (shmt_ints){g->strides, g->n_dims}, g->offset, out);
}

static inline void erase_dim(geometry* g, int64_t dim) {
  for (int64_t d = dim; d + 1 < g->n_dims; d++) {
    g->sizes[d] = g->sizes[d + 1];
    g->strides[d] = g->strides[d + 1];
  }
  g->n_dims--;
}

shmt_status shmt__impl_alias(shmt_tensor* self, shmt_tensor** out) {
  return shmt__tensor_alias(self, shmt__tensor_sizes(self), shmt__tensor_strides(self), self->offset, out);
}

/* --- part of a dim ------------------------------------------------------------------ */

shmt_status shmt__impl_select(shmt_tensor* self, int64_t dim, int64_t index, shmt_tensor** out) {
  geometry g;
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "select() cannot be applied to a 0-dim tensor.");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  int64_t size = self->sizes[dim];
  SHMT_REQUIRE(index >= -size && index < size, SHMT_E_INDEX,
               "select(): index %" PRId64 " out of range for tensor of size %s at dimension %" PRId64, index,
               SHMT_SHAPE_TEXT(self), dim);
  start_from(&g, self);
  g.offset += (index < 0 ? index + size : index) * g.strides[dim];
  erase_dim(&g, dim);
  return finish_view(self, &g, out);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

shmt_status shmt__impl_slice(shmt_tensor* self, int64_t dim, shmt_opt_int start_arg, shmt_opt_int end_arg, int64_t step,
                             shmt_tensor** out) {
  geometry g;
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_INDEX, "slice() cannot be applied to a 0-dim tensor.");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  SHMT_REQUIRE(step > 0, SHMT_E_RUNTIME, "slice step must be positive");
  int64_t size = self->sizes[dim];
  int64_t start = start_arg.has ? start_arg.value : 0, end = end_arg.has ? end_arg.value : size;
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = clamp(start, 0, size);
  end = clamp(end, start, size);
  start_from(&g, self);
  int64_t length = end - start;
  g.offset += start * g.strides[dim];
  g.sizes[dim] = length == 0 ? 0 : (length - 1) / step + 1;
  if (g.sizes[dim] > 1 || step == 1) {
    g.strides[dim] *= step;
  } else if (!shmt__mul_i64(g.strides[dim], step, &g.strides[dim])) {
    g.strides[dim] = self->strides[dim]; /* any stride will do for one element */
  }
  return finish_view(self, &g, out);
}

shmt_status shmt__impl_diagonal(shmt_tensor* self, int64_t offset, int64_t dim1_arg, int64_t dim2_arg,
                                shmt_tensor** out) {
  geometry g;
  int64_t dim1 = 0, dim2 = 0;
  SHMT_TRY(shmt__wrap_dim(dim1_arg, self->n_dims, &dim1));
  SHMT_TRY(shmt__wrap_dim(dim2_arg, self->n_dims, &dim2));
  SHMT_REQUIRE(dim1 != dim2, SHMT_E_RUNTIME, "diagonal dimensions cannot be identical %" PRId64 ", %" PRId64, dim1_arg,
               dim2_arg);
  start_from(&g, self);
  int64_t rows = self->sizes[dim1], columns = self->sizes[dim2], length = 0;
  /* The offset is compared before it is subtracted, so that extreme ones cannot overflow. */
  if (offset >= 0 && offset < columns) length = rows < columns - offset ? rows : columns - offset;
  if (offset < 0 && offset > -rows) length = rows + offset < columns ? rows + offset : columns;
  if (length > 0) g.offset += offset >= 0 ? offset * g.strides[dim2] : -offset * g.strides[dim1];
  int64_t stride = g.strides[dim1] + g.strides[dim2];
  erase_dim(&g, dim1 > dim2 ? dim1 : dim2);
  erase_dim(&g, dim1 > dim2 ? dim2 : dim1);
  g.sizes[g.n_dims] = length;
  g.strides[g.n_dims++] = stride;
  return finish_view(self, &g, out);
}

shmt_status shmt__impl_unfold(shmt_tensor* self, int64_t dim, int64_t size, int64_t step, shmt_tensor** out) {
  geometry g;
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  int64_t largest = self->n_dims == 0 ? 1 : self->sizes[dim];
  SHMT_REQUIRE(size <= largest, SHMT_E_RUNTIME,
               "maximum size for tensor at dimension %" PRId64 " is %" PRId64 " but size is %" PRId64, dim, largest,
               size);
  SHMT_REQUIRE(size >= 0, SHMT_E_RUNTIME, "size is %" PRId64 " but must be >= 0", size);
  SHMT_REQUIRE(step > 0, SHMT_E_RUNTIME, "step is %" PRId64 " but must be > 0", step);
  start_from(&g, self);
  g.sizes[g.n_dims] = size;
  g.strides[g.n_dims] = self->n_dims == 0 ? 1 : self->strides[dim];
  if (self->n_dims > 0) {
    g.sizes[dim] = (largest - size) / step + 1;
    if (!shmt__mul_i64(self->strides[dim], step, &g.strides[dim])) g.strides[dim] = self->strides[dim];
  }
  SHMT_REQUIRE(g.n_dims < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %d", SHMT_MAX_DIMS,
               SHMT_MAX_DIMS + 1);
  g.n_dims++;
  return finish_view(self, &g, out);
}

/* --- order of dims ------------------------------------------------------------------- */

shmt_status shmt__impl_transpose(shmt_tensor* self, int64_t dim0, int64_t dim1, shmt_tensor** out) {
  geometry g;
  SHMT_TRY(shmt__wrap_dim(dim0, self->n_dims, &dim0));
  SHMT_TRY(shmt__wrap_dim(dim1, self->n_dims, &dim1));
  start_from(&g, self);
  if (dim0 != dim1) {
    g.sizes[dim0] = self->sizes[dim1];
    g.sizes[dim1] = self->sizes[dim0];
    g.strides[dim0] = self->strides[dim1];
    g.strides[dim1] = self->strides[dim0];
  }
  return finish_view(self, &g, out);
}

shmt_status shmt__impl_t(shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(self->n_dims <= 2, SHMT_E_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD",
               self->n_dims);
  return shmt__impl_transpose(self, 0, self->n_dims < 2 ? 0 : 1, out);
}

shmt_status shmt__impl_permute(shmt_tensor* self, shmt_ints dims, shmt_tensor** out) {
  geometry g;
  uint64_t seen = 0;
  SHMT_REQUIRE(dims.len == self->n_dims, SHMT_E_RUNTIME,
               "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
               "ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %" PRId64,
               self->n_dims, dims.len);
  g.n_dims = dims.len;
  g.offset = self->offset;
  for (int64_t i = 0; i < dims.len; i++) {
    int64_t d = 0;
    SHMT_TRY(shmt__wrap_dim(dims.data[i], self->n_dims, &d));
    SHMT_REQUIRE(!(seen >> d & 1), SHMT_E_RUNTIME, "permute(): duplicate dims are not allowed.");
    seen |= (uint64_t)1 << d;
    g.sizes[i] = self->sizes[d];
    g.strides[i] = self->strides[d];
  }
  return finish_view(self, &g, out);
}

/* --- number of dims -------------------------------------------------------------------- */

static shmt_status squeeze_mask(shmt_tensor* self, uint64_t mask, shmt_tensor** out) {
  geometry g = {.offset = self->offset};
  for (int d = 0; d < self->n_dims; d++) {
    if (self->sizes[d] == 1 && (mask >> d & 1)) continue;
    g.sizes[g.n_dims] = self->sizes[d];
    g.strides[g.n_dims++] = self->strides[d];
  }
  return finish_view(self, &g, out);
}

shmt_status shmt__impl_squeeze(shmt_tensor* self, shmt_tensor** out) { return squeeze_mask(self, UINT64_MAX, out); }

shmt_status shmt__impl_squeeze_dim(shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, &dim));
  return squeeze_mask(self, (uint64_t)1 << dim, out);
}

shmt_status shmt__impl_squeeze_dims(shmt_tensor* self, shmt_ints dims, shmt_tensor** out) {
  uint64_t mask = 0;
  if (dims.len > 0) SHMT_TRY(shmt__dims_mask(dims, self->n_dims, &mask));
  return squeeze_mask(self, mask, out);
}

shmt_status shmt__impl_unsqueeze(shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  geometry g;
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims + 1, &dim));
  g.n_dims = self->n_dims + 1;
  g.offset = self->offset;
  SHMT_REQUIRE(g.n_dims <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               g.n_dims);
  for (int64_t i = 0; i < g.n_dims; i++) {
    int64_t d = i > dim ? i - 1 : i;
    g.sizes[i] = i == dim ? 1 : self->sizes[d];
    g.strides[i] = i == dim ? (dim < self->n_dims ? self->sizes[dim] * self->strides[dim] : 1) : self->strides[d];
  }
  return finish_view(self, &g, out);
}

/* --- shapes ------------------------------------------------------------------------------ */

shmt_status shmt__impl_view(shmt_tensor* self, shmt_ints size, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS], strides[SHMT_MAX_DIMS];
  SHMT_REQUIRE(size.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               size.len);
  SHMT_TRY(shmt__infer_sizes(size, self->numel, sizes));
  shmt_ints inferred = {sizes, size.len};
  SHMT_REQUIRE(shmt__view_strides(self, inferred, strides), SHMT_E_RUNTIME,
               "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
               "two contiguous subspaces). Use .reshape(...) instead.");
  return shmt__tensor_alias(self, inferred, (shmt_ints){strides, size.len}, self->offset, out);
}

shmt_status shmt__impl_expand(shmt_tensor* self, shmt_ints size, bool implicit, shmt_tensor** out) {
  geometry g;
  (void)implicit;
  SHMT_REQUIRE(size.len >= self->n_dims, SHMT_E_RUNTIME,
               "expand(torch.%sTensor{%s}, size=%s): the number of sizes provided (%" PRId64
               ") must be greater or equal to the number of dimensions in the tensor (%d)",
               shmt__dtype_title(self->dtype), SHMT_SHAPE_TEXT(self), shmt__ints_text(size, (char[256]){0}, 256),
               size.len, self->n_dims);
  SHMT_REQUIRE(size.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %" PRId64, SHMT_MAX_DIMS,
               size.len);
  g.n_dims = size.len;
  g.offset = self->offset;
  for (int64_t i = size.len - 1; i >= 0; i--) {
    int64_t d = i - (size.len - self->n_dims), target = size.data[i];
    int64_t have = d >= 0 ? self->sizes[d] : 1;
    /* A dim of one element has no stride to keep. */
    int64_t stride = d >= 0              ? self->strides[d]
                     : self->n_dims == 0 ? 0
                     : i + 1 < g.n_dims  ? shmt__wrap_mul_i64(g.sizes[i + 1], g.strides[i + 1])
                                         : 1;
    if (target == -1) {
      SHMT_REQUIRE(d >= 0, SHMT_E_RUNTIME,
                   "The expanded size of the tensor (%" PRId64
                   ") isn't allowed in a leading, non-existing dimension %" PRId64,
                   target, i);
      target = have;
    }
    if (have != target) {
      SHMT_REQUIRE(have == 1, SHMT_E_RUNTIME,
                   "The expanded size of the tensor (%" PRId64 ") must match the existing size (%" PRId64
                   ") at non-singleton dimension %" PRId64 ".  Target sizes: %s.  Tensor sizes: %s",
                   target, have, i, shmt__ints_text(size, (char[256]){0}, 256), SHMT_SHAPE_TEXT(self));
      SHMT_REQUIRE(target >= 0, SHMT_E_RUNTIME,
                   "expand(torch.%sTensor{%s}, size=%s): the size %" PRId64 " at dimension %" PRId64 " is negative",
                   shmt__dtype_title(self->dtype), SHMT_SHAPE_TEXT(self), shmt__ints_text(size, (char[256]){0}, 256),
                   target, i);
      stride = 0;
    }
    g.sizes[i] = target;
    g.strides[i] = stride;
  }
  int64_t numel;
  SHMT_TRY(shmt__checked_numel((shmt_ints){g.sizes, g.n_dims}, &numel));
  return finish_view(self, &g, out);
}

/* self_offset is self's own offset; it is an argument so that the derivative knows it. */
shmt_status shmt__impl_as_strided_at(shmt_tensor* self, shmt_ints size, shmt_ints stride, int64_t offset,
                                     int64_t self_offset, shmt_tensor** out) {
  uint64_t nbytes;
  (void)self_offset;
  SHMT_REQUIRE(size.len == stride.len, SHMT_E_RUNTIME, "mismatch in length of strides and shape");
  for (int64_t d = 0; d < stride.len; d++)
    SHMT_REQUIRE(stride.data[d] >= 0, SHMT_E_RUNTIME,
                 "as_strided: Negative strides are not supported at the moment, got strides: %s",
                 shmt__ints_text(stride, (char[256]){0}, 256));
  SHMT_REQUIRE(offset >= 0, SHMT_E_RUNTIME, "Tensor: invalid storage offset %" PRId64, offset);
  SHMT_TRY(shmt__storage_bytes_for(size, stride, offset, shmt__tensor_item_bytes(self), &nbytes));
  SHMT_REQUIRE(nbytes <= self->storage->nbytes, SHMT_E_RUNTIME,
               "setStorage: sizes %s, strides %s, storage offset %" PRId64
               ", and itemsize %d requiring a storage size of %" PRIu64
               " are out of bounds for storage of size %" PRIu64,
               shmt__ints_text(size, (char[256]){0}, 256), shmt__ints_text(stride, (char[256]){0}, 256), offset,
               (int)shmt__tensor_item_bytes(self), nbytes, self->storage->nbytes);
  return shmt__tensor_alias(self, size, stride, offset, out);
}

/* --- dtypes --------------------------------------------------------------------------------- */

shmt_status shmt__impl_view_as_real(shmt_tensor* self, shmt_tensor** out) {
  geometry g;
  SHMT_REQUIRE(shmt__dtype_category(self->dtype) == 3, SHMT_E_RUNTIME,
               "view_as_real is only supported for complex tensors");
  SHMT_REQUIRE(
      !(self->flags & SHMT_TENSOR_CONJ), SHMT_E_RUNTIME,
      "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you can "
      "view it as real, use self.resolve_conj(); however, be warned that the resulting tensor will NOT alias "
      "the original.");
  SHMT_REQUIRE(self->n_dims < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "tensor has too many (>%d) dims: %d", SHMT_MAX_DIMS,
               self->n_dims + 1);
  start_from(&g, self);
  for (int64_t d = 0; d < g.n_dims; d++) g.strides[d] = shmt__wrap_mul_i64(g.strides[d], 2);
  g.sizes[g.n_dims] = 2;
  g.strides[g.n_dims++] = 1;
  return shmt__tensor_alias_as(self, shmt__to_real_dtype(self->dtype), (shmt_ints){g.sizes, g.n_dims},
                               (shmt_ints){g.strides, g.n_dims}, g.offset * 2, out);
}

shmt_status shmt__impl_view_as_complex(shmt_tensor* self, shmt_tensor** out) {
  geometry g;
  SHMT_REQUIRE(
      shmt__dtype_real[shmt__to_complex_dtype(self->dtype)] == self->dtype, SHMT_E_RUNTIME,
      "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: %s",
      shmt__dtype_title(self->dtype));
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_RUNTIME, "Input tensor must have one or more dimensions");
  int last = self->n_dims - 1;
  SHMT_REQUIRE(self->sizes[last] == 2, SHMT_E_RUNTIME, "Tensor must have a last dimension of size 2");
  SHMT_REQUIRE(self->strides[last] == 1, SHMT_E_RUNTIME, "Tensor must have a last dimension with stride 1");
  start_from(&g, self);
  g.n_dims = last;
  for (int64_t d = 0; d < last; d++) {
    SHMT_REQUIRE(g.strides[d] % 2 == 0, SHMT_E_RUNTIME,
                 "Tensor must have a stride divisible by 2 for all but last dimension");
    g.strides[d] /= 2;
  }
  SHMT_REQUIRE(g.offset % 2 == 0, SHMT_E_RUNTIME, "Tensor must have a storage_offset divisible by 2");
  return shmt__tensor_alias_as(self, shmt__to_complex_dtype(self->dtype), (shmt_ints){g.sizes, g.n_dims},
                               (shmt_ints){g.strides, g.n_dims}, g.offset / 2, out);
}

/* for example "to view Float as Double (different element sizes)" */
#define VIEW_AS "to view %s as %s (different element sizes)"

static shmt_status require_unit_stride(int64_t stride, shmt_dtype from, shmt_dtype to) {
  SHMT_REQUIRE(stride == 1, SHMT_E_RUNTIME, "self.stride(-1) must be 1 " VIEW_AS ", but got %" PRId64,
               shmt__dtype_title(from), shmt__dtype_title(to), stride);
  return SHMT_OK;
}

shmt_status shmt__impl_view_dtype(shmt_tensor* self, shmt_dtype dtype, shmt_tensor** out) {
  geometry g;
  int64_t have = shmt__tensor_item_bytes(self), want = shmt__dtype_size[dtype];
  const char *from = shmt__dtype_title(self->dtype), *to = shmt__dtype_title(dtype);
  SHMT_REQUIRE(!(self->flags & SHMT_TENSOR_CONJ), SHMT_E_RUNTIME,
               "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype.");
  SHMT_REQUIRE(!(self->flags & SHMT_TENSOR_NEG), SHMT_E_RUNTIME,
               "torch.Tensor.view is not supported for tensors with negative bit set when converting to a different "
               "dtype.");
  start_from(&g, self);
  int64_t last = g.n_dims - 1;
  if (have != want) {
    SHMT_REQUIRE(g.n_dims > 0, SHMT_E_RUNTIME, "self.dim() cannot be 0 " VIEW_AS, from, to);
  }
  if (have > want) {
    int64_t ratio = have / want;
    SHMT_TRY(require_unit_stride(g.strides[last], self->dtype, dtype));
    /* With a dim of no elements strides may be as large as they like. */
    for (int64_t d = 0; d < last; d++) g.strides[d] = shmt__wrap_mul_i64(g.strides[d], ratio);
    SHMT_REQUIRE(shmt__mul_i64(g.sizes[last], ratio, &g.sizes[last]), SHMT_E_RUNTIME,
                 "view(): size %" PRId64 " of the last dimension overflows " VIEW_AS, g.sizes[last], from, to);
    g.offset *= ratio;
  } else if (have < want) {
    int64_t ratio = want / have;
    SHMT_REQUIRE(g.sizes[last] % ratio == 0, SHMT_E_RUNTIME,
                 "self.size(-1) must be divisible by %" PRId64 " " VIEW_AS ", but got %" PRId64, ratio, from, to,
                 g.sizes[last]);
    SHMT_REQUIRE(g.offset % ratio == 0, SHMT_E_RUNTIME,
                 "self.storage_offset() must be divisible by %" PRId64 " " VIEW_AS ", but got %" PRId64, ratio, from,
                 to, g.offset);
    SHMT_TRY(require_unit_stride(g.strides[last], self->dtype, dtype));
    for (int64_t d = 0; d < last; d++) {
      SHMT_REQUIRE(g.strides[d] % ratio == 0, SHMT_E_RUNTIME,
                   "self.stride(%" PRId64 ") must be divisible by %" PRId64 " " VIEW_AS ", but got %" PRId64, d, ratio,
                   from, to, g.strides[d]);
      g.strides[d] /= ratio;
    }
    g.sizes[last] /= ratio;
    g.offset /= ratio;
  }
  return shmt__tensor_alias_as(self, dtype, (shmt_ints){g.sizes, g.n_dims}, (shmt_ints){g.strides, g.n_dims}, g.offset,
                               out);
}
shmt_status shmt__impl_transform_input(shmt_tensor* self, shmt_tensor** out) {
  SHMT_TRY(shmt__tensor_alias(self, shmt__tensor_sizes(self), shmt__tensor_strides(self), self->offset, out));
  shmt__tensor_set_base(*out, self, false); /* they share the version, but writing to one is no history of the other */
  return SHMT_OK;
}

