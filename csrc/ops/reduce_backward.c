/* ops/reduce_backward.c -- results of reductions, back at the shape they came from. */
#include "base/overflow.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/formula.h"

/* grad with size 1 where dims of mask were removed from n_dims; grad itself when it has them all.
 * New reference. */
static shmt_status restore_dims(shmt_tensor* grad, uint64_t mask, int64_t n_dims,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) at = shmt__tensor_ref(grad);

  for (int64_t d = 0; d < n_dims; d++) {
    SHMT_AUTO(shmt_tensor) wider = NULL;
    if (!(mask >> d & 1)) continue;
    SHMT_TRY(shmt_op_unsqueeze(at, d, &wider));
    shmt__tensor_release(at);
    at = SHMT_TAKE(wider);
  }
  *out = SHMT_TAKE(at);
  return SHMT_OK;
}

shmt_status shmt___reduced_expand(shmt_tensor* grad, shmt_ints sizes, shmt_ints dim, bool keepdim,
                                  shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) full = NULL;
  uint64_t mask;

  SHMT_TRY(shmt__dims_mask(dim, sizes.len, &mask));
  /* With one element there is nothing to put back: it expands to anything. */
  if (keepdim || sizes.len == 0 || grad->n_dims == 0)
    full = shmt__tensor_ref(grad);
  else
    SHMT_TRY(restore_dims(grad, mask, sizes.len, &full));
  return shmt_op_expand(full, sizes, false, out);
}

shmt_status shmt___unreduce(shmt_tensor* grad, int64_t dim, int64_t n_dims, shmt_tensor** out) {
  if (n_dims == 0) {
    *out = shmt__tensor_ref(grad);
    return SHMT_OK;
  }
  SHMT_TRY(shmt__wrap_dim(dim, n_dims, &dim));
  return shmt_op_unsqueeze(grad, dim, out);
}
