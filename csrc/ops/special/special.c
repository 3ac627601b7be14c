/* ops/special/special.c -- special functions that are more than one loop over their arguments. */
#include "base/dtype.h"
#include "base/promote.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "ops/scalar_expression.h"
#include "ops/dtype_names.h"
#include "ops/pointwise/pointwise.h"

#include <inttypes.h>
#include <math.h>

shmt_status shmt__scalar_tensor_of(shmt_scalar value, shmt_tensor** out) {
  return shmt__wrapped_scalar_tensor(value, out);
}

shmt_status shmt__no_derivative(shmt_tensor* grad, const char* what, shmt_tensor** out) {
  (void)grad;
  (void)out;
  SHMT_FAIL(SHMT_E_NOT_IMPLEMENTED, "the derivative for '%s' is not implemented.", what);
}

shmt_status shmt__polygamma_of(int64_t n, shmt_tensor* self, shmt_tensor** out) {
  static const shmt__pointwise p = {"polygamma", SHMT_LOOP_polygamma, SHMT_PROMOTE_INT_TO_FLOAT,
                                    SHMT_DTYPE_NONE, false};

  SHMT_REQUIRE(n >= 0, SHMT_E_RUNTIME,
               "polygamma(n, x) does not support negative n, got n=%" PRId64, n);
  SHMT_REQUIRE(n < INT64_MAX, SHMT_E_RUNTIME,
               "polygamma(n, x): the gradient of n=%" PRId64 " would need a larger n", n);
  return shmt__pointwise_unary_1(&p, self, shmt__scalar_int(n), out);
}

shmt_status shmt__polygamma_(shmt_tensor* self, int64_t n) {
  SHMT_AUTO(shmt_tensor) before = NULL;
  SHMT_AUTO(shmt_tensor) value = NULL;

  /* The derivative needs the old values of self. */
  SHMT_TRY(shmt_op_clone(self, SHMT_MEMORY_FORMAT_NONE, &before));
  SHMT_TRY(shmt_op_polygamma(n, before, &value));
  SHMT_REQUIRE(shmt__can_cast(value->dtype, self->dtype), SHMT_E_RUNTIME,
               "result type %s can't be cast to the desired output type %s", shmt__dtype_title(value->dtype),
               shmt__dtype_title(self->dtype));
  return shmt_op_copy_(self, value, false);
}

/* The sum of lgamma(x + (1 - i) / 2) for i = 1 ... p, plus a constant. */
shmt_status shmt__mvlgamma(shmt_tensor* self, int64_t p, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) shifts = NULL;
  SHMT_AUTO(shmt_tensor) column = NULL;
  SHMT_AUTO(shmt_tensor) shifted = NULL;
  SHMT_AUTO(shmt_tensor) terms = NULL;
  SHMT_AUTO(shmt_tensor) sum = NULL;
  const shmt_dtype dtype = shmt__is_floating(self->dtype) ? self->dtype : shmt__default_dtype();
  const double log_pi = 1.1447298858494002, least = (1 - (double)p) / 2;
  const int64_t last = -1;

  SHMT_REQUIRE(self->dtype != SHMT_BOOL, SHMT_E_RUNTIME, "The input tensor may not be a boolean tensor.");
  SHMT_REQUIRE(p >= 1, SHMT_E_RUNTIME, "p has to be greater than or equal to 1");
  SHMT_TRY(shmt_op_arange_start_step(shmt__scalar_float(least), shmt__scalar_float(0.25), shmt__scalar_float(0.5),
                                     dtype, SHMT_LAYOUT_NONE, self->device, (shmt_opt_bool){0}, &shifts));
  SHMT_TRY(shmt_op_unsqueeze(self, -1, &column));
  SHMT_TRY(shmt_op_add_Tensor(column, shifts, shmt__scalar_int(1), &shifted));
  SHMT_TRY(shmt_op_lgamma(shifted, &terms));
  SHMT_TRY(shmt_op_sum_dim_IntList(terms, (shmt_ints){&last, 1}, false, SHMT_DTYPE_NONE, &sum));
  return shmt_op_add_Scalar(sum, shmt__scalar_float((double)p * ((double)p - 1) / 4 * log_pi),
                            shmt__scalar_int(1), out);
}
