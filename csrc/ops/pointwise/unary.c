/* ops/pointwise/unary.c -- unary operators that prepare arguments or results around their loop. */
#include "base/dtype.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/operator_loops.h"
#include "generated/ops.h"
#include "ops/check.h"
#include "ops/scalar_expression.h"
#include "iter/copy/copy.h"
#include "ops/dtype_names.h"
#include "ops/outputs.h"
#include "ops/pointwise/pointwise.h"

#include <math.h>

shmt_status shmt__pointwise_neg(const shmt__pointwise* p, shmt_tensor* self, shmt_tensor** out) {
  SHMT_REQUIRE(self->dtype != SHMT_BOOL, SHMT_E_RUNTIME,
               "Negation, the `-` operator, on a bool tensor is not supported. If you are trying "
               "to invert a mask, use "
               "the `~` or `logical_not()` operator instead.");
  return shmt__pointwise_unary(p, self, out);
}

/* For a complex dtype the loop stores real numbers. */
shmt_status shmt__pointwise_unary_real(const shmt__pointwise* p, shmt_tensor* self,
                                    shmt_tensor** out) {
  shmt__pointwise real = *p;

  if (shmt__dtype_kind[self->dtype] != SHMT_KIND_COMPLEX) return shmt__pointwise_unary(p, self, out);
  SHMT_REQUIRE(*out != self, SHMT_E_RUNTIME, "In-place %s is not supported for complex tensors.",
               p->name);
  real.result = shmt__to_real_dtype(self->dtype);
  return shmt__pointwise_unary(&real, self, out);
}

/* angle. Integers are cast to the default dtype first. */
shmt_status shmt__pointwise_unary_angle(const shmt__pointwise* p, shmt_tensor* self,
                                     shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  if (shmt__dtype_category(self->dtype) >= 2) return shmt__pointwise_unary_real(p, self, out);
  SHMT_TRY(shmt__tensor_cast(self, shmt__default_dtype(), &cast));
  return shmt__pointwise_unary(p, cast, out);
}

/* The loop gets 10^|decimals|, and whether to divide by it first. */
shmt_status shmt__round_decimals(shmt_tensor* self, int64_t decimals, shmt_tensor** out) {
  static const shmt__pointwise plain = {"round", SHMT_LOOP_round, SHMT_PROMOTE_NONE,
                                        SHMT_DTYPE_NONE, true};
  static const shmt__pointwise scaled = {"round_decimals", SHMT_LOOP_round_decimals,
                                         SHMT_PROMOTE_NONE, SHMT_DTYPE_NONE, true};

  SHMT_REFUSE_DTYPE(!shmt__is_floating(self->dtype), self->dtype, decimals == 0 ? "round_vml_cpu" : "round_cpu");
  if (decimals == 0) return shmt__pointwise_unary(&plain, self, out);
  return shmt__pointwise_unary_2(&scaled, self, shmt__scalar_float(pow(10, fabs((double)decimals))),
                              shmt__scalar_int(decimals < 0), out);
}

shmt_status shmt__nan_to_num(shmt_tensor* self, shmt_opt_float nan, shmt_opt_float posinf,
                             shmt_opt_float neginf, shmt_tensor** out) {
  static const shmt__pointwise copy = {"nan_to_num", SHMT_LOOP_bitwise_or, SHMT_PROMOTE_NONE,
                                       SHMT_DTYPE_NONE, true};
  static const shmt__pointwise replace = {"nan_to_num", SHMT_LOOP_nan_to_num, SHMT_PROMOTE_NONE,
                                          SHMT_DTYPE_NONE, true};
  const shmt_dtype real = shmt__to_real_dtype(self->dtype);
  const bool is_wide = real == SHMT_FLOAT64;
  const double largest = is_wide                ? 1.7976931348623157e308
                         : real == SHMT_FLOAT32 ? 3.4028234663852886e38
                         : real == SHMT_FLOAT16 ? 65504.0
                                                : 3.3895313892515355e38;

  /* Integers are always finite, so the result is a copy: x | x. */
  if (shmt__dtype_category(self->dtype) < 2) return shmt__pointwise_binary(&copy, self, self, out);
  const double given[] = {nan.has ? nan.value : 0, posinf.has ? posinf.value : largest,
                          neginf.has ? neginf.value : -largest};
  shmt_scalar number[3]; /* a value beyond the range of float is infinite */
  for (int k = 0; k < 3; k++) number[k] = shmt__scalar_float(is_wide ? given[k] : (double)(float)given[k]);
  return shmt__pointwise_unary_3(&replace, self, number[0], number[1], number[2], out);
}

shmt_status shmt__logit(shmt_tensor* self, shmt_opt_float eps, shmt_tensor** out) {
  static const shmt__pointwise p = {"logit", SHMT_LOOP_logit, SHMT_PROMOTE_INT_TO_FLOAT,
                                    SHMT_DTYPE_NONE, false};

  return shmt__pointwise_unary_1(&p, self, shmt__scalar_float(eps.has ? eps.value : NAN), out);
}

shmt_status shmt__logit_backward(shmt_tensor* grad, shmt_tensor* self, shmt_opt_float eps, shmt_tensor** out) {
  static const shmt__pointwise p = {"logit_backward", SHMT_LOOP_logit_backward, SHMT_PROMOTE_ARITHMETIC,
                                    SHMT_DTYPE_NONE, false};

  return shmt__pointwise_binary_1(&p, grad, self, shmt__scalar_float(eps.has ? eps.value : NAN), out);
}

shmt_status shmt__frexp(shmt_tensor* self, shmt_tensor** mantissa, shmt_tensor** exponent) {
  static const shmt__pointwise p = {"frexp", SHMT_LOOP_frexp, SHMT_PROMOTE_NONE, SHMT_DTYPE_NONE, true};
  shmt_iter it;
  shmt__loop loop;
  shmt_status status;

  SHMT_REQUIRE(shmt__dtype_kind[self->dtype] == SHMT_KIND_FLOATING, SHMT_E_RUNTIME,
               "torch.frexp() only supports floating-point dtypes");
  SHMT_TRY(shmt__check_out_dtype(*exponent, SHMT_INT32));
  shmt__iter_init(&it, p.name);
  shmt__iter_output(&it, mantissa, self->dtype);
  shmt__iter_output(&it, exponent, SHMT_INT32);
  shmt__iter_input(&it, self);
  it.promote = p.promote;
  SHMT_TRY(shmt__iter_build(&it));
  status = shmt__pointwise_loop(&p, it.common_dtype, &loop);
  if (status == SHMT_OK) status = shmt__iter_run(&it, loop, NULL);
  return shmt__iter_finish(&it, status);
}

shmt_status shmt__isreal(shmt_tensor* self, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) part = NULL;

  if (shmt__dtype_kind[self->dtype] != SHMT_KIND_COMPLEX)
    return shmt_op_ones_like(self, SHMT_BOOL, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE,
                             (shmt_opt_bool){0}, SHMT_PRESERVE_FORMAT, out);
  SHMT_TRY(shmt_op_imag(self, &part));
  return shmt_op_eq_Scalar(part, shmt__scalar_int(0), out);
}
