/* ops/conv/conv.c -- convolution, forward and backward: shapes, checks, layouts. */
#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/conv/backward/backward.h"
#include "ops/conv/im2col.h"
#include "ops/conv/depthwise.h"
#include "ops/conv/direct.h"
#include "ops/conv/nhwc/grouped.h"
#include "ops/conv/relayout.h"
#include "ops/conv/backward/input_grad_phases.h"
#include "ops/conv/nhwc/amx.h"
#include "ops/conv/backward/input_grad.h"
#include "ops/conv/backward/weight_grad_nhwc.h"
#include "ops/conv/backward/weight_grad_nhwc_amx.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What every convolution operator is given besides tensors. */
typedef struct params {
  shmt_ints stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
  int n; /* spatial dims */
} params;

/* Sums of two such numbers and a size do not overflow. */
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

static shmt_status check_params(const params* p) {
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

static shmt_status check_tensors(const params* p, shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias) {
  const int64_t g = p->groups, *w = weight->sizes;

  SHMT_REQUIRE(!bias || bias->dtype == input->dtype, SHMT_E_RUNTIME,
               "Input type (%s) and bias type (%s) should be the same", shmt__dtype_ctype(input->dtype),
               bias ? shmt__dtype_ctype(bias->dtype) : "");
  SHMT_REQUIRE(weight->dtype == input->dtype, SHMT_E_RUNTIME, "expected scalar type %s but found %s",
               shmt__dtype_title(input->dtype), shmt__dtype_title(weight->dtype));
  SHMT_REQUIRE(weight->n_dims >= 3, SHMT_E_RUNTIME, "weight should have at least three dimensions");
  SHMT_REQUIRE(weight->n_dims == p->n + 2, SHMT_E_RUNTIME,
               "Expected %d-dimensional weight for %d-dimensional input %s, but got weight of size %s instead", p->n + 2,
               p->n + 2, SHMT_SHAPE_TEXT(input), SHMT_SHAPE_TEXT(weight));
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

/* Fill c from the sizes of the side of images, the side of windows and the weight; spatial dims are the last of three.
 * An output_padding that is not below the stride leaves room for windows that the transpose does not have. */
static void fill_conv(const params* p, shmt_ints images, shmt_ints outputs, const shmt_tensor* weight, shmt_dtype dtype,
                      shmt__conv* c) {
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

/* A product that fits, or an error that names what it is of. */
static shmt_status multiply(const char* what, int64_t a, int64_t b, int64_t* out) {
  SHMT_REQUIRE(shmt__mul_i64(a, b, out), SHMT_E_RUNTIME,
               "convolution(): %s %" PRId64 " with a size of %" PRId64 " is too large", what, a, b);
  return SHMT_OK;
}

static shmt_status output_sizes(const params* p, const shmt_tensor* input, const shmt_tensor* weight, int64_t* sizes) {
  int64_t padded[3], reach[3];
  bool fits = true;

  sizes[0] = input->sizes[0];
  sizes[1] = p->transposed ? weight->sizes[1] * p->groups : weight->sizes[0];
  for (int d = 0; d < p->n; d++) {
    const int64_t in = input->sizes[2 + d], pad = at(p->padding, d), step = at(p->stride, d);
    SHMT_REQUIRE(weight->sizes[2 + d] > 0, SHMT_E_RUNTIME,
                 "kernel size should be greater than zero, but got weight of size %s", SHMT_SHAPE_TEXT(weight));
    SHMT_TRY(multiply("dilation", at(p->dilation, d), weight->sizes[2 + d] - 1, &reach[d]));
    reach[d]++;
    padded[d] = in + 2 * pad;
    if (p->transposed) {
      SHMT_REQUIRE(at(p->output_padding, d) < step || at(p->output_padding, d) < at(p->dilation, d), SHMT_E_RUNTIME,
                   "output padding must be smaller than either stride or dilation, but got output_padding: %s stride: "
                   "%s dilation: %s", INTS_TEXT(p->output_padding), INTS_TEXT(p->stride), INTS_TEXT(p->dilation));
      SHMT_TRY(multiply("stride", step, in - 1, &sizes[2 + d]));
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
  SHMT_REQUIRE(!p->transposed || fits, SHMT_E_RUNTIME, "Given input size per channel: (%s%s). Calculated output size per "
               "channel: (%s%s). Output size is too small", row, product_text(input->sizes + 2, p->n, (char[96]){0}, 96),
               row, product_text(sizes + 2, p->n, (char[96]){0}, 96));
  SHMT_REQUIRE(p->transposed || fits, SHMT_E_RUNTIME, "Calculated padded input size per channel: (%s). Kernel size: "
               "(%s). Kernel size can't be greater than actual input size",
               product_text(padded, p->n, (char[96]){0}, 96), product_text(reach, p->n, (char[96]){0}, 96));
  int64_t numel;
  return shmt__checked_numel((shmt_ints){sizes, input->n_dims}, &numel); /* what follows multiplies them */
}

/* The dtype that products are made in: what is stored in halves is calculated in float32 or complex64. */
static shmt_dtype work_dtype(shmt_dtype dtype) {
  if (dtype == SHMT_COMPLEX32) return SHMT_COMPLEX64;
  return shmt__is_half(dtype) ? SHMT_FLOAT32 : dtype;
}

/* Plain products of halves are summed in float32 by the product itself, which widens no columns; c: in the dtype that
 * others work in. Without columns it is faster yet, but for tiles. */
static shmt_dtype forward_dtype(shmt_dtype dtype, const shmt__conv* c) {
  if (!shmt__is_half(dtype) || c->groups != 1) return c->dtype;
  return (dtype == SHMT_BFLOAT16 && shmt__conv_prefers_im2col_amx(c)) ||
                 !(shmt__conv_prefers_direct(c) || shmt__conv_prefers_relayout_nhwc(c))
             ? dtype
             : c->dtype;
}

/* c reads the input as it lies. */
static void set_images(shmt__conv* c, const shmt_tensor* input) {
  const int64_t item = shmt__tensor_item_bytes(input);

  c->io_dtype = input->dtype;
  c->image_step = shmt__wrap_mul_i64(input->strides[0], item);
  c->channel_step = shmt__wrap_mul_i64(input->strides[1], item);
  for (int d = 0; d < input->n_dims - 2; d++)
    c->step[d + 5 - input->n_dims] = shmt__wrap_mul_i64(input->strides[2 + d], item);
}

/* t dense in the dtype that products are made in. */
static shmt_status prepare(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  SHMT_TRY(shmt__tensor_cast(t, dtype, &cast));
  return shmt__tensor_contiguous(cast, SHMT_CONTIGUOUS_FORMAT, out);
}

/* Dense, with the channels as neighbours and not also as planes? */
static bool has_channels_last(const shmt_tensor* t) {
  const shmt_memory_format format = shmt__tensor_suggest_format(t);
  return format != SHMT_CONTIGUOUS_FORMAT && shmt__tensor_is_contiguous_in(t, format) &&
         !shmt__tensor_is_contiguous(t);
}

/* The weight as forward kernels read it, which may take the channels of a filter as neighbours. */
static shmt_status prepare_weight(shmt__conv* c, shmt_tensor* weight, bool may_be_nhwc, shmt_tensor** out) {
  c->weight_is_nhwc = may_be_nhwc && has_channels_last(weight);
  if (!c->weight_is_nhwc && !c->flips_weight) return prepare(weight, c->io_dtype, out);
  *out = shmt__tensor_ref(weight);
  return SHMT_OK;
}

/* --- layouts of results ------------------------------------------------------------- */

/* Is the format that results keep one with channels as neighbours? Lines are images of one row. */
static bool channels_are_last(const shmt_tensor* t) {
  if (t->n_dims != 3) return shmt__tensor_suggest_format(t) != SHMT_CONTIGUOUS_FORMAT;
  const int64_t line = t->sizes[1] > 1 ? t->strides[1] * t->sizes[1] : t->strides[1];
  const int64_t image = t->sizes[2] > 1 ? t->strides[2] * t->sizes[2] : t->strides[2];
  return t->strides[1] != 0 && t->strides[2] >= line && t->strides[0] >= image && image != t->strides[1];
}

/* Does torch give volumes to oneDNN, which keeps their layout? The threads that it asks for besides are taken for granted. */
static bool keeps_volumes(const params* p, const shmt_tensor* input, const shmt_tensor* weight) {
  const int64_t *in = input->sizes, *kernel = weight->sizes + 2;

  if (shmt__is_half(input->dtype)) return true;
  if (input->dtype != SHMT_FLOAT32 && input->dtype != SHMT_COMPLEX64) return false;
  return p->groups > 1 || (kernel[1] > 3 && kernel[2] > 3) || in[0] > 1 || in[0] * in[1] * in[2] * in[3] > 20480;
}

/* Have the result and the gradients their channels as neighbours? As in torch: where the images or the weight have. Lines
 * are laid out anew before. */
static bool keeps_channels_last(const params* p, const shmt_tensor* input, const shmt_tensor* weight) {
  if (input->numel == 0 || weight->numel == 0) return false;
  const bool is_input_nhwc = channels_are_last(input) && (p->n > 1 || shmt__tensor_is_contiguous(input));
  if (!is_input_nhwc && !channels_are_last(weight)) return false;
  return p->n < 3 || keeps_volumes(p, input, weight);
}

static shmt_status empty(shmt_ints sizes, shmt_dtype dtype, shmt_device device, bool is_nhwc, shmt_tensor** out) {
  if (!is_nhwc || sizes.len != 3)
    return shmt__tensor_empty(sizes, dtype, device, !is_nhwc         ? SHMT_CONTIGUOUS_FORMAT
                                                    : sizes.len == 4 ? SHMT_CHANNELS_LAST
                                                                     : SHMT_CHANNELS_LAST_3D, out);
  const int64_t strides[] = {sizes.data[1] * sizes.data[2], 1, sizes.data[1]};
  return shmt__tensor_empty_strided(sizes, (shmt_ints){strides, 3}, dtype, device, out);
}

static void add_bias(shmt_tensor* result, shmt_tensor* bias) {
  shmt__conv_add_bias(result->dtype, shmt__tensor_data(result), result->sizes[0], result->sizes[1],
                      shmt__tensor_extent(result, 2, result->n_dims), shmt__tensor_data(bias));
}

/* Is there a kernel for the dtype? */
static shmt_status check_dtype(const params* p, shmt_dtype dtype) {
  SHMT_REQUIRE(dtype != SHMT_BOOL && shmt__loops[SHMT_LOOP_add][work_dtype(dtype)], SHMT_E_NOT_IMPLEMENTED,
               "\"slow_conv%dd_cpu\" not implemented for '%s'", p->n, shmt__dtype_title(dtype));
  return SHMT_OK;
}

static bool are_tiles(const shmt__conv* c) {
  return !shmt__conv_is_depthwise(c) && !shmt__conv_has_nhwc_grouped(c) && shmt__conv_is_nhwc_amx(c);
}

/* Images whose channels are neighbours, by tiles. */
static shmt_status run_nhwc_amx(shmt__conv* c, shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias, shmt_ints sizes,
                                shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  const shmt__image_view weights = shmt__image_view_of(weight);

  SHMT_TRY(empty(sizes, c->io_dtype, SHMT_CPU, true, &result));
  if (bias) SHMT_TRY(prepare(bias, c->dtype, &b));
  c->bias = b ? shmt__tensor_data(b) : NULL;
  SHMT_TRY(shmt__conv_nhwc_amx(c, shmt__tensor_data(input), &weights, shmt__tensor_data(result)));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* From images to windows; `sizes` of the result, which is not empty. */
static shmt_status forward(const shmt__conv* given, shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                           shmt_ints sizes, bool is_nhwc, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__conv c = *given;

  set_images(&c, input);
  if (is_nhwc && are_tiles(&c)) return run_nhwc_amx(&c, input, weight, bias, sizes, out);
  const bool is_tiled = shmt__conv_prefers_relayout_nhwc_amx(&c);
  if (!is_tiled) c.dtype = forward_dtype(input->dtype, &c);
  const bool are_groups = is_nhwc && shmt__conv_is_nhwc_grouped(&c);
  const bool are_pixels = !are_groups && is_nhwc && shmt__conv_is_nhwc(&c);
  const bool relayouts = is_tiled || (!are_groups && !are_pixels && shmt__conv_prefers_relayout_nhwc(&c));
  const bool is_spread = is_nhwc && !are_groups && !are_pixels && !relayouts;
  const bool is_direct = !is_nhwc && !relayouts && !shmt__conv_is_depthwise(&c) && shmt__conv_prefers_direct(&c);
  SHMT_TRY(empty(sizes, c.io_dtype, SHMT_CPU, is_nhwc, &result));
  SHMT_TRY(prepare_weight(&c, weight, are_groups || are_pixels || relayouts || is_direct, &w));
  if (bias) SHMT_TRY(prepare(bias, c.dtype, &b));
  /* Rounded once; what is not rounded gets it afterwards. */
  if (b && (is_nhwc || relayouts || shmt__is_half(c.dtype) || c.io_dtype != c.dtype)) c.bias = shmt__tensor_data(b);
  if (relayouts || is_spread) {
    const shmt__image_view images = shmt__image_view_of(input), weights = shmt__image_view_of(w),
                           outputs = shmt__image_view_of(result);
    SHMT_TRY(relayouts ? shmt__conv_relayout_nhwc(&c, &images, &weights, &outputs)
                     : shmt__conv_relayout_nchw(&c, images.data, shmt__tensor_data(w), &outputs));
  } else {
    SHMT_TRY((are_groups   ? shmt__conv_nhwc_grouped
              : are_pixels ? shmt__conv_nhwc
                           : shmt__conv_nchw)(&c, shmt__tensor_data(input), shmt__tensor_data(w),
                                              shmt__tensor_data(result)));
  }
  if (b && !c.bias) add_bias(result, b);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Is the way back that is turned around a fast one, where its images are these? Tiles turn the weight around themselves. */
static bool prefers_flipped(shmt__conv* back, const shmt_tensor* outputs, bool is_nhwc) {
  shmt__conv given = *back;

  set_images(&given, outputs);
  back->flips_weight = (is_nhwc && are_tiles(&given)) || shmt__conv_prefers_relayout_nhwc_amx(&given);
  return back->flips_weight || shmt__conv_prefers_direct(back) || shmt__conv_is_depthwise(back);
}

/* From windows to images: as above. */
static shmt_status input_grad(const shmt__conv* given, shmt_tensor* outputs, shmt_tensor* weight, shmt_tensor* bias,
                              shmt_ints sizes, bool is_nhwc, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__conv c = *given, back;

  if (shmt__conv_input_grad_as_conv(&c, &back) && prefers_flipped(&back, outputs, is_nhwc)) {
    if (!back.flips_weight)
      SHMT_TRY(shmt__conv_flip_weight(&c, weight, &w));
    else if (has_channels_last(weight))
      w = shmt__tensor_ref(weight);
    else
      SHMT_TRY(shmt__tensor_contiguous(weight, SHMT_CONTIGUOUS_FORMAT, &w));
    return forward(&back, outputs, w, bias, sizes, is_nhwc, out);
  }
  c.io_dtype = outputs->dtype;
  SHMT_TRY(empty(sizes, outputs->dtype, SHMT_CPU, is_nhwc, &result));
  if (bias) SHMT_TRY(prepare(bias, c.dtype, &b));
  const void* added = b ? shmt__tensor_data(b) : NULL;
  const shmt__image_view from = shmt__image_view_of(outputs), to = shmt__image_view_of(result);
  if (shmt__conv_has_input_grad_phases(&c, &from)) {
    SHMT_TRY(shmt__conv_input_grad_phases(&c, &from, weight, added, &to));
  } else {
    SHMT_TRY(shmt__tensor_contiguous(weight, SHMT_CONTIGUOUS_FORMAT, &w));
    SHMT_TRY(shmt__conv_input_grad_col2im(&c, &from, shmt__tensor_data(w), added, &to));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Sums over nothing: each the bias of its channel, or 0. */
static shmt_status only_bias(shmt_ints sizes, shmt_dtype dtype, shmt_tensor* bias, shmt_tensor** out) {
  SHMT_TRY(empty(sizes, dtype, SHMT_CPU, false, out));
  SHMT_TRY(shmt__tensor_fill(*out, shmt__scalar_int(0)));
  if (!bias || (*out)->numel == 0) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_TRY(prepare(bias, dtype, &b));
  add_bias(*out, b);
  return SHMT_OK;
}

shmt_status shmt__convolution(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias, shmt_ints stride,
                              shmt_ints padding, shmt_ints dilation, bool transposed, shmt_ints output_padding,
                              int64_t groups, shmt_tensor** out) {
  const params p = {stride, padding, dilation, output_padding, transposed, groups, input->n_dims - 2};
  int64_t sizes[5];
  shmt__conv c;

  SHMT_REQUIRE(p.n >= 1 && p.n <= 3, SHMT_E_RUNTIME, "convolution(): expected 3 to 5 dimensions of the input, got %d",
               input->n_dims);
  SHMT_TRY(check_params(&p));
  SHMT_TRY(check_tensors(&p, input, weight, bias));
  SHMT_TRY(output_sizes(&p, input, weight, sizes));
  SHMT_TRY(check_dtype(&p, input->dtype));
  const shmt_ints result_sizes = {sizes, input->n_dims};
  const shmt_device device = shmt__common_device(input, weight, bias);
  SHMT_REQUIRE(input->numel > 0 || input->sizes[0] == 0 || input->sizes[1] == 0, SHMT_E_RUNTIME, "Only zero batch or zero "
               "channel inputs are supported, but got input shape: %s", SHMT_SHAPE_TEXT(input));
  const bool is_nhwc = keeps_channels_last(&p, input, weight);
  if (device == SHMT_META) return empty(result_sizes, input->dtype, device, is_nhwc, out);
  if (weight->numel == 0 || input->numel == 0) return only_bias(result_sizes, input->dtype, bias, out);
  const shmt_ints input_sizes = shmt__tensor_sizes(input);
  fill_conv(&p, transposed ? result_sizes : input_sizes, transposed ? input_sizes : result_sizes, weight,
            work_dtype(input->dtype), &c);
  return (transposed ? input_grad : forward)(&c, input, weight, bias, result_sizes, is_nhwc, out);
}

/* --- gradients ---------------------------------------------------------------------- */

/* In a transposed convolution input and output change sides, not the weight. */
static shmt_status grad_of_input(const shmt__conv* c, bool transposed, shmt_tensor* grad, shmt_tensor* weight,
                                 shmt_tensor* input, bool is_nhwc, shmt_tensor** out) {
  const shmt_ints sizes = shmt__tensor_sizes(input);

  if (grad->numel == 0 || weight->numel == 0 || input->numel == 0) return only_bias(sizes, grad->dtype, NULL, out);
  return (transposed ? forward : input_grad)(c, grad, weight, NULL, sizes, is_nhwc, out);
}

static shmt_status grad_of_weight(const shmt__conv* given, bool transposed, shmt_tensor* grad, shmt_tensor* input,
                                  shmt_tensor* weight, bool is_nhwc, shmt_tensor** out) {
  const shmt_ints sizes = shmt__tensor_sizes(weight);
  const shmt__image_view images = shmt__image_view_of(transposed ? grad : input);
  const shmt__image_view outputs = shmt__image_view_of(transposed ? input : grad);
  SHMT_AUTO(shmt_tensor) dense = NULL;
  shmt__conv c = *given;

  if (grad->numel == 0 || input->numel == 0 || weight->numel == 0) return only_bias(sizes, grad->dtype, NULL, out);
  c.io_dtype = grad->dtype;
  const bool is_amx = shmt__conv_has_weight_grad_nhwc_amx(&c, &images, &outputs);
  if (is_amx || shmt__conv_prefers_weight_grad_nhwc(&c, &images)) {
    SHMT_TRY(empty(sizes, grad->dtype, SHMT_CPU, is_nhwc, &dense));
    SHMT_TRY((is_amx ? shmt__conv_weight_grad_nhwc_amx : shmt__conv_weight_grad_nhwc)(&c, &images, &outputs, is_nhwc,
                                                                                      shmt__tensor_data(dense)));
    *out = SHMT_TAKE(dense);
    return SHMT_OK;
  }
  SHMT_TRY(empty(sizes, grad->dtype, SHMT_CPU, false, &dense));
  SHMT_TRY(shmt__conv_weight_grad_im2col(&c, &images, &outputs, shmt__tensor_data(dense)));
  if (!is_nhwc) {
    *out = SHMT_TAKE(dense);
    return SHMT_OK;
  }
  SHMT_TRY(empty(sizes, grad->dtype, SHMT_CPU, true, out));
  return shmt__tensor_copy(*out, dense);
}

static shmt_status grad_of_bias(shmt_tensor* grad, shmt_tensor** out) {
  const int64_t dims[] = {0, 2, 3, 4};

  return shmt__sum_dims(grad, (shmt_ints){dims, grad->n_dims - 1}, false, grad->dtype, out);
}

shmt_status shmt__convolution_backward(shmt_tensor* grad_output, shmt_tensor* input, shmt_tensor* weight,
                                       shmt_ints bias_sizes, shmt_ints stride, shmt_ints padding, shmt_ints dilation,
                                       bool transposed, shmt_ints output_padding, int64_t groups, shmt_ints output_mask,
                                       shmt_tensor** grad_input, shmt_tensor** grad_weight, shmt_tensor** grad_bias) {
  const params p = {stride, padding, dilation, output_padding, transposed, groups, input->n_dims - 2};
  SHMT_AUTO(shmt_tensor) for_input = NULL;
  SHMT_AUTO(shmt_tensor) for_weight = NULL;
  SHMT_AUTO(shmt_tensor) for_bias = NULL;
  shmt__conv c;
  int64_t wanted[5];
  const shmt_dtype dtype = input->dtype;
  const shmt_device device = shmt__common_device(input, weight, grad_output);

  (void)bias_sizes;
  SHMT_REQUIRE(output_mask.len == 3, SHMT_E_RUNTIME, "convolution_backward(): expected 3 values of output_mask, got %"
               PRId64, output_mask.len);
  SHMT_REQUIRE(p.n >= 1 && p.n <= 3, SHMT_E_RUNTIME, "convolution_backward(): expected 3 to 5 dimensions, got %d",
               input->n_dims);
  SHMT_TRY(check_params(&p));
  SHMT_TRY(check_tensors(&p, input, weight, NULL));
  SHMT_TRY(check_dtype(&p, dtype));
  SHMT_TRY(output_sizes(&p, input, weight, wanted));
  SHMT_REQUIRE(grad_output->n_dims == input->n_dims &&
                   memcmp(grad_output->sizes, wanted, (size_t)input->n_dims * sizeof *wanted) == 0, SHMT_E_RUNTIME,
               "convolution_backward(): expected grad_output of size %s, but got %s",
               INTS_TEXT(((shmt_ints){wanted, input->n_dims})), SHMT_SHAPE_TEXT(grad_output));
  SHMT_REQUIRE(grad_output->dtype == dtype, SHMT_E_RUNTIME, "expected scalar type %s but found %s",
               shmt__dtype_title(dtype), shmt__dtype_title(grad_output->dtype));
  const int64_t channels = grad_output->sizes[1];
  const shmt_ints sizes[3] = {shmt__tensor_sizes(input), shmt__tensor_sizes(weight), {&channels, 1}};
  shmt_tensor** made[3] = {&for_input, &for_weight, &for_bias};
  fill_conv(&p, shmt__tensor_sizes(transposed ? grad_output : input),
            shmt__tensor_sizes(transposed ? input : grad_output), weight, work_dtype(dtype), &c);
  const bool is_nhwc = keeps_channels_last(&p, input, weight) && shmt__dtype_kind[dtype] != SHMT_KIND_COMPLEX;
  /* One element of a kernel lies either way. */
  const bool is_weight_nhwc = is_nhwc && (shmt__is_half(dtype) || shmt__tensor_extent(weight, 2, weight->n_dims) > 1);
  for (int i = 0; i < 3 && device == SHMT_META; i++)
    if (output_mask.data[i])
      SHMT_TRY(
          empty(sizes[i], dtype, device, grad_output->numel > 0 && (i == 0 ? is_nhwc : i == 1 && is_weight_nhwc), made[i]));
  if (device != SHMT_META) {
    if (output_mask.data[0])
      SHMT_TRY(grad_of_input(&c, transposed, grad_output, weight, input, is_nhwc, &for_input));
    if (output_mask.data[1])
      SHMT_TRY(grad_of_weight(&c, transposed, grad_output, input, weight, is_weight_nhwc, &for_weight));
    if (output_mask.data[2]) SHMT_TRY(grad_of_bias(grad_output, &for_bias));
  }
  *grad_input = SHMT_TAKE(for_input);
  *grad_weight = SHMT_TAKE(for_weight);
  *grad_bias = SHMT_TAKE(for_bias);
  return SHMT_OK;
}
