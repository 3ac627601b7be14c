/* ops/conv/composite.c -- the named convolutions, and the derivative of the convolution's derivative. */
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"

#include <inttypes.h>
#include <string.h>

static const int64_t zero = 0;

static shmt_status check_input(int n, const char* name, const shmt_tensor* input) {
  SHMT_REQUIRE(input->n_dims == n + 1 || input->n_dims == n + 2, SHMT_E_RUNTIME,
               "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s", n + 1, n + 2, name,
               SHMT_SHAPE_TEXT(input));
  return SHMT_OK;
}

/* A missing batch dim is added and taken away again. */
static shmt_status convolve(int n, const char* name, shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                            shmt_ints stride, shmt_ints padding, shmt_ints dilation, bool transposed,
                            shmt_ints output_padding, int64_t groups, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) batch = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(check_input(n, name, input));
  if (input->n_dims == n + 2)
    return shmt_op_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out);
  SHMT_TRY(shmt_op_unsqueeze(input, 0, &batch));
  SHMT_TRY(shmt_op_convolution(batch, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
                               &result));
  return shmt_op_squeeze_dim(result, 0, out);
}

#define CONV(N)                                                                                                  \
  shmt_status shmt__conv##N##d(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias, shmt_ints stride,     \
                               shmt_ints padding, shmt_ints dilation, int64_t groups, shmt_tensor** out) {       \
    return convolve(N, "conv" #N "d", input, weight, bias, stride, padding, dilation, false,                     \
                    (shmt_ints){&zero, 1}, groups, out);                                                         \
  }                                                                                                              \
  shmt_status shmt__conv##N##d_padding(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,               \
                                       shmt_ints stride, const char* padding, shmt_ints dilation,                \
                                       int64_t groups, shmt_tensor** out) {                                      \
    return convolve_padded(N, "conv" #N "d", input, weight, bias, stride, padding, dilation, groups, out);       \
  }                                                                                                              \
  shmt_status shmt__conv_transpose##N##d(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,             \
                                         shmt_ints stride, shmt_ints padding, shmt_ints output_padding,          \
                                         int64_t groups, shmt_ints dilation, shmt_tensor** out) {                \
    return convolve(N, "conv_transpose" #N "d", input, weight, bias, stride, padding, dilation, true,            \
                    output_padding, groups, out);                                                                \
  }

/* Zeros at the far end of the spatial dims. */
static shmt_status pad_far(shmt_tensor* input, int n, const int64_t* extra, shmt_tensor** out) {
  int64_t pad[6] = {0}; /* the last dim first: before it, behind it */
  bool is_padded = false;

  for (int d = 0; d < n; d++) {
    pad[2 * (n - 1 - d) + 1] = extra[d];
    is_padded = is_padded || extra[d] != 0;
  }
  if (is_padded) {
    static _Atomic(bool) has_warned;
    SHMT_TRY(shmt__warn_once(
        &has_warned,
        "padding='same' with even kernel lengths and odd dilation needs a copy of the input, padded with "
        "zeros"));
  }
  if (is_padded) return shmt_op_constant_pad_nd(input, (shmt_ints){pad, 2 * n}, shmt__scalar_int(0), out);
  *out = shmt__tensor_ref(input);
  return SHMT_OK;
}

static shmt_status convolve_padded(int n, const char* name, shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                                   shmt_ints stride, const char* padding, shmt_ints dilation, int64_t groups,
                                   shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) padded = NULL;
  int64_t near[3], extra[3];

  if (strcmp(padding, "valid") == 0)
    return convolve(n, name, input, weight, bias, stride, (shmt_ints){&zero, 1}, dilation, false,
                    (shmt_ints){&zero, 1}, groups, out);
  SHMT_REQUIRE(strcmp(padding, "same") == 0, SHMT_E_RUNTIME, "Invalid padding string: '%s'", padding);
  SHMT_REQUIRE(weight->n_dims >= 3, SHMT_E_RUNTIME, "weight should have at least three dimensions");
  SHMT_REQUIRE(
      weight->n_dims == n + 2, SHMT_E_RUNTIME,
      "Expected %d-dimensional input for %d-dimensional weight%s, but got %d-dimensional input of size %s instead",
      weight->n_dims, weight->n_dims, SHMT_SHAPE_TEXT(weight), input->n_dims, SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE(dilation.len == 1 || dilation.len == n, SHMT_E_RUNTIME,
               "expected dilation to be a single integer value or a list of %d values, but got %" PRId64, n,
               dilation.len);
  for (int64_t d = 0; d < stride.len; d++)
    SHMT_REQUIRE(stride.data[d] == 1, SHMT_E_RUNTIME, "padding='same' is not supported for strided convolutions");
  SHMT_TRY(check_input(n, name, input));
  for (int d = 0; d < n; d++) {
    const int64_t step = dilation.data[dilation.len == 1 ? 0 : d], length = weight->sizes[2 + d];
    int64_t total;
    SHMT_REQUIRE(step > 0, SHMT_E_RUNTIME, "dilation should be greater than zero");
    SHMT_REQUIRE(length == 0 || !__builtin_mul_overflow(step, length - 1, &total), SHMT_E_RUNTIME,
                 "a kernel of %" PRId64 " elements %" PRId64 " apart is longer than int64 holds", length, step);
    if (length == 0) total = 0;
    near[d] = total / 2;
    extra[d] = total % 2; /* the odd one goes to the far side */
  }
  SHMT_TRY(pad_far(input, n, extra, &padded));
  return convolve(n, name, padded, weight, bias, stride, (shmt_ints){near, n}, dilation, false,
                  (shmt_ints){&zero, 1}, groups, out);
}

CONV(1)
CONV(2)
CONV(3)

/* --- second derivatives --------------------------------------------------------------------- */

/* Of the three results' gradients any may be missing. */
static shmt_status accumulate(shmt_tensor** sum, shmt_tensor* term) {
  SHMT_AUTO(shmt_tensor) before = *sum;

  *sum = NULL;
  if (!before) {
    *sum = shmt__tensor_ref(term);
    return SHMT_OK;
  }
  return shmt_op_add_Tensor(before, term, shmt__scalar_int(1), sum);
}

shmt_status shmt__convolution_backward_grad_output(shmt_tensor* grad_input, shmt_tensor* grad_weight,
                                                   shmt_tensor* grad_bias, shmt_tensor* grad_output,
                                                   shmt_tensor* input, shmt_tensor* weight, shmt_ints stride,
                                                   shmt_ints padding, shmt_ints dilation, bool transposed,
                                                   shmt_ints output_padding, int64_t groups, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) sum = NULL;

  if (grad_input) {
    SHMT_TRY(shmt_op_convolution(grad_input, weight, NULL, stride, padding, dilation, transposed, output_padding,
                                 groups, &sum));
  }
  if (grad_weight) {
    SHMT_AUTO(shmt_tensor) term = NULL;
    SHMT_TRY(shmt_op_convolution(input, grad_weight, NULL, stride, padding, dilation, transposed, output_padding,
                                 groups, &term));
    SHMT_TRY(accumulate(&sum, term));
  }
  if (grad_bias) {
    SHMT_AUTO(shmt_tensor) shaped = NULL;
    SHMT_AUTO(shmt_tensor) term = NULL;
    int64_t sizes[SHMT_MAX_DIMS];
    for (int d = 0; d < grad_output->n_dims; d++) sizes[d] = d == 1 ? grad_bias->numel : 1;
    SHMT_TRY(shmt_op_reshape(grad_bias, (shmt_ints){sizes, grad_output->n_dims}, &shaped));
    SHMT_TRY(shmt_op_expand(shaped, shmt__tensor_sizes(grad_output), false, &term));
    SHMT_TRY(accumulate(&sum, term));
  }
  if (!sum) return shmt_op_zeros_like(grad_output, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE,
                                      (shmt_opt_bool){0}, SHMT_MEMORY_FORMAT_NONE, out);
  *out = SHMT_TAKE(sum);
  return SHMT_OK;
}

/* What the input (mask 0) or the weight (mask 1) gets, from the gradient of the other one's gradient. */
static shmt_status one_gradient(int which, shmt_tensor* grad_output, shmt_tensor* input, shmt_tensor* weight,
                                shmt_ints stride, shmt_ints padding, shmt_ints dilation, bool transposed,
                                shmt_ints output_padding, int64_t groups, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) a = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) c = NULL;
  const int64_t mask[3] = {which == 0, which == 1, 0};

  SHMT_TRY(shmt_op_convolution_backward(grad_output, input, weight, SHMT_INTS_NONE, stride, padding, dilation,
                                        transposed, output_padding, groups, (shmt_ints){mask, 3}, &a, &b, &c));
  *out = which == 0 ? SHMT_TAKE(a) : SHMT_TAKE(b);
  return SHMT_OK;
}

static shmt_status zeros_like(shmt_tensor* t, shmt_tensor** out) {
  return shmt_op_zeros_like(t, SHMT_DTYPE_NONE, SHMT_LAYOUT_NONE, SHMT_DEVICE_NONE, (shmt_opt_bool){0},
                            SHMT_MEMORY_FORMAT_NONE, out);
}

shmt_status shmt__convolution_backward_input(shmt_tensor* grad_weight, shmt_tensor* grad_output, shmt_tensor* input,
                                             shmt_ints stride, shmt_ints padding, shmt_ints dilation, bool transposed,
                                             shmt_ints output_padding, int64_t groups, shmt_tensor** out) {
  if (!grad_weight) return zeros_like(input, out);
  return one_gradient(0, grad_output, input, grad_weight, stride, padding, dilation, transposed, output_padding,
                      groups, out);
}

shmt_status shmt__convolution_backward_weight(shmt_tensor* grad_input, shmt_tensor* grad_output, shmt_tensor* weight,
                                              shmt_ints stride, shmt_ints padding, shmt_ints dilation, bool transposed,
                                              shmt_ints output_padding, int64_t groups, shmt_tensor** out) {
  if (!grad_input) return zeros_like(weight, out);
  return one_gradient(1, grad_output, grad_input, weight, stride, padding, dilation, transposed, output_padding,
                      groups, out);
}
