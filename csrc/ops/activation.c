/* ops/activation.c -- activation functions with a choice of formula. */
#include "base/promote.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "ops/formula.h"
#include "ops/pointwise.h"

#include <float.h>

static shmt_status is_tanh(const char* approximate, bool* out) {
  *out = shmt__text_is(approximate, "tanh");
  SHMT_REQUIRE(*out || shmt__text_is(approximate, "none"), SHMT_E_RUNTIME,
               "approximate argument must be either none or tanh.");
  return SHMT_OK;
}

shmt_status shmt__family_softshrink(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                    shmt_tensor** out) {
  const double by = shmt__scalar_to_double(a);
  const double most = self->dtype == SHMT_FLOAT64    ? DBL_MAX
                      : self->dtype == SHMT_FLOAT16  ? 65504
                      : self->dtype == SHMT_BFLOAT16 ? 0x1.fep127
                                                     : FLT_MAX;

  SHMT_REQUIRE(shmt__dtype_category(self->dtype) != 2 || (by >= 0 && by <= most), SHMT_E_RUNTIME,
               "lambda must be in range [0, %g] for input dtype %s, but found %g", most,
               shmt__dtype_title(self->dtype), by);
  return shmt__family_unary_1(p, self, a, out);
}

shmt_status shmt__gelu(shmt_tensor* self, const char* approximate, shmt_tensor** out) {
  bool by_tanh;

  SHMT_TRY(is_tanh(approximate, &by_tanh));
  const shmt__pointwise p = {"gelu", by_tanh ? SHMT_LOOP_gelu_tanh : SHMT_LOOP_gelu,
                             SHMT_PROMOTE_NONE, SHMT_DTYPE_NONE, true};
  return shmt__family_unary(&p, self, out);
}

shmt_status shmt__gelu_backward(shmt_tensor* grad_output, shmt_tensor* self,
                                const char* approximate, shmt_tensor** out) {
  bool by_tanh;

  SHMT_TRY(is_tanh(approximate, &by_tanh));
  const shmt__pointwise p = {"gelu_backward",
                             by_tanh ? SHMT_LOOP_gelu_tanh_backward : SHMT_LOOP_gelu_backward,
                             SHMT_PROMOTE_ARITHMETIC, SHMT_DTYPE_NONE, false};
  return shmt__family_binary(&p, grad_output, self, out);
}
