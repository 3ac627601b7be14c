/* ops/conv/conv.c -- the operators convolution and convolution_backward: memory formats, and a call of the chosen
 * algorithm.
 *
 * ops/conv/algorithm.c chooses, ops/conv/checks.c has the checks. A transposed convolution is the input gradient of the
 * convolution with the same weight, so both operators consist of the same three functions: forward(), input_grad() and
 * weight_grad().
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/operator_loops.h"
#include "iter/copy/copy.h"
#include "ops/check.h"
#include "ops/conv/algorithm.h"
#include "ops/conv/backward/input_grad_col2im.h"
#include "ops/conv/backward/input_grad_flipped.h"
#include "ops/conv/backward/input_grad_phases.h"
#include "ops/conv/backward/weight_grad_depthwise.h"
#include "ops/conv/backward/weight_grad_im2col.h"
#include "ops/conv/backward/weight_grad_nhwc.h"
#include "ops/conv/backward/weight_grad_nhwc_amx.h"
#include "ops/conv/checks.h"
#include "ops/conv/nchw/nchw.h"
#include "ops/conv/nhwc/amx.h"
#include "ops/conv/nhwc/grouped.h"
#include "ops/conv/nhwc/nhwc.h"
#include "ops/conv/relayout.h"

#include <inttypes.h>
#include <string.h>

/* The dtype that sums are calculated in: float32 or complex64 where elements have 16 bits. */
static shmt_dtype work_dtype(shmt_dtype dtype) {
  if (dtype == SHMT_COMPLEX32) return SHMT_COMPLEX64;
  return shmt__is_half(dtype) ? SHMT_FLOAT32 : dtype;
}

/* Is there a kernel for the dtype? */
static shmt_status check_dtype(const shmt__conv_params* p, shmt_dtype dtype) {
  static const char* const names[] = {"slow_conv1d_cpu", "slow_conv2d_cpu", "slow_conv3d_cpu"};

  SHMT_REFUSE_DTYPE(dtype == SHMT_BOOL || !shmt__loops[SHMT_LOOP_add][work_dtype(dtype)], dtype, names[p->n - 1]);
  return SHMT_OK;
}

/* t dense and in this dtype. New reference. */
static shmt_status prepare_operand(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  SHMT_TRY(shmt__tensor_cast(t, dtype, &cast));
  return shmt__tensor_contiguous(cast, SHMT_CONTIGUOUS_FORMAT, out);
}

/* Is t dense in channels_last, and not also in the contiguous format? */
static bool is_dense_channels_last(const shmt_tensor* t) {
  const shmt_memory_format format = shmt__tensor_suggest_format(t);
  return format != SHMT_CONTIGUOUS_FORMAT && shmt__tensor_is_contiguous_in(t, format) &&
         !shmt__tensor_is_contiguous(t);
}

/* The weight as the algorithm of a forward convolution reads it. New reference. */
static shmt_status prepare_weight(shmt__conv* c, shmt_tensor* weight, bool may_be_nhwc, shmt_tensor** out) {
  c->weight_is_nhwc = may_be_nhwc && is_dense_channels_last(weight);
  if (!c->weight_is_nhwc && !c->flips_weight) return prepare_operand(weight, c->io_dtype, out);
  *out = shmt__tensor_ref(weight);
  return SHMT_OK;
}

/* --- memory formats of results ------------------------------------------------------ */

/* Do results of t keep a channels-last format? A signal (n, c, length) counts as an image of one row. */
static bool suggests_channels_last(const shmt_tensor* t) {
  if (t->n_dims != 3) return shmt__tensor_suggest_format(t) != SHMT_CONTIGUOUS_FORMAT;
  const int64_t channels = t->sizes[1] > 1 ? t->strides[1] * t->sizes[1] : t->strides[1];
  const int64_t image = t->sizes[2] > 1 ? t->strides[2] * t->sizes[2] : t->strides[2];
  return t->strides[1] != 0 && t->strides[2] >= channels && t->strides[0] >= image && image != t->strides[1];
}

/* Does torch hand volumes to oneDNN, which keeps their format? It asks for threads besides; those are assumed. */
static bool keeps_volume_format(const shmt__conv_params* p, const shmt_tensor* input, const shmt_tensor* weight) {
  const int64_t *in = input->sizes, *kernel = weight->sizes + 2;

  if (shmt__is_half(input->dtype)) return true;
  if (input->dtype != SHMT_FLOAT32 && input->dtype != SHMT_COMPLEX64) return false;
  return p->groups > 1 || (kernel[1] > 3 && kernel[2] > 3) || in[0] > 1 || in[0] * in[1] * in[2] * in[3] > 20480;
}

/* Are the result and the gradients NHWC? As in torch, they are where the input or the weight is. torch makes a signal
 * contiguous before it looks. */
static bool keeps_channels_last(const shmt__conv_params* p, const shmt_tensor* input, const shmt_tensor* weight) {
  if (input->numel == 0 || weight->numel == 0) return false;
  const bool is_input_nhwc = suggests_channels_last(input) && (p->n > 1 || shmt__tensor_is_contiguous(input));
  if (!is_input_nhwc && !suggests_channels_last(weight)) return false;
  return p->n < 3 || keeps_volume_format(p, input, weight);
}

static shmt_status empty(shmt_ints sizes, shmt_dtype dtype, shmt_device device, bool is_nhwc, shmt_tensor** out) {
  if (!is_nhwc || sizes.len != 3)
    return shmt__tensor_empty(sizes, dtype, device, !is_nhwc         ? SHMT_CONTIGUOUS_FORMAT
                                                    : sizes.len == 4 ? SHMT_CHANNELS_LAST
                                                                     : SHMT_CHANNELS_LAST_3D, out);
  const int64_t strides[] = {sizes.data[1] * sizes.data[2], 1, sizes.data[1]};
  return shmt__tensor_empty_strided(sizes, (shmt_ints){strides, 3}, dtype, device, out);
}

/* --- forward ------------------------------------------------------------------------ */

static void add_bias(shmt_tensor* result, shmt_tensor* bias) {
  shmt__conv_add_bias(result->dtype, shmt__tensor_data(result), result->sizes[0], result->sizes[1],
                      shmt__tensor_extent(result, 2, result->n_dims), shmt__tensor_data(bias));
}

/* A convolution of nothing: every element is the bias of its channel, or 0. */
static shmt_status only_bias(shmt_ints sizes, shmt_dtype dtype, shmt_tensor* bias, shmt_tensor** out) {
  SHMT_TRY(empty(sizes, dtype, SHMT_CPU, false, out));
  SHMT_TRY(shmt__tensor_fill(*out, shmt__scalar_int(0)));
  if (!bias || (*out)->numel == 0) return SHMT_OK;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_TRY(prepare_operand(bias, dtype, &b));
  add_bias(*out, b);
  return SHMT_OK;
}

/* The only algorithm that reads the weight with any strides. */
static shmt_status run_nhwc_amx(shmt__conv* c, shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                                shmt_ints sizes, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  const shmt__image_view weights = shmt__image_view_of(weight);

  SHMT_TRY(empty(sizes, c->io_dtype, SHMT_CPU, true, &result));
  if (bias) SHMT_TRY(prepare_operand(bias, c->dtype, &b));
  c->bias = b ? shmt__tensor_data(b) : NULL;
  SHMT_TRY(shmt__conv_nhwc_amx(c, shmt__tensor_data(input), &weights, shmt__tensor_data(result)));
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

static shmt_status run_algorithm(shmt__conv_algorithm algorithm, const shmt__conv* c, shmt_tensor* input,
                                 shmt_tensor* weight, shmt_tensor* result) {
  const shmt__image_view images = shmt__image_view_of(input), weights = shmt__image_view_of(weight);
  const shmt__image_view outputs = shmt__image_view_of(result);
  char* const output = shmt__tensor_data(result);

  switch (algorithm) {
    case SHMT_CONV_RELAYOUT_NHWC: return shmt__conv_relayout_nhwc(c, &images, &weights, &outputs);
    case SHMT_CONV_RELAYOUT_NCHW: return shmt__conv_relayout_nchw(c, images.data, weights.data, &outputs);
    case SHMT_CONV_NHWC_GROUPED: return shmt__conv_nhwc_grouped(c, images.data, weights.data, output);
    case SHMT_CONV_NHWC: return shmt__conv_nhwc(c, images.data, weights.data, output);
    default: return shmt__conv_nchw(c, images.data, weights.data, output);
  }
}

/* From the input to the output, which has these sizes and is not empty. */
static shmt_status forward(const shmt__conv* dense, shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                           shmt_ints sizes, bool is_nhwc, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__conv c = *dense;

  shmt__conv_set_input(&c, input);
  const shmt__conv_algorithm algorithm = shmt__conv_choose_algorithm(&c, is_nhwc);
  if (algorithm == SHMT_CONV_NHWC_AMX) return run_nhwc_amx(&c, input, weight, bias, sizes, out);
  SHMT_TRY(empty(sizes, c.io_dtype, SHMT_CPU, is_nhwc, &result));
  SHMT_TRY(prepare_weight(&c, weight, shmt__conv_takes_nhwc_weight(algorithm), &w));
  if (bias) SHMT_TRY(prepare_operand(bias, c.dtype, &b));
  /* The algorithm adds the bias where it rounds, so that an element is rounded once; else it is added afterwards. */
  if (b && (is_nhwc || algorithm == SHMT_CONV_RELAYOUT_NHWC || shmt__is_half(c.dtype) || c.io_dtype != c.dtype))
    c.bias = shmt__tensor_data(b);
  SHMT_TRY(run_algorithm(algorithm, &c, input, w, result));
  if (b && !c.bias) add_bias(result, b);
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- input gradient, or transposed convolution -------------------------------------- */

/* By a forward convolution, with the weight flipped here or by the algorithm. */
static shmt_status input_grad_flipped(const shmt__conv* c, const shmt__conv* flipped, shmt_tensor* outputs,
                                      shmt_tensor* weight, shmt_tensor* bias, shmt_ints sizes, bool is_nhwc,
                                      shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) w = NULL;

  if (!flipped->flips_weight)
    SHMT_TRY(shmt__conv_flip_weight(c, weight, &w));
  else if (is_dense_channels_last(weight))
    w = shmt__tensor_ref(weight);
  else
    SHMT_TRY(shmt__tensor_contiguous(weight, SHMT_CONTIGUOUS_FORMAT, &w));
  return forward(flipped, outputs, w, bias, sizes, is_nhwc, out);
}

/* From the output's side to the input's, which has these sizes and is not empty. */
static shmt_status input_grad(const shmt__conv* dense, shmt_tensor* outputs, shmt_tensor* weight, shmt_tensor* bias,
                              shmt_ints sizes, bool is_nhwc, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__conv c = *dense, flipped;

  const shmt__conv_input_grad_algorithm algorithm =
      shmt__conv_choose_input_grad_algorithm(&c, outputs, is_nhwc, &flipped);
  if (algorithm == SHMT_CONV_INPUT_GRAD_FLIPPED)
    return input_grad_flipped(&c, &flipped, outputs, weight, bias, sizes, is_nhwc, out);
  c.io_dtype = outputs->dtype;
  SHMT_TRY(empty(sizes, outputs->dtype, SHMT_CPU, is_nhwc, &result));
  if (bias) SHMT_TRY(prepare_operand(bias, c.dtype, &b));
  const void* added = b ? shmt__tensor_data(b) : NULL;
  const shmt__image_view from = shmt__image_view_of(outputs), to = shmt__image_view_of(result);
  if (algorithm == SHMT_CONV_INPUT_GRAD_PHASES) {
    SHMT_TRY(shmt__conv_input_grad_phases(&c, &from, weight, added, &to));
  } else {
    SHMT_TRY(shmt__tensor_contiguous(weight, SHMT_CONTIGUOUS_FORMAT, &w));
    SHMT_TRY(shmt__conv_input_grad_col2im(&c, &from, shmt__tensor_data(w), added, &to));
  }
  *out = SHMT_TAKE(result);
  return SHMT_OK;
}

/* --- weight gradient ---------------------------------------------------------------- */

static shmt_status weight_grad(const shmt__conv* dense, bool transposed, shmt_tensor* grad, shmt_tensor* input,
                               shmt_tensor* weight, bool is_nhwc, shmt_tensor** out) {
  const shmt_ints sizes = shmt__tensor_sizes(weight);
  const shmt__image_view images = shmt__image_view_of(transposed ? grad : input);
  const shmt__image_view outputs = shmt__image_view_of(transposed ? input : grad);
  SHMT_AUTO(shmt_tensor) result = NULL;
  shmt__conv c = *dense;

  if (grad->numel == 0 || input->numel == 0 || weight->numel == 0) return only_bias(sizes, grad->dtype, NULL, out);
  c.io_dtype = grad->dtype;
  const shmt__conv_weight_grad_algorithm algorithm = shmt__conv_choose_weight_grad_algorithm(&c, &images, &outputs);
  const bool writes_nhwc = algorithm == SHMT_CONV_WEIGHT_GRAD_NHWC_AMX || algorithm == SHMT_CONV_WEIGHT_GRAD_NHWC;
  SHMT_TRY(empty(sizes, grad->dtype, SHMT_CPU, is_nhwc && writes_nhwc, &result));
  char* const data = shmt__tensor_data(result);
  switch (algorithm) {
    case SHMT_CONV_WEIGHT_GRAD_NHWC_AMX:
      SHMT_TRY(shmt__conv_weight_grad_nhwc_amx(&c, &images, &outputs, is_nhwc, data));
      break;
    case SHMT_CONV_WEIGHT_GRAD_NHWC: SHMT_TRY(shmt__conv_weight_grad_nhwc(&c, &images, &outputs, is_nhwc, data)); break;
    case SHMT_CONV_WEIGHT_GRAD_DEPTHWISE:
      SHMT_TRY(shmt__conv_weight_grad_depthwise(&c, &images, &outputs, data));
      break;
    default: SHMT_TRY(shmt__conv_weight_grad_im2col(&c, &images, &outputs, data)); break;
  }
  if (!is_nhwc || writes_nhwc) {
    *out = SHMT_TAKE(result);
    return SHMT_OK;
  }
  SHMT_TRY(empty(sizes, grad->dtype, SHMT_CPU, true, out));
  return shmt__tensor_copy(*out, result);
}

/* --- operators ---------------------------------------------------------------------- */

shmt_status shmt__convolution(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias, shmt_ints stride,
                              shmt_ints padding, shmt_ints dilation, bool transposed, shmt_ints output_padding,
                              int64_t groups, shmt_tensor** out) {
  const shmt__conv_params p = {stride, padding, dilation, output_padding, transposed, groups, input->n_dims - 2};
  int64_t sizes[5];
  shmt__conv c;

  SHMT_REQUIRE(p.n >= 1 && p.n <= 3, SHMT_E_RUNTIME, "convolution(): expected 3 to 5 dimensions of the input, got %d",
               input->n_dims);
  SHMT_TRY(shmt__conv_check_params(&p));
  SHMT_TRY(shmt__conv_check_tensors(&p, input, weight, bias));
  SHMT_TRY(shmt__conv_output_sizes(&p, input, weight, sizes));
  SHMT_TRY(check_dtype(&p, input->dtype));
  const shmt_ints result_sizes = {sizes, input->n_dims};
  const shmt_device device = shmt__common_device(input, weight, bias);
  SHMT_REQUIRE(input->numel > 0 || input->sizes[0] == 0 || input->sizes[1] == 0, SHMT_E_RUNTIME,
               "Only zero batch or zero "
               "channel inputs are supported, but got input shape: %s",
               SHMT_SHAPE_TEXT(input));
  const bool is_nhwc = keeps_channels_last(&p, input, weight);
  if (device == SHMT_META) return empty(result_sizes, input->dtype, device, is_nhwc, out);
  if (weight->numel == 0 || input->numel == 0) return only_bias(result_sizes, input->dtype, bias, out);
  const shmt_ints input_sizes = shmt__tensor_sizes(input);
  shmt__conv_fill(&p, transposed ? result_sizes : input_sizes, transposed ? input_sizes : result_sizes, weight,
                  work_dtype(input->dtype), &c);
  return (transposed ? input_grad : forward)(&c, input, weight, bias, result_sizes, is_nhwc, out);
}

/* In a transposed convolution input and output change sides, not the weight. */
static shmt_status grad_of_input(const shmt__conv* c, bool transposed, shmt_tensor* grad, shmt_tensor* weight,
                                 shmt_tensor* input, bool is_nhwc, shmt_tensor** out) {
  const shmt_ints sizes = shmt__tensor_sizes(input);

  if (grad->numel == 0 || weight->numel == 0 || input->numel == 0) return only_bias(sizes, grad->dtype, NULL, out);
  return (transposed ? forward : input_grad)(c, grad, weight, NULL, sizes, is_nhwc, out);
}

static shmt_status grad_of_bias(shmt_tensor* grad, shmt_tensor** out) {
  const int64_t dims[] = {0, 2, 3, 4};

  return shmt__sum_dims(grad, (shmt_ints){dims, grad->n_dims - 1}, false, grad->dtype, out);
}

/* Does the gradient of the output have the output's size and dtype? */
static shmt_status check_grad_output(const shmt__conv_params* p, shmt_tensor* grad_output, shmt_tensor* input,
                                     shmt_tensor* weight) {
  int64_t wanted[5];

  SHMT_TRY(shmt__conv_output_sizes(p, input, weight, wanted));
  SHMT_REQUIRE(grad_output->n_dims == input->n_dims &&
                   memcmp(grad_output->sizes, wanted, (size_t)input->n_dims * sizeof *wanted) == 0, SHMT_E_RUNTIME,
               "convolution_backward(): expected grad_output of size %s, but got %s",
               shmt__ints_text((shmt_ints){wanted, input->n_dims}, (char[128]){0}, 128), SHMT_SHAPE_TEXT(grad_output));
  SHMT_TRY(shmt__check_scalar_type(grad_output, input->dtype));
  return SHMT_OK;
}

shmt_status shmt__convolution_backward(shmt_tensor* grad_output, shmt_tensor* input, shmt_tensor* weight,
                                       shmt_ints bias_sizes, shmt_ints stride, shmt_ints padding, shmt_ints dilation,
                                       bool transposed, shmt_ints output_padding, int64_t groups, shmt_ints output_mask,
                                       shmt_tensor** grad_input, shmt_tensor** grad_weight, shmt_tensor** grad_bias) {
  const shmt__conv_params p = {stride, padding, dilation, output_padding, transposed, groups, input->n_dims - 2};
  SHMT_AUTO(shmt_tensor) for_input = NULL;
  SHMT_AUTO(shmt_tensor) for_weight = NULL;
  SHMT_AUTO(shmt_tensor) for_bias = NULL;
  shmt__conv c;
  const shmt_dtype dtype = input->dtype;
  const shmt_device device = shmt__common_device(input, weight, grad_output);

  (void)bias_sizes;
  SHMT_REQUIRE(output_mask.len == 3, SHMT_E_RUNTIME, "convolution_backward(): expected 3 values of output_mask, got %"
               PRId64, output_mask.len);
  SHMT_REQUIRE(p.n >= 1 && p.n <= 3, SHMT_E_RUNTIME, "convolution_backward(): expected 3 to 5 dimensions, got %d",
               input->n_dims);
  SHMT_TRY(shmt__conv_check_params(&p));
  SHMT_TRY(shmt__conv_check_tensors(&p, input, weight, NULL));
  SHMT_TRY(check_dtype(&p, dtype));
  SHMT_TRY(check_grad_output(&p, grad_output, input, weight));
  const int64_t channels = grad_output->sizes[1];
  const shmt_ints sizes[3] = {shmt__tensor_sizes(input), shmt__tensor_sizes(weight), {&channels, 1}};
  shmt_tensor** made[3] = {&for_input, &for_weight, &for_bias};
  shmt__conv_fill(&p, shmt__tensor_sizes(transposed ? grad_output : input),
                  shmt__tensor_sizes(transposed ? input : grad_output), weight, work_dtype(dtype), &c);
  const bool is_nhwc = keeps_channels_last(&p, input, weight) && shmt__dtype_kind[dtype] != SHMT_KIND_COMPLEX;
  /* A weight with one element in its kernel is dense in both formats; it stays contiguous as torch's does. */
  const bool is_weight_nhwc = is_nhwc && (shmt__is_half(dtype) || shmt__tensor_extent(weight, 2, weight->n_dims) > 1);
  for (int i = 0; i < 3 && device == SHMT_META; i++)
    if (output_mask.data[i])
      SHMT_TRY(empty(sizes[i], dtype, device, grad_output->numel > 0 && (i == 0 ? is_nhwc : i == 1 && is_weight_nhwc),
                     made[i]));
  if (device != SHMT_META) {
    if (output_mask.data[0])
      SHMT_TRY(grad_of_input(&c, transposed, grad_output, weight, input, is_nhwc, &for_input));
    if (output_mask.data[1])
      SHMT_TRY(weight_grad(&c, transposed, grad_output, input, weight, is_weight_nhwc, &for_weight));
    if (output_mask.data[2]) SHMT_TRY(grad_of_bias(grad_output, &for_bias));
  }
  *grad_input = SHMT_TAKE(for_input);
  *grad_weight = SHMT_TAKE(for_weight);
  *grad_bias = SHMT_TAKE(for_bias);
  return SHMT_OK;
}
