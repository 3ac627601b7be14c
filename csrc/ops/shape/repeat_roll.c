/* ops/shape/repeat_roll.c -- repeat, tile, repeat_interleave, roll, rot90. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "ops/check.h"
#include "ops/outputs.h"

#include <inttypes.h>
#include <string.h>

/* out[r0][s0][r1][s1]... = self[s0][s1]...: a broadcast copy into a view of the result with twice the dims. */
shmt_status shmt__repeat(shmt_tensor* self, shmt_ints repeats, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) blocks = NULL;
  SHMT_AUTO(shmt_tensor) source = NULL;
  int64_t sizes[SHMT_MAX_DIMS];
  int64_t block_sizes[2 * SHMT_MAX_DIMS], block_strides[2 * SHMT_MAX_DIMS], from_strides[2 * SHMT_MAX_DIMS];
  const int64_t n = repeats.len, extra = n - self->n_dims;

  SHMT_REQUIRE(extra >= 0, SHMT_E_RUNTIME,
               "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  SHMT_REQUIRE(2 * n <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "repeat(): at most %d dimensions, got %" PRId64,
               SHMT_MAX_DIMS / 2, n);
  for (int64_t d = 0; d < n; d++) {
    const int64_t have = d >= extra ? self->sizes[d - extra] : 1;
    SHMT_REQUIRE(shmt__mul_i64(have, repeats.data[d], &sizes[d]), SHMT_E_RUNTIME, "repeat(): sizes overflow");
  }
  for (int64_t d = 0; d < n; d++)
    SHMT_REQUIRE(repeats.data[d] >= 0, SHMT_E_RUNTIME,
                 "Trying to create tensor with negative dimension %" PRId64 ": %s", sizes[d],
                 shmt__ints_text((shmt_ints){sizes, n}, (char[256]){0}, 256));
  SHMT_TRY(shmt__tensor_empty((shmt_ints){sizes, n}, self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(result) && result->numel > 0) {
    for (int64_t d = 0; d < n; d++) {
      const int64_t have = d >= extra ? self->sizes[d - extra] : 1;
      block_sizes[2 * d] = repeats.data[d];
      block_sizes[2 * d + 1] = have;
      block_strides[2 * d] = result->strides[d] * have;
      block_strides[2 * d + 1] = result->strides[d];
      from_strides[2 * d] = 0;
      from_strides[2 * d + 1] = d >= extra ? self->strides[d - extra] : 0;
    }
    const shmt_ints blocks_shape = {block_sizes, 2 * n};
    SHMT_TRY(shmt__tensor_alias(result, blocks_shape, (shmt_ints){block_strides, 2 * n}, result->offset, &blocks));
    SHMT_TRY(shmt__tensor_alias(self, blocks_shape, (shmt_ints){from_strides, 2 * n}, self->offset, &source));
    SHMT_TRY(shmt__tensor_copy(blocks, source));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__repeat_backward(shmt_tensor* grad, shmt_ints repeats, shmt_ints sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) blocks = NULL;
  int64_t shape[2 * SHMT_MAX_DIMS], dims[SHMT_MAX_DIMS];
  const int64_t n = repeats.len, extra = n - sizes.len;
  int64_t n_shape = 0, n_dims = 0;
  bool is_empty = false;

  for (int64_t d = 0; d < n; d++) is_empty = is_empty || repeats.data[d] == 0;
  if (is_empty) {
    return shmt_op_new_zeros(grad, sizes, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, out);
  }
  for (int64_t d = 0; d < n; d++) {
    if (repeats.data[d] != 1) {
      dims[n_dims++] = n_shape;
      shape[n_shape++] = repeats.data[d];
    } else if (d < extra) {
      continue;
    }
    if (d >= extra) shape[n_shape++] = sizes.data[d - extra];
  }
  SHMT_TRY(shmt_op_reshape(grad, (shmt_ints){shape, n_shape}, &blocks));
  if (n_dims == 0) {
    *out = SHMT_TAKE(blocks);
    return SHMT_OK;
  }
  return shmt_op_sum_dim_IntList(blocks, (shmt_ints){dims, n_dims}, false, SHMT_DTYPE_NONE, out);
}

shmt_status shmt__tile(shmt_tensor* self, shmt_ints dims, shmt_tensor** out) {
  int64_t repeats[SHMT_MAX_DIMS];
  const int64_t missing = self->n_dims - dims.len;

  if (missing <= 0) return shmt_op_repeat(self, dims, out);
  for (int64_t d = 0; d < self->n_dims; d++) repeats[d] = d < missing ? 1 : dims.data[d - missing];
  return shmt_op_repeat(self, (shmt_ints){repeats, self->n_dims}, out);
}

/* --- repeat_interleave ---------------------------------------------------------------- */

shmt_status shmt__repeat_interleave_index(shmt_tensor* repeats, shmt_opt_int output_size, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) wide = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t total = 0;

  SHMT_REFUSE_DTYPE(repeats->dtype != SHMT_INT64 && repeats->dtype != SHMT_INT32, repeats->dtype,
                    "repeat_interleave_cpu");
  SHMT_REQUIRE(repeats->n_dims == 1, SHMT_E_RUNTIME,
               "repeat_interleave only accept 1D vector as repeat, got one of %d dimensions", repeats->n_dims);
  /* There is nothing to repeat, whatever the caller expects. */
  if (repeats->numel == 0) return shmt__tensor_empty_like(repeats, repeats->dtype, out);
  if (!output_size.has) SHMT_TRY(shmt__refuse_meta_count("repeat_interleave", repeats));
  if (shmt__tensor_is_meta(repeats))
    return shmt__tensor_empty(SHMT_INTS(output_size.value), repeats->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, out);
  SHMT_TRY(shmt__tensor_cast(repeats, SHMT_INT64, &wide));
  SHMT_TRY(shmt__tensor_contiguous(wide, SHMT_CONTIGUOUS_FORMAT, &dense));
  const int64_t* counts = shmt__tensor_data(dense);
  for (int64_t i = 0; i < dense->numel; i++) {
    SHMT_REQUIRE(counts[i] >= 0, SHMT_E_RUNTIME, "repeats can not be negative");
    SHMT_REQUIRE(shmt__add_i64(total, counts[i], &total), SHMT_E_RUNTIME, "repeat_interleave(): sizes overflow");
  }
  SHMT_REQUIRE(!output_size.has || output_size.value == total, SHMT_E_RUNTIME,
               "repeat_interleave: Allocated size does not match required size, got %" PRId64 " and %" PRId64,
               output_size.value, total);
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(total), SHMT_INT64, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &result));
  /* Bounded, because another process may change the counts after they were summed. */
  int64_t *to = shmt__tensor_data(result), *const end = to + total;
  for (int64_t i = 0; i < dense->numel; i++)
    for (int64_t k = 0; k < counts[i] && to < end; k++) *to++ = i;
  while (to < end) *to++ = 0;
  return shmt__tensor_cast(result, repeats->dtype, out);
}

shmt_status shmt__repeat_interleave_tensor(shmt_tensor* self, shmt_tensor* repeats, shmt_opt_int dim,
                                           shmt_opt_int output_size, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) counts = NULL;
  SHMT_AUTO(shmt_tensor) index = NULL;
  int64_t d = dim.has ? dim.value : 0;

  if (dim.has)
    flat = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(-1), &flat));
  SHMT_REQUIRE(repeats->n_dims <= 1, SHMT_E_RUNTIME, "repeats must be 0-dim or 1-dim tensor, got %d dimensions",
               repeats->n_dims);
  SHMT_REQUIRE(flat->n_dims > 0, SHMT_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions", d);
  SHMT_TRY(shmt__wrap_dim(d, flat->n_dims, &d));
  const int64_t length = flat->sizes[d];
  if (repeats->n_dims == 0 || (repeats->n_dims == 1 && repeats->sizes[0] == 1)) {
    SHMT_AUTO(shmt_tensor) one = NULL;
    SHMT_TRY(shmt_op_reshape(repeats, SHMT_INTS(1), &one));
    SHMT_TRY(shmt_op_expand(one, SHMT_INTS(length), false, &counts));
  } else {
    SHMT_REQUIRE(repeats->sizes[0] == length, SHMT_E_RUNTIME,
                 "repeats must have the same size as input along dim, but got repeats.size(0) = %" PRId64
                 " and input.size(%" PRId64 ") = %" PRId64, repeats->sizes[0], dim.has ? dim.value : 0, length);
    counts = shmt__tensor_ref(repeats);
  }
  SHMT_TRY(shmt_op_repeat_interleave_Tensor(counts, output_size, &index));
  return shmt_op_index_select(flat, d, index, out);
}

shmt_status shmt__repeat_interleave_int(shmt_tensor* self, int64_t repeats, shmt_opt_int dim, shmt_opt_int output_size,
                                        shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) column = NULL;
  SHMT_AUTO(shmt_tensor) wide = NULL;
  int64_t sizes[SHMT_MAX_DIMS + 1];
  int64_t d = dim.has ? dim.value : 0;

  if (dim.has)
    flat = shmt__tensor_ref(self);
  else
    SHMT_TRY(shmt_op_reshape(self, SHMT_INTS(-1), &flat));
  SHMT_TRY(shmt__wrap_dim(d, flat->n_dims, &d));
  SHMT_REQUIRE(repeats >= 0, SHMT_E_RUNTIME, "Repeats must be non-negative, got %" PRId64, repeats);
  SHMT_REQUIRE(flat->n_dims > 0, SHMT_E_INDEX,
               "Dimension out of range (expected to be in range of [-1, 0], but got %" PRId64
               "): a tensor without dimensions has none to repeat along", d + 1);
  int64_t repeated;
  SHMT_REQUIRE(shmt__mul_i64(flat->sizes[d], repeats, &repeated), SHMT_E_RUNTIME,
               "repeat_interleave(): %" PRId64 " repeats of %" PRId64 " elements overflow", repeats, flat->sizes[d]);
  SHMT_REQUIRE(!output_size.has || output_size.value == repeated, SHMT_E_RUNTIME,
               "repeat_interleave: Invalid output_size, expected %" PRId64 " but got %" PRId64, repeated,
               output_size.value);
  SHMT_REQUIRE(flat->n_dims < SHMT_MAX_DIMS, SHMT_E_RUNTIME, "repeat_interleave(): too many dimensions");
  SHMT_TRY(shmt_op_unsqueeze(flat, d + 1, &column));
  memcpy(sizes, column->sizes, (size_t)column->n_dims * sizeof *sizes);
  sizes[d + 1] = repeats;
  SHMT_TRY(shmt_op_expand(column, (shmt_ints){sizes, column->n_dims}, false, &wide));
  for (int i = (int)d + 1; i < flat->n_dims; i++) sizes[i] = flat->sizes[i];
  sizes[d] = flat->sizes[d] * repeats;
  {
    SHMT_AUTO(shmt_tensor) dense = NULL;
    SHMT_TRY(shmt_op_clone(wide, SHMT_CONTIGUOUS_FORMAT, &dense));
    return shmt_op_view(dense, (shmt_ints){sizes, flat->n_dims}, out);
  }
}

/* --- roll ------------------------------------------------------------------------ */

/* Copies `length` slices along dim from `from`, beginning at `start`, to `to`, beginning at `at`. */
static shmt_status move_slices(shmt_tensor* to, int64_t at, shmt_tensor* from, int64_t start, int64_t dim,
                               int64_t length) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  int64_t sizes[SHMT_MAX_DIMS];

  if (length == 0) return SHMT_OK;
  memcpy(sizes, to->sizes, (size_t)to->n_dims * sizeof *sizes);
  sizes[dim] = length;
  const shmt_ints shape = {sizes, to->n_dims};
  SHMT_TRY(shmt__tensor_alias(to, shape, shmt__tensor_strides(to), to->offset + at * to->strides[dim], &a));
  SHMT_TRY(shmt__tensor_alias(from, shape, shmt__tensor_strides(from), from->offset + start * from->strides[dim], &b));
  return shmt__tensor_copy(a, b);
}

static shmt_status roll_one(shmt_tensor* t, int64_t shift, int64_t dim, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  const int64_t n = t->sizes[dim];

  shift = n > 0 ? shift % n : 0;
  if (shift < 0) shift += n;
  /* In torch roll concatenates two slices, so that the result is contiguous even when nothing moves. */
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(t), t->dtype, t->device,
                              shift > 0 ? shmt__tensor_suggest_format(t) : SHMT_CONTIGUOUS_FORMAT, &result));
  if (!shmt__tensor_is_meta(t) && t->numel > 0) {
    SHMT_TRY(move_slices(result, shift, t, 0, dim, n - shift));
    SHMT_TRY(move_slices(result, 0, t, n - shift, dim, shift));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__roll(shmt_tensor* self, shmt_ints shifts, shmt_ints dims, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) flat = NULL;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  SHMT_AUTO(shmt_tensor) rolled = NULL;

  SHMT_REQUIRE(shifts.len > 0, SHMT_E_RUNTIME, "`shifts` required");
  SHMT_REQUIRE(self->n_dims > 0 || dims.len <= 0, SHMT_E_INDEX,
               "Dimension specified as %" PRId64 " but tensor has no dimensions", dims.len > 0 ? dims.data[0] : 0);
  if (dims.len <= 0 && shifts.len == 1) {
    SHMT_TRY(shmt__tensor_contiguous(self, SHMT_CONTIGUOUS_FORMAT, &dense));
    SHMT_TRY(shmt__tensor_alias(dense, SHMT_INTS(dense->numel), SHMT_INTS(1), dense->offset, &flat));
    SHMT_TRY(roll_one(flat, shifts.data[0], 0, &rolled));
    int64_t strides[SHMT_MAX_DIMS];
    shmt__contiguous_strides(shmt__tensor_sizes(self), SHMT_CONTIGUOUS_FORMAT, strides);
    SHMT_TRY(shmt__tensor_set_geometry(rolled, shmt__tensor_sizes(self), (shmt_ints){strides, self->n_dims}, 0));
    *out = SHMT_TAKE(rolled);
    return SHMT_OK;
  }
  SHMT_REQUIRE(shifts.len == dims.len, SHMT_E_RUNTIME,
               "shifts and dimensions must align. shifts: %" PRId64 ", dims:%" PRId64, shifts.len,
               dims.len < 0 ? 0 : dims.len);
  for (int64_t i = 0; i < dims.len; i++) {
    SHMT_AUTO(shmt_tensor) before = result ? SHMT_TAKE(result) : shmt__tensor_ref(self);
    int64_t d;
    SHMT_TRY(shmt__wrap_dim(dims.data[i], self->n_dims, &d));
    if (self->n_dims == 0) {
      SHMT_TRY(shmt__tensor_empty_like(self, self->dtype, &result));
      if (!shmt__tensor_is_meta(self)) SHMT_TRY(shmt__tensor_copy(result, self));
    } else {
      SHMT_TRY(roll_one(before, shifts.data[i], d, &result));
    }
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__roll_backward(shmt_tensor* grad, shmt_ints shifts, shmt_ints dims, shmt_tensor** out) {
  int64_t back[SHMT_MAX_DIMS];

  SHMT_REQUIRE(shifts.len <= SHMT_MAX_DIMS, SHMT_E_RUNTIME, "roll(): too many shifts: %" PRId64, shifts.len);
  for (int64_t i = 0; i < shifts.len; i++) {
    int64_t d = i < dims.len ? dims.data[i] : 0, size = grad->numel;
    if (dims.len) SHMT_TRY(shmt__wrap_dim(d, grad->n_dims, &d));
    if (dims.len && grad->n_dims) size = grad->sizes[d];
    back[i] = size ? -(shifts.data[i] % size) : 0;
  }
  return shmt_op_roll(grad, (shmt_ints){back, shifts.len}, dims, out);
}

shmt_status shmt__rot90(shmt_tensor* self, int64_t k, shmt_ints dims, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) flipped = NULL;
  int64_t a, b;

  SHMT_REQUIRE(dims.len == 2, SHMT_E_RUNTIME, "expected total rotation dims == 2, but got dims = %" PRId64, dims.len);
  SHMT_REQUIRE(self->n_dims >= 2, SHMT_E_RUNTIME, "expected total dims >= 2, but got total dims = %d", self->n_dims);
  SHMT_TRY(shmt__wrap_dim(dims.data[0], self->n_dims, &a));
  SHMT_TRY(shmt__wrap_dim(dims.data[1], self->n_dims, &b));
  SHMT_REQUIRE(a != b, SHMT_E_RUNTIME, "expected rotation dims to be different, but got dim0 = %" PRId64
               " and dim1 = %" PRId64, dims.data[0], dims.data[1]);
  k = (k % 4 + 4) % 4;
  if (k == 0) return shmt_op_clone(self, SHMT_CONTIGUOUS_FORMAT, out);
  if (k == 2) return shmt_op_flip(self, dims, out);
  SHMT_TRY(shmt_op_flip(self, SHMT_INTS(k == 1 ? b : a), &flipped));
  return shmt_op_transpose_int(flipped, a, b, out);
}
