/* ops/conv/checks.c -- the arguments of a convolution: checks with torch's errors, and the output's sizes. */
#include "ops/conv/checks.h"

#include "base/overflow.h"
#include "ops/check.h"

#include <inttypes.h>
#include <stdio.h>

/* The sum of two such numbers and a size does not overflow. */
#define LARGEST (INT64_C(1) << 48)

static const char* ints_text(shmt_ints v, char* buf, size_t cap) { return shmt__ints_text(v, buf, cap); }
#define INTS_TEXT(v) ints_text(v, (char[128]){0}, 128)

static int64_t at(shmt_ints v, int d) { return v.len == 1 ? v.data[0] : v.data[d]; }

static shmt_status check_list(const char* name, const char* singular, shmt_ints v, int n) {
  SHMT_REQUIRE(v.len == 1 || v.len == n, SHMT_E_RUNTIME,
               "expected %s to be a single integer value or a list of %d values to match the convolution dimensions, "
               "but got %s=%s", name, n, singular, INTS_TEXT(v));
  return SHMT_OK;
}

shmt_status shmt__conv_check_params(const shmt__conv_params* p) {
  SHMT_TRY(check_list("stride", "stride", p->stride, p->n));
  SHMT_TRY(check_list("padding", "padding", p->padding, p->n));
  SHMT_TRY(check_list("dilation", "dilation", p->dilation, p->n));
  if (p->transposed) SHMT_TRY(check_list("output_padding", "output_padding", p->output_padding, p->n));
  for (int d = 0; d < p->n; d++) {
    SHMT_REQUIRE(at(p->padding, d) <= LARGEST && at(p->stride, d) <= LARGEST && at(p->dilation, d) <= LARGEST &&
                     (!p->transposed || at(p->output_padding, d) <= LARGEST),
                 SHMT_E_RUNTIME, "convolution(): stride %s, padding %s or dilation %s is too large",
                 INTS_TEXT(p->stride), INTS_TEXT(p->padding), INTS_TEXT(p->dilation));
    SHMT_REQUIRE(at(p->padding, d) >= 0, SHMT_E_RUNTIME, "negative padding is not supported");
    SHMT_REQUIRE(at(p->stride, d) > 0, SHMT_E_RUNTIME, "non-positive stride is not supported");
    SHMT_REQUIRE(at(p->dilation, d) > 0, SHMT_E_RUNTIME, "dilation should be greater than zero, but got %s",
                 INTS_TEXT(p->dilation));
    SHMT_REQUIRE(!p->transposed || at(p->output_padding, d) >= 0, SHMT_E_RUNTIME,
                 "negative output_padding is not supported");
  }
  SHMT_REQUIRE(p->groups > 0, SHMT_E_RUNTIME, "non-positive groups is not supported");
  return SHMT_OK;
}

shmt_status shmt__conv_check_tensors(const shmt__conv_params* p, shmt_tensor* input, shmt_tensor* weight,
                                     shmt_tensor* bias) {
  const int64_t g = p->groups, *w = weight->sizes;

  SHMT_REQUIRE(!bias || bias->dtype == input->dtype, SHMT_E_RUNTIME,
               "Input type (%s) and bias type (%s) should be the same", shmt__dtype_ctype(input->dtype),
               bias ? shmt__dtype_ctype(bias->dtype) : "");
  SHMT_TRY(shmt__check_scalar_type(weight, input->dtype));
  SHMT_REQUIRE(weight->n_dims >= 3, SHMT_E_RUNTIME, "weight should have at least three dimensions");
  SHMT_REQUIRE(weight->n_dims == p->n + 2, SHMT_E_RUNTIME,
               "Expected %d-dimensional weight for %d-dimensional input %s, but got weight of size %s instead",
               p->n + 2, p->n + 2, SHMT_SHAPE_TEXT(input), SHMT_SHAPE_TEXT(weight));
  SHMT_REQUIRE(w[0] >= g, SHMT_E_RUNTIME, "Given groups=%" PRId64 ", expected weight to be at least %" PRId64
               " at dimension 0, but got weight of size %s instead", g, g, SHMT_SHAPE_TEXT(weight));
  SHMT_REQUIRE(w[0] % g == 0, SHMT_E_RUNTIME, "Given groups=%" PRId64 ", expected weight to be divisible by %" PRId64
               " at dimension 0, but got weight of size [%s] instead", g, g, SHMT_SHAPE_TEXT(weight));
  if (p->transposed) {
    SHMT_REQUIRE(input->sizes[1] == w[0], SHMT_E_RUNTIME, "Given transposed=1, weight of size %s, expected input%s to "
                 "have %" PRId64 " channels, but got %" PRId64 " channels instead", SHMT_SHAPE_TEXT(weight),
                 SHMT_SHAPE_TEXT(input), w[0], input->sizes[1]);
    SHMT_REQUIRE(!bias || (bias->n_dims == 1 && bias->numel == w[1] * g), SHMT_E_RUNTIME,
                 "Given transposed=1, weight of size %s, expected bias to be 1-dimensional with %" PRId64
                 " elements, but got bias of size %s instead", SHMT_SHAPE_TEXT(weight), w[1] * g,
                 bias ? SHMT_SHAPE_TEXT(bias) : "");
    return SHMT_OK;
  }
  SHMT_REQUIRE(input->sizes[1] == w[1] * g, SHMT_E_RUNTIME, "Given groups=%" PRId64 ", weight of size %s, expected "
               "input%s to have %" PRId64 " channels, but got %" PRId64 " channels instead", g, SHMT_SHAPE_TEXT(weight),
               SHMT_SHAPE_TEXT(input), w[1] * g, input->sizes[1]);
  SHMT_REQUIRE(!bias || (bias->n_dims == 1 && bias->numel == w[0]), SHMT_E_RUNTIME,
               "Given weight of size %s, expected bias to be 1-dimensional with %" PRId64
               " elements, but got bias of size %s instead", SHMT_SHAPE_TEXT(weight), w[0],
               bias ? SHMT_SHAPE_TEXT(bias) : "");
  return SHMT_OK;
}

/* "2 x 2" */
static const char* product_text(const int64_t* v, int n, char* buf, size_t cap) {
  size_t used = 0;

  buf[0] = 0;
  for (int d = 0; d < n && used + 32 < cap; d++)
    used += (size_t)snprintf(buf + used, cap - used, d ? " x %" PRId64 : "%" PRId64, v[d]);
  return buf;
}

/* An output_padding that is not below the stride leaves room for outputs that the transposed convolution does not
 * have. */
void shmt__conv_fill(const shmt__conv_params* p, shmt_ints images, shmt_ints outputs, const shmt_tensor* weight,
                     shmt_dtype dtype, shmt__conv* c) {
  *c = (shmt__conv){.dtype = dtype, .n_images = images.data[0], .channels = images.data[1], .groups = p->groups};
  c->filters = weight->sizes[0];
  for (int d = 0; d < 3; d++) {
    const int own = d - (3 - p->n);
    shmt__conv_shape* s = &c->shape;
    s->in[d] = own < 0 ? 1 : images.data[2 + own];
    s->kernel[d] = own < 0 ? 1 : weight->sizes[2 + own];
    s->stride[d] = own < 0 ? 1 : at(p->stride, own);
    s->padding[d] = own < 0 ? 0 : at(p->padding, own);
    s->dilation[d] = own < 0 ? 1 : at(p->dilation, own);
    s->out[d] = own < 0 ? 1 : outputs.data[2 + own];
  }
  shmt__conv_set_dense(c);
}

/* *out = a * b, or an error that names `what`. */
static shmt_status multiply_sizes(const char* what, int64_t a, int64_t b, int64_t* out) {
  SHMT_REQUIRE(shmt__mul_i64(a, b, out), SHMT_E_RUNTIME,
               "convolution(): %s %" PRId64 " with a size of %" PRId64 " is too large", what, a, b);
  return SHMT_OK;
}

shmt_status shmt__conv_output_sizes(const shmt__conv_params* p, const shmt_tensor* input, const shmt_tensor* weight,
                                    int64_t* sizes) {
  int64_t padded[3], reach[3];
  bool fits = true;

  sizes[0] = input->sizes[0];
  sizes[1] = p->transposed ? weight->sizes[1] * p->groups : weight->sizes[0];
  for (int d = 0; d < p->n; d++) {
    const int64_t in = input->sizes[2 + d], pad = at(p->padding, d), step = at(p->stride, d);
    SHMT_REQUIRE(weight->sizes[2 + d] > 0, SHMT_E_RUNTIME,
                 "kernel size should be greater than zero, but got weight of size %s", SHMT_SHAPE_TEXT(weight));
    SHMT_TRY(multiply_sizes("dilation", at(p->dilation, d), weight->sizes[2 + d] - 1, &reach[d]));
    reach[d]++;
    padded[d] = in + 2 * pad;
    if (p->transposed) {
      SHMT_REQUIRE(at(p->output_padding, d) < step || at(p->output_padding, d) < at(p->dilation, d), SHMT_E_RUNTIME,
                   "output padding must be smaller than either stride or dilation, but got output_padding: %s stride: "
                   "%s dilation: %s", INTS_TEXT(p->output_padding), INTS_TEXT(p->stride), INTS_TEXT(p->dilation));
      SHMT_TRY(multiply_sizes("stride", step, in - 1, &sizes[2 + d]));
      SHMT_REQUIRE(shmt__add_i64(sizes[2 + d], reach[d] + at(p->output_padding, d), &sizes[2 + d]), SHMT_E_RUNTIME,
                   "convolution(): stride %" PRId64 " with a size of %" PRId64 " is too large", step, in);
      sizes[2 + d] -= 2 * pad;
      fits = fits && sizes[2 + d] > 0;
    } else {
      fits = fits && padded[d] >= reach[d];
      sizes[2 + d] = (padded[d] - reach[d]) / step + 1;
    }
  }
  const char* row = p->n == 1 ? "1 x " : ""; /* a line is an image of one row */
  SHMT_REQUIRE(!p->transposed || fits, SHMT_E_RUNTIME,
               "Given input size per channel: (%s%s). Calculated output size per "
               "channel: (%s%s). Output size is too small",
               row, product_text(input->sizes + 2, p->n, (char[96]){0}, 96), row,
               product_text(sizes + 2, p->n, (char[96]){0}, 96));
  SHMT_REQUIRE(p->transposed || fits, SHMT_E_RUNTIME, "Calculated padded input size per channel: (%s). Kernel size: "
               "(%s). Kernel size can't be greater than actual input size",
               product_text(padded, p->n, (char[96]){0}, 96), product_text(reach, p->n, (char[96]){0}, 96));
  int64_t numel;
  return shmt__checked_numel((shmt_ints){sizes, input->n_dims}, &numel); /* what follows multiplies them */
}
