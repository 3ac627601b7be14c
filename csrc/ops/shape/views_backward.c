/* ops/shape/views_backward.c -- gradients of views: zeros, with the gradient written into the viewed part; and
 * scatters.
 *
 * These run below autograd and have derivatives of their own, so they work on plain aliases of their arguments and
 * never record.
 */
#include "generated/impls.h"
#include "generated/ops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "tensor/tensor.h"

#include <inttypes.h>

static shmt_status zeros(shmt_ints sizes, const shmt_tensor* like, shmt_tensor** out) {
  return shmt__tensor_zeros(sizes, like->dtype, like->device, out);
}

/* A tensor with t's memory and no autograd history. */
static shmt_status plain(shmt_tensor* t, shmt_tensor** out) {
  return shmt__tensor_alias(t, shmt__tensor_sizes(t), shmt__tensor_strides(t), t->offset, out);
}

static shmt_status copy_into(shmt_tensor* view, shmt_tensor* value) {
  return shmt__tensor_is_meta(view) ? SHMT_OK : shmt__tensor_copy(view, value);
}

shmt_status shmt__impl_slice_backward(shmt_tensor* grad, shmt_ints sizes, int64_t dim, shmt_opt_int start,
                                      shmt_opt_int end, int64_t step, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) view = NULL;
  SHMT_TRY(zeros(sizes, grad, &result));
  SHMT_TRY(shmt__impl_slice(result, dim, start, end, step, &view));
  SHMT_TRY(copy_into(view, grad));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__impl_select_backward(shmt_tensor* grad, shmt_ints sizes, int64_t dim, int64_t index,
                                       shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) view = NULL;
  SHMT_TRY(zeros(sizes, grad, &result));
  SHMT_TRY(shmt__impl_select(result, dim, index, &view));
  SHMT_TRY(copy_into(view, grad));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__impl_diagonal_backward(shmt_tensor* grad, shmt_ints sizes, int64_t offset, int64_t dim1, int64_t dim2,
                                         shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) view = NULL;
  SHMT_TRY(zeros(sizes, grad, &result));
  SHMT_TRY(shmt__impl_diagonal(result, offset, dim1, dim2, &view));
  SHMT_TRY(copy_into(view, grad));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- views whose elements may overlap ----------------------------------------------------------- */

/* Do no two index tuples lead to one address? Checks, by growing stride, that each dim steps over all that the smaller
 * ones reach. That is sufficient, and necessary for the strides that views produce. */
static bool is_injective(const shmt_tensor* t) {
  int64_t reach = 0;
  uint64_t done = 0;
  for (int round = 0; round < t->n_dims; round++) {
    int best = -1;
    for (int d = 0; d < t->n_dims; d++)
      if (!(done >> d & 1) && (best < 0 || t->strides[d] < t->strides[best])) best = d;
    done |= (uint64_t)1 << best;
    if (t->sizes[best] < 2) continue;
    if (t->strides[best] <= reach) return false;
    reach += (t->sizes[best] - 1) * t->strides[best];
  }
  return true;
}

/* view += value, where several elements of view may be one. Splits along a dim until the rest does not overlap. */
static shmt_status add_into(shmt_tensor* view, shmt_tensor* value) {
  if (view->numel == 0 || shmt__tensor_is_meta(view)) return SHMT_OK;
  if (is_injective(view)) return shmt_op_add__Tensor(view, value, shmt__scalar_int(1));
  int dim = -1;
  for (int d = 0; d < view->n_dims; d++)
    if (view->sizes[d] > 1 && (dim < 0 || view->sizes[d] < view->sizes[dim])) dim = d;
  for (int64_t i = 0; i < view->sizes[dim]; i++) {
    SHMT_AUTO(shmt_tensor) part = NULL;
    SHMT_AUTO(shmt_tensor) share = NULL;
    SHMT_TRY(shmt__impl_select(view, dim, i, &part));
    SHMT_TRY(shmt__impl_select(value, dim, i, &share));
    SHMT_TRY(add_into(part, share));
  }
  return SHMT_OK;
}

shmt_status shmt__impl_unfold_backward(shmt_tensor* grad, shmt_ints sizes, int64_t dim, int64_t size, int64_t step,
                                       shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) view = NULL;
  SHMT_AUTO(shmt_tensor) value = NULL;
  SHMT_TRY(zeros(sizes, grad, &result));
  SHMT_TRY(shmt__impl_unfold(result, dim, size, step, &view));
  SHMT_TRY(plain(grad, &value));
  SHMT_TRY(add_into(view, value));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Checks that the offset of the last element does not overflow. */
static shmt_status check_geometry(shmt_ints sizes, shmt_ints strides, int64_t offset) {
  uint64_t nbytes;

  SHMT_REQUIRE(sizes.len == strides.len && sizes.len <= SHMT_MAX_DIMS && offset >= 0, SHMT_E_RUNTIME,
               "as_strided(): %" PRId64 " sizes, %" PRId64 " strides and the offset %" PRId64 " do not fit", sizes.len,
               strides.len, offset);
  for (int64_t d = 0; d < sizes.len; d++)
    SHMT_REQUIRE(sizes.data[d] >= 0 && strides.data[d] >= 0, SHMT_E_RUNTIME,
                 "as_strided(): negative size %" PRId64 " or stride %" PRId64, sizes.data[d], strides.data[d]);
  return shmt__storage_bytes_for(sizes, strides, offset, 1, &nbytes);
}

/* Extends the range [*first, *end) to all elements that these sizes and strides reach. */
static void find_span(shmt_ints sizes, shmt_ints strides, int64_t offset, int64_t* first, int64_t* end) {
  int64_t last = offset;
  for (int64_t d = 0; d < sizes.len; d++)
    if (sizes.data[d] == 0) return; /* first, as the others were not checked then */
  for (int64_t d = 0; d < sizes.len; d++) last += (sizes.data[d] - 1) * strides.data[d];
  if (offset < *first) *first = offset;
  if (last + 1 > *end) *end = last + 1;
}

/* Divides value, element by element, by how many elements of `view` are at the same address. view begins view->offset
 * elements into its buffer. */
static shmt_status share_equally(shmt_tensor* value, shmt_tensor* view, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) counts = NULL;
  SHMT_AUTO(shmt_tensor) counted = NULL;
  SHMT_AUTO(shmt_tensor) ones = NULL;
  SHMT_AUTO(shmt_tensor) one = NULL;
  int64_t n = (int64_t)(view->storage->nbytes / (uint64_t)shmt__tensor_item_bytes(view));
  SHMT_TRY(zeros(SHMT_INTS(n), view, &counts));
  SHMT_TRY(shmt__tensor_alias(counts, shmt__tensor_sizes(view), shmt__tensor_strides(view), view->offset, &counted));
  SHMT_TRY(shmt__tensor_from_scalar(shmt__scalar_int(1), view->dtype, false, &one));
  SHMT_TRY(shmt__impl_expand(one, shmt__tensor_sizes(view), false, &ones));
  SHMT_TRY(add_into(counted, ones));
  return shmt_op_div_Tensor(value, counted, out);
}

/* The gradient of x.as_strided(size, stride, offset), where x has the sizes, strides and offset input_*. Writes the
 * gradient into a buffer that stands for the storage, and reads it with x's strides. An x whose own elements overlap
 * (an expanded one) gives each of them an equal share. */
shmt_status shmt__impl_as_strided_backward(shmt_tensor* grad, shmt_ints input_sizes, shmt_ints input_strides,
                                           int64_t input_offset, shmt_ints size, shmt_ints stride, int64_t offset,
                                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) buffer = NULL;
  SHMT_AUTO(shmt_tensor) view = NULL;
  SHMT_AUTO(shmt_tensor) value = NULL;
  SHMT_AUTO(shmt_tensor) input = NULL;
  int64_t first = INT64_MAX, end = 0;
  SHMT_REQUIRE(shmt__sizes_are(grad, size), SHMT_E_RUNTIME,
               "as_strided(): a gradient of shape %s for a result of shape %s", SHMT_SHAPE_TEXT(grad),
               shmt__ints_text(size, (char[256]){0}, 256));
  SHMT_TRY(check_geometry(input_sizes, input_strides, input_offset));
  SHMT_TRY(check_geometry(size, stride, offset));
  find_span(input_sizes, input_strides, input_offset, &first, &end);
  find_span(size, stride, offset, &first, &end);
  if (end == 0) first = 0;
  SHMT_TRY(zeros(SHMT_INTS(end - first), grad, &buffer));
  if (grad->numel > 0) {
    SHMT_TRY(shmt__tensor_alias(buffer, size, stride, offset - first, &view));
    SHMT_TRY(plain(grad, &value));
    SHMT_TRY(add_into(view, value));
  }
  int64_t numel;
  SHMT_TRY(shmt__checked_numel(input_sizes, &numel));
  if (numel == 0) return zeros(input_sizes, grad, out);
  SHMT_TRY(shmt__tensor_alias(buffer, input_sizes, input_strides, input_offset - first, &input));
  if (is_injective(input)) return shmt_op_clone(input, SHMT_CONTIGUOUS_FORMAT, out);

  return share_equally(input, input, out);
}

/* The transpose of the above: reads grad, which has the shape of x, as x.as_strided would. */
shmt_status shmt__impl_as_strided_forward(shmt_tensor* grad, shmt_ints input_strides, int64_t input_offset,
                                          shmt_ints size, shmt_ints stride, int64_t offset, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) buffer = NULL;
  SHMT_AUTO(shmt_tensor) input = NULL;
  SHMT_AUTO(shmt_tensor) value = NULL;
  SHMT_AUTO(shmt_tensor) view = NULL;
  shmt_ints input_sizes = shmt__tensor_sizes(grad);
  int64_t first = INT64_MAX, end = 0, numel;
  SHMT_TRY(check_geometry(input_sizes, input_strides, input_offset));
  SHMT_TRY(check_geometry(size, stride, offset));
  SHMT_TRY(shmt__checked_numel(size, &numel));
  if (numel == 0) return zeros(size, grad, out);
  find_span(input_sizes, input_strides, input_offset, &first, &end);
  find_span(size, stride, offset, &first, &end);
  if (end == 0) first = 0;
  SHMT_TRY(zeros(SHMT_INTS(end - first), grad, &buffer));
  if (grad->numel > 0) {
    SHMT_TRY(shmt__tensor_alias(buffer, input_sizes, input_strides, input_offset - first, &input));
    SHMT_TRY(plain(grad, &value));
    if (is_injective(input)) {
      SHMT_TRY(copy_into(input, value));
    } else {
      SHMT_AUTO(shmt_tensor) share = NULL;
      SHMT_TRY(share_equally(value, input, &share));
      SHMT_TRY(add_into(input, share));
    }
  }
  SHMT_TRY(shmt__tensor_alias(buffer, size, stride, offset - first, &view));
  return shmt_op_clone(view, SHMT_CONTIGUOUS_FORMAT, out);
}

/* --- slice_scatter and the like: a copy of self with a view replaced ---------------------------- */

static shmt_status put_back(shmt_tensor* view, shmt_tensor* src) {
  SHMT_REQUIRE(shmt__same_sizes(view, src), SHMT_E_RUNTIME,
               "expected src to have a size equal to the slice of self. src size = %s, slice size = %s",
               SHMT_SHAPE_TEXT(src), SHMT_SHAPE_TEXT(view));
  return copy_into(view, src);
}

/* A copy of all of self's storage with self's sizes and strides, so that strides and offsets mean the same. A tensor
 * whose own elements overlap is copied densely instead. */
static shmt_status copy_of(shmt_tensor* self, shmt_tensor** out) {
  if (!is_injective(self)) {
    SHMT_AUTO(shmt_tensor) dense = NULL;
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &dense));
    SHMT_TRY(copy_into(dense, self));
    *out = SHMT_TAKE(dense);
    return SHMT_OK;
  }
  SHMT_AUTO(shmt_tensor) whole = NULL;
  SHMT_AUTO(shmt_tensor) copy = NULL;
  int64_t n = (int64_t)(self->storage->nbytes / (uint64_t)shmt__tensor_item_bytes(self));
  SHMT_TRY(shmt__tensor_alias(self, SHMT_INTS(n), SHMT_INTS(1), 0, &whole));
  SHMT_TRY(shmt__tensor_empty(SHMT_INTS(n), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &copy));
  SHMT_TRY(copy_into(copy, whole));
  return shmt__tensor_alias(copy, shmt__tensor_sizes(self), shmt__tensor_strides(self), self->offset, out);
}

#define SCATTER(name, parameters, ...)                     \
  shmt_status shmt__impl_##name##_scatter parameters {     \
    SHMT_AUTO(shmt_tensor) copy = NULL;                    \
    SHMT_AUTO(shmt_tensor) view = NULL;                    \
    SHMT_TRY(copy_of(self, &copy));                        \
    SHMT_TRY(shmt__impl_##name(copy, __VA_ARGS__, &view)); \
    SHMT_TRY(put_back(view, src));                         \
    *out = SHMT_TAKE(copy);                                \
    return SHMT_OK;                                        \
  }

SCATTER(slice,
        (shmt_tensor * self, shmt_tensor* src, int64_t dim, shmt_opt_int start, shmt_opt_int end, int64_t step,
         shmt_tensor** out),
        dim, start, end, step)
SCATTER(select, (shmt_tensor * self, shmt_tensor* src, int64_t dim, int64_t index, shmt_tensor** out), dim, index)
SCATTER(diagonal,
        (shmt_tensor * self, shmt_tensor* src, int64_t offset, int64_t dim1, int64_t dim2, shmt_tensor** out), offset,
        dim1, dim2)

/* The offset counts in self's storage. */
shmt_status shmt__impl_as_strided_scatter(shmt_tensor* self, shmt_tensor* src, shmt_ints size, shmt_ints stride,
                                          shmt_opt_int storage_offset, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) copy = NULL;
  SHMT_AUTO(shmt_tensor) view = NULL;
  SHMT_TRY(copy_of(self, &copy));
  int64_t offset = storage_offset.has ? storage_offset.value : copy->offset;
  SHMT_TRY(shmt__impl_as_strided_at(copy, size, stride, offset, copy->offset, &view));
  SHMT_TRY(put_back(view, src));
  *out = SHMT_TAKE(copy);
  return SHMT_OK;
}
