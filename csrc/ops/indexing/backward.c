/* ops/indexing/backward.c -- gradients of reading by index: zeros, with the gradient written or added where elements
 * were read.
 *
 * The zeros are new and nobody else's, so they are filled in place: beside the gradient there is no second tensor of
 * its size. The writes are recorded where autograd records.
 */
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "tensor/batched.h"

static shmt_status zeros(shmt_tensor* grad, shmt_ints sizes, shmt_tensor** out) {
  return shmt_op_new_zeros(grad, sizes, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0}, out);
}

/* Under vmap the zeros may have no room for all examples: then the writes make a new tensor. */
static bool is_batched(const shmt_tensor* grad, const shmt_tensor* other) {
  return shmt__batched_of(grad) || shmt__batched_of(other);
}

static bool any_batched(const shmt_tensor* grad, shmt_tensors list) {
  for (int64_t i = 0; i < list.len; i++)
    if (list.data[i] && is_batched(grad, list.data[i])) return true;
  return false;
}

shmt_status shmt__gather_backward(shmt_tensor* grad, shmt_ints sizes, int64_t dim, shmt_tensor* index,
                                  shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(zeros(grad, sizes, &result));
  if (is_batched(grad, index)) return shmt_op_scatter_add(result, dim, index, grad, out);
  SHMT_TRY(shmt_op_scatter_add_(result, dim, index, grad));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__value_selecting_backward(shmt_tensor* grad, shmt_ints sizes, int64_t dim, shmt_tensor* index,
                                           shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(zeros(grad, sizes, &result));
  if (is_batched(grad, index)) return shmt_op_scatter_src(result, dim, index, grad, out);
  SHMT_TRY(shmt_op_scatter__src(result, dim, index, grad));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Is there a single mask over all elements? It names each element once, in order: no list of indices is needed. */
static bool is_whole_mask(shmt_ints sizes, shmt_tensors indices) {
  return indices.len == 1 && indices.data[0] && indices.data[0]->dtype == SHMT_BOOL &&
         shmt__sizes_are(indices.data[0], sizes);
}

shmt_status shmt__index_tensor_backward(shmt_tensor* grad, shmt_ints sizes, shmt_tensors indices, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(zeros(grad, sizes, &result));
  if (any_batched(grad, indices)) return shmt_op_index_put(result, indices, grad, true, out);
  if (is_whole_mask(sizes, indices))
    SHMT_TRY(shmt_op_masked_scatter_(result, indices.data[0], grad));
  else
    SHMT_TRY(shmt_op_index_put_(result, indices, grad, true));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__index_select_backward(shmt_tensor* grad, shmt_ints sizes, int64_t dim, shmt_tensor* index,
                                        shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(zeros(grad, sizes, &result));
  if (is_batched(grad, index)) return shmt_op_index_add(result, dim, index, grad, shmt__scalar_int(1), out);
  SHMT_TRY(shmt_op_index_add_(result, dim, index, grad, shmt__scalar_int(1)));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__take_backward(shmt_tensor* grad, shmt_ints sizes, shmt_tensor* index, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(zeros(grad, sizes, &result));
  if (is_batched(grad, index)) return shmt_op_put(result, index, grad, true, out);
  SHMT_TRY(shmt_op_put_(result, index, grad, true));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__masked_select_backward(shmt_tensor* grad, shmt_ints sizes, shmt_tensor* mask, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) result = NULL;
  int64_t both[SHMT_MAX_DIMS], n;

  SHMT_TRY(shmt__broadcast_sizes(sizes, shmt__tensor_sizes(mask), both, &n));
  SHMT_TRY(zeros(grad, (shmt_ints){both, n}, &result));
  if (is_batched(grad, mask)) return shmt_op_masked_scatter(result, mask, grad, out);
  SHMT_TRY(shmt_op_masked_scatter_(result, mask, grad));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}
