/* ops/loss/reductions.c -- what losses share: reductions, and gradients that overwrite what nobody else has. */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/scalar_expression.h"

enum { MEAN = 1, SUM = 2 };

shmt_status shmt__reduce_loss(shmt_tensor* self, int64_t reduction, shmt_tensor** out) {
  if (reduction == MEAN) return shmt_op_mean(self, SHMT_DTYPE_NONE, out);
  if (reduction == SUM) return shmt_op_sum(self, SHMT_DTYPE_NONE, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

/* self * factor, written into self's memory when the caller owns it alone. */
static shmt_status multiply_by_factor(shmt_tensor* self, shmt_tensor* factor, shmt_tensor** out) {
  if (!shmt__can_reuse(self, factor)) return shmt_op_mul_Tensor(self, factor, out);
  SHMT_TRY(shmt_op_mul__Tensor(self, factor));
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}

shmt_status shmt__loss_grad(shmt_tensor* grad, shmt_tensor* slope, int64_t reduction, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) scaled = NULL;

  /* Scales the 0-d gradient first, which saves a pass over the elements. */
  if (reduction == MEAN && slope->numel != 1)
    SHMT_TRY(shmt_op_div_Scalar(grad, shmt__scalar_int(slope->numel), &scaled));
  else
    scaled = shmt__tensor_ref(grad);
  return multiply_by_factor(slope, scaled, out);
}

shmt_status shmt__mul_optional_weight(shmt_tensor* self, shmt_tensor* weight, shmt_tensor** out) {
  if (weight) return multiply_by_factor(self, weight, out);
  *out = shmt__tensor_ref(self);
  return SHMT_OK;
}
