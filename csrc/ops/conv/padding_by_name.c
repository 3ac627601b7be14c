/* ops/conv/padding_by_name.c -- convolutions whose padding is "same" or "valid". */
#include "base/scalar.h"
#include "base/warn.h"
#include "generated/impls.h"
#include "generated/ops.h"
#include "ops/check.h"

#include <inttypes.h>
#include <string.h>

static shmt_status check_input(int n, const char* name, const shmt_tensor* input) {
  SHMT_REQUIRE(input->n_dims == n + 1 || input->n_dims == n + 2, SHMT_E_RUNTIME,
               "Expected %dD (unbatched) or %dD (batched) input to %s, but got input of size: %s", n + 1, n + 2, name,
               SHMT_SHAPE_TEXT(input));
  return SHMT_OK;
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

typedef shmt_status (*convolution)(shmt_tensor*, shmt_tensor*, shmt_tensor*, shmt_ints, shmt_ints, shmt_ints, int64_t,
                                   shmt_tensor**);
static const convolution convolve[] = {NULL, shmt_op_conv1d, shmt_op_conv2d, shmt_op_conv3d};

static shmt_status convolve_padded(int n, const char* name, shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                                   shmt_ints stride, const char* padding, shmt_ints dilation, int64_t groups,
                                   shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) padded = NULL;
  int64_t near[3], extra[3];

  if (strcmp(padding, "valid") == 0)
    return convolve[n](input, weight, bias, stride, SHMT_INTS(0), dilation, groups, out);
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
  return convolve[n](padded, weight, bias, stride, (shmt_ints){near, n}, dilation, groups, out);
}

#define CONV_PADDED(N)                                                                                      \
  shmt_status shmt__conv##N##d_padding(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,          \
                                       shmt_ints stride, const char* padding, shmt_ints dilation,           \
                                       int64_t groups, shmt_tensor** out) {                                 \
    return convolve_padded(N, "conv" #N "d", input, weight, bias, stride, padding, dilation, groups, out);  \
  }
CONV_PADDED(1)
CONV_PADDED(2)
CONV_PADDED(3)
