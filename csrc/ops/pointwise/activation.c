/* ops/pointwise/activation.c -- activation functions that are more than one loop: gelu (two approximations), glu,
 * prelu. */
#include "base/dtype.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "generated/ops.h"
#include "ops/scalar_expression.h"
#include "ops/pointwise/pointwise.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

static shmt_status is_tanh(const char* approximate, bool* out) {
  *out = shmt__text_is(approximate, "tanh");
  SHMT_REQUIRE(*out || shmt__text_is(approximate, "none"), SHMT_E_RUNTIME,
               "approximate argument must be either none or tanh.");
  return SHMT_OK;
}

shmt_status shmt__pointwise_softshrink(const shmt__pointwise* p, shmt_tensor* self, shmt_scalar a,
                                    shmt_tensor** out) {
  const double by = shmt__scalar_to_double(a);
  const double most = self->dtype == SHMT_FLOAT64    ? DBL_MAX
                      : self->dtype == SHMT_FLOAT16  ? 65504
                      : self->dtype == SHMT_BFLOAT16 ? 0x1.fep127
                                                     : FLT_MAX;

  SHMT_REQUIRE(shmt__dtype_category(self->dtype) != 2 || (by >= 0 && by <= most), SHMT_E_RUNTIME,
               "lambda must be in range [0, %g] for input dtype %s, but found %g", most,
               shmt__dtype_title(self->dtype), by);
  return shmt__pointwise_unary_1(p, self, a, out);
}

shmt_status shmt__gelu(shmt_tensor* self, const char* approximate, shmt_tensor** out) {
  bool by_tanh;

  SHMT_TRY(is_tanh(approximate, &by_tanh));
  const shmt__pointwise p = {"gelu", by_tanh ? SHMT_LOOP_gelu_tanh : SHMT_LOOP_gelu,
                             SHMT_PROMOTE_NONE, SHMT_DTYPE_NONE, true};
  return shmt__pointwise_unary(&p, self, out);
}

shmt_status shmt__gelu_backward(shmt_tensor* grad_output, shmt_tensor* self,
                                const char* approximate, shmt_tensor** out) {
  bool by_tanh;

  SHMT_TRY(is_tanh(approximate, &by_tanh));
  const shmt__pointwise p = {"gelu_backward",
                             by_tanh ? SHMT_LOOP_gelu_tanh_backward : SHMT_LOOP_gelu_backward,
                             SHMT_PROMOTE_ARITHMETIC, SHMT_DTYPE_NONE, false};
  return shmt__pointwise_binary(&p, grad_output, self, out);
}

/* --- gated linear units ------------------------------------------------------------------- */

/* Wraps dim and checks that its size is even. */
static shmt_status check_even_dim(const shmt_tensor* self, int64_t dim, int64_t* out) {
  SHMT_REQUIRE(self->n_dims > 0, SHMT_E_RUNTIME, "glu does not support scalars because halving size must be even");
  SHMT_TRY(shmt__wrap_dim(dim, self->n_dims, out));
  SHMT_REQUIRE(self->sizes[*out] % 2 == 0, SHMT_E_RUNTIME,
               "Halving dimension must be even, but dimension %" PRId64 " is size %" PRId64, *out, self->sizes[*out]);
  return SHMT_OK;
}

/* A view of the first (which == 0) or second half of t along dim. New reference. */
static shmt_status half_of(shmt_tensor* t, int64_t dim, int which, shmt_tensor** out) {
  int64_t sizes[SHMT_MAX_DIMS];

  memcpy(sizes, t->sizes, t->n_dims * sizeof *sizes);
  sizes[dim] /= 2;
  return shmt__tensor_alias(t, (shmt_ints){sizes, t->n_dims}, shmt__tensor_strides(t),
                            t->offset + which * sizes[dim] * t->strides[dim], out);
}

shmt_status shmt__glu(shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  const shmt__pointwise p = {"glu_cpu", SHMT_LOOP_glu, SHMT_PROMOTE_NONE, SHMT_DTYPE_NONE, false};
  SHMT_AUTO(shmt_tensor) value = NULL;
  SHMT_AUTO(shmt_tensor) gate = NULL;

  SHMT_TRY(check_even_dim(self, dim, &dim));
  SHMT_TRY(half_of(self, dim, 0, &value));
  SHMT_TRY(half_of(self, dim, 1, &gate));
  return shmt__pointwise_binary(&p, value, gate, out);
}

shmt_status shmt__glu_backward(shmt_tensor* grad_output, shmt_tensor* self, int64_t dim, shmt_tensor** out) {
  const shmt__pointwise of_value = {"glu_backward", SHMT_LOOP_glu, SHMT_PROMOTE_SAME, SHMT_DTYPE_NONE, false};
  const shmt__pointwise of_gate = {"glu_backward", SHMT_LOOP_glu_gate_backward, SHMT_PROMOTE_SAME, SHMT_DTYPE_NONE,
                                   false};
  SHMT_AUTO(shmt_tensor) value = NULL;
  SHMT_AUTO(shmt_tensor) gate = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) value_grad = NULL;
  SHMT_AUTO(shmt_tensor) gate_grad = NULL;

  SHMT_TRY(check_even_dim(self, dim, &dim));
  SHMT_TRY(half_of(self, dim, 0, &value));
  SHMT_TRY(half_of(self, dim, 1, &gate));
  SHMT_REQUIRE(shmt__same_sizes(grad_output, value), SHMT_E_RUNTIME,
               "glu_backward: a gradient of shape %s for halves of shape %s", SHMT_SHAPE_TEXT(grad_output),
               SHMT_SHAPE_TEXT(value));
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(self), self->dtype, self->device, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(half_of(result, dim, 0, &value_grad));
  SHMT_TRY(half_of(result, dim, 1, &gate_grad));
  SHMT_TRY(shmt__pointwise_binary(&of_value, grad_output, gate, &value_grad));
  SHMT_TRY(shmt__pointwise_ternary(&of_gate, grad_output, value, gate, &gate_grad));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- prelu ---------------------------------------------------------------------------------- */

shmt_status shmt__prelu(shmt_tensor* self, shmt_tensor* weight, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) slopes = NULL;
  const int64_t channels = self->n_dims > 1 ? self->sizes[1] : 1;
  int64_t sizes[SHMT_MAX_DIMS];

  SHMT_REQUIRE(self->dtype == weight->dtype, SHMT_E_RUNTIME, "prelu: Type promoting not supported. Got %s and %s",
               shmt__dtype_title(self->dtype), shmt__dtype_title(weight->dtype));
  SHMT_REQUIRE(weight->n_dims <= 1, SHMT_E_RUNTIME,
               "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %d", weight->n_dims);
  if (weight->numel != 1) {
    SHMT_REQUIRE(self->n_dims > 0, SHMT_E_RUNTIME, "Not allow zero-dim input tensor.");
    SHMT_REQUIRE(channels == weight->numel, SHMT_E_RUNTIME,
                 "Mismatch of parameter numbers and input channel size. Found parameter numbers = %" PRId64
                 " and channel size = %" PRId64 ".", weight->numel, channels);
  }
  if (self->n_dims == 1) return shmt_op__prelu_kernel(self, weight, out);
  for (int d = 0; d < self->n_dims; d++) sizes[d] = d == 1 ? weight->numel : 1;
  SHMT_TRY(shmt_op_reshape(weight, (shmt_ints){sizes, self->n_dims}, &slopes));
  return shmt_op__prelu_kernel(self, slopes, out);
}
