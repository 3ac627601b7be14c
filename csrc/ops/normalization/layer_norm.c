/* ops/normalization/layer_norm.c -- native_layer_norm and RMS norm, and their backward. */
#include "ops/normalization/normalization.h"

#include "generated/impls.h"
#include "storage/allocator.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { GRAIN_ELEMENTS = 16384 };

/* --- layer ------------------------------------------------------------------------------------ */

typedef struct layer_job {
  shmt__norm_rows rows;
  shmt_tensor* grad;
  double *to_weight, *to_bias;
} layer_job;

void shmt__norm_short_rows(const shmt__norm_rows* j, int64_t begin, int64_t end) {
  const int64_t step = j->length * shmt__tensor_item_bytes(j->x);
  const shmt__short_norm_args shape = {.length = j->length, .eps = j->eps, .uncentred = j->uncentred};
  shmt_tensor* const stats[2] = {j->mean, j->rstd};
  double moments[2][SHMT_SHORT_ROWS_PER_BLOCK];

  for (int64_t r = begin, n; r < end; r += n) {
    n = end - r < SHMT_SHORT_ROWS_PER_BLOCK ? end - r : SHMT_SHORT_ROWS_PER_BLOCK;
    char* data[6] = {shmt__norm_data(j->out) + r * step, shmt__norm_data(j->x) + r * step, shmt__norm_data(j->weight),
                     shmt__norm_data(j->bias), (char*)moments[0], (char*)moments[1]};
    shmt__loops[SHMT_LOOP_short_norm][j->x->dtype](data, NULL, n, &shape);
    for (int k = 0; k < 2; k++) {
      if (!stats[k]) continue;
      const int64_t item = shmt__tensor_item_bytes(stats[k]);
      shmt__cast_loop(stats[k]->dtype, SHMT_FLOAT64)(shmt__norm_data(stats[k]) + r * item, item,
                                                     (const char*)moments[k], sizeof(double), n);
    }
  }
}

static void layer_rows(void* ctx, int64_t begin, int64_t end) {
  const shmt__norm_rows* j = &((const layer_job*)ctx)->rows;
  const int64_t step = j->length * shmt__tensor_item_bytes(j->x);

  if (j->length <= SHMT_SHORT_ROW) {
    shmt__norm_short_rows(j, begin, end);
    return;
  }
  for (int64_t r = begin; r < end; r++) {
    shmt__norm_args shape = {0};
    char* x = shmt__norm_data(j->x) + r * step;
    shmt__norm_moments(j->x->dtype, x, j->length, j->eps, j->uncentred, &shape.mean, &shape.scale);
    char* data[4] = {shmt__norm_data(j->out) + r * step, x, shmt__norm_data(j->weight), shmt__norm_data(j->bias)};
    shmt__loops[SHMT_LOOP_row_norm][j->x->dtype](data, NULL, j->length, &shape);
    shmt__norm_store(j->mean, r, shape.mean);
    shmt__norm_store(j->rstd, r, shape.scale);
  }
}

shmt_status shmt__check_norm_dtypes(const shmt_tensor* input, const shmt_tensor* const* parameters, int n) {
  const shmt_tensor* other = NULL; /* a parameter of another dtype */

  for (int i = 0; i < n; i++)
    if (parameters[i] && parameters[i]->dtype != input->dtype) other = parameters[i];
  if (!other || input->numel == 0) return SHMT_OK;
  SHMT_REQUIRE(shmt__is_half(input->dtype) || other->dtype != SHMT_FLOAT32, SHMT_E_RUNTIME,
               "mixed dtype (CPU): all inputs must share same datatype, but the input is %s and a parameter %s",
               shmt__dtype_title(input->dtype), shmt__dtype_title(other->dtype));
  for (int i = 0; i < n; i++)
    SHMT_REQUIRE(!parameters[i] || parameters[i]->dtype == SHMT_FLOAT32, SHMT_E_RUNTIME,
                 "mixed dtype (CPU): expect parameter to have scalar type of Float, but got %s beside an input of %s",
                 shmt__dtype_title(parameters[i]->dtype), shmt__dtype_title(input->dtype));
  return SHMT_OK;
}

shmt_status shmt__check_normalized(const shmt_tensor* input, shmt_ints shape, const shmt_tensor* weight,
                                   const shmt_tensor* bias) {
  char text[256];
  const int64_t n = shape.len, extra = input->n_dims - n;
  bool fits = extra >= 0, weight_fits = !weight || weight->n_dims == n, bias_fits = !bias || bias->n_dims == n;

  SHMT_REQUIRE(n >= 1, SHMT_E_RUNTIME, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
               "least one element, but got normalized_shape = %s", shmt__ints_text(shape, text, sizeof text));
  for (int64_t d = 0; d < n; d++) {
    fits = fits && input->sizes[extra + d] == shape.data[d];
    weight_fits = weight_fits && (!weight || weight->sizes[d] == shape.data[d]);
    bias_fits = bias_fits && (!bias || bias->sizes[d] == shape.data[d]);
  }
  SHMT_REQUIRE(weight_fits, SHMT_E_RUNTIME, "Expected weight to be of same shape as normalized_shape, but got weight "
               "of shape %s and normalized_shape = %s", weight ? SHMT_SHAPE_TEXT(weight) : "",
               shmt__ints_text(shape, text, sizeof text));
  SHMT_REQUIRE(bias_fits, SHMT_E_RUNTIME, "Expected bias to be of same shape as normalized_shape, but got bias of "
               "shape %s and normalized_shape = %s", bias ? SHMT_SHAPE_TEXT(bias) : "",
               shmt__ints_text(shape, text, sizeof text));
  if (!fits) {
    char star[256];
    const char* inner = shmt__ints_text(shape, text, sizeof text);
    (void)snprintf(star, sizeof star, "[*, %.200s", inner + 1);
    SHMT_FAIL(SHMT_E_RUNTIME, "Given normalized_shape=%s, expected input with shape %s, but got input of size%s", inner,
              star, SHMT_SHAPE_TEXT(input));
  }
  return SHMT_OK;
}

shmt_status shmt__check_normalized_op(shmt_tensor* input, shmt_ints normalized_shape, shmt_tensor* weight) {
  return shmt__check_normalized(input, normalized_shape, weight, NULL);
}

/* Normalises rows, which are the last dims. mean == NULL: RMS norm, which subtracts no mean. */
static shmt_status layer_forward(const char* name, shmt_tensor* input, shmt_ints shape, shmt_tensor* weight,
                                 shmt_tensor* bias, double eps, shmt_tensor** out, shmt_tensor** mean,
                                 shmt_tensor** rstd) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  int64_t stat_sizes[SHMT_MAX_DIMS], length = 1, rows = 1;

  SHMT_TRY(shmt__check_normalized(input, shape, weight, bias));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_row_norm, input->dtype, name);
  const int64_t outer = input->n_dims - shape.len;
  for (int d = 0; d < input->n_dims; d++) {
    stat_sizes[d] = d < outer ? input->sizes[d] : 1;
    *(d < outer ? &rows : &length) *= input->sizes[d];
  }
  const shmt_ints stats = {stat_sizes, input->n_dims};
  const shmt_dtype stat_dtype = mean ? (weight ? weight->dtype : input->dtype) : shmt__norm_stat_dtype(input->dtype);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, input->device, SHMT_CONTIGUOUS_FORMAT, &result));
  if (mean) SHMT_TRY(shmt__tensor_empty(stats, stat_dtype, input->device, SHMT_CONTIGUOUS_FORMAT, &means));
  SHMT_TRY(shmt__tensor_empty(stats, stat_dtype, input->device, SHMT_CONTIGUOUS_FORMAT, &scales));
  if (!shmt__tensor_is_meta(input) && rows > 0 && length > 0) {
    SHMT_TRY(shmt__norm_dense(input, input->dtype, &x));
    SHMT_TRY(shmt__norm_dense(weight, input->dtype, &w));
    SHMT_TRY(shmt__norm_dense(bias, input->dtype, &b));
    layer_job j = {.rows = {.x = x, .out = result, .weight = w, .bias = b, .mean = means, .rstd = scales,
                            .length = length, .eps = eps, .uncentred = !mean}};
    shmt__parallel_for(rows, GRAIN_ELEMENTS / length + 1, layer_rows, &j);
  }
  *out = SHMT_TAKE(result);
  if (mean) *mean = SHMT_TAKE(means);
  *rstd = SHMT_TAKE(scales);
  return SHMT_OK;
}

shmt_status shmt__native_layer_norm(shmt_tensor* input, shmt_ints normalized_shape, shmt_tensor* weight,
                                    shmt_tensor* bias, double eps, shmt_tensor** out, shmt_tensor** mean,
                                    shmt_tensor** rstd) {
  const shmt_tensor* const parameters[] = {weight, bias};

  SHMT_TRY(shmt__check_norm_dtypes(input, parameters, 2));
  return layer_forward("LayerNormKernelImpl", input, normalized_shape, weight, bias, eps, out, mean, rstd);
}

shmt_status shmt__fused_rms_norm(shmt_tensor* input, shmt_ints normalized_shape, shmt_tensor* weight,
                                 shmt_opt_float eps, shmt_tensor** out, shmt_tensor** rstd) {
  const double least = input->dtype == SHMT_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;

  return layer_forward("rms_norm", input, normalized_shape, weight, NULL, eps.has ? eps.value : least, out, NULL, rstd);
}

static void layer_backward_rows(void* ctx, int64_t begin, int64_t end) {
  const layer_job* job = ctx;
  const shmt__norm_rows* j = &job->rows;
  const int64_t step = j->length * shmt__tensor_item_bytes(j->x);

  for (int64_t r = begin; r < end; r++) {
    const shmt__norm_args shape = {.mean = shmt__norm_load(j->mean, r, 0), .scale = shmt__norm_load(j->rstd, r, 1),
                                    .uncentred = !j->mean};
    char* data[6] = {j->out ? shmt__norm_data(j->out) + r * step : NULL,
                     shmt__norm_data(j->x) + r * step,
                     shmt__norm_data(job->grad) + r * step,
                     shmt__norm_data(j->weight),
                     (char*)job->to_weight,
                     (char*)job->to_bias};
    shmt__loops[SHMT_LOOP_row_norm_backward][j->x->dtype](data, NULL, j->length, &shape);
  }
}

/* A tensor of n doubles in dtype and sizes. */
static shmt_status from_doubles(const double* values, shmt_ints sizes, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) made = NULL;

  SHMT_TRY(shmt__tensor_empty(sizes, dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &made));
  shmt__cast_loop(dtype, SHMT_FLOAT64)(shmt__tensor_data(made), shmt__dtype_size[dtype], (const char*)values, 8,
                                       made->numel);
  *out = SHMT_TAKE(made);
  return SHMT_OK;
}

static shmt_status layer_backward(shmt_tensor* grad, shmt_tensor* input, shmt_tensor* mean, shmt_tensor* rstd,
                                  shmt_tensor* weight, int64_t rows, int64_t length, bool wants_input, double* sums,
                                  bool wants_weight, bool wants_bias, shmt_tensor** grad_input) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) g = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) m = NULL;
  SHMT_AUTO(shmt_tensor) s = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;

  SHMT_TRY(shmt__norm_dense(input, input->dtype, &x));
  SHMT_TRY(shmt__norm_dense(grad, input->dtype, &g));
  SHMT_TRY(shmt__norm_dense(weight, input->dtype, &w));
  if (mean) SHMT_TRY(shmt__norm_dense(mean, mean->dtype, &m));
  SHMT_TRY(shmt__norm_dense(rstd, rstd->dtype, &s));
  if (wants_input)
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &result));
  layer_job j = {.grad = g, .rows = {.x = x, .weight = w, .mean = m, .rstd = s, .length = length, .out = result}};
  /* The gradients of rows are independent, so threads share them; the sums over rows run on one thread. */
  if (wants_input && rows > 0 && length > 0)
    shmt__parallel_for(rows, GRAIN_ELEMENTS / length + 1, layer_backward_rows, &j);
  j.rows.out = NULL;
  j.to_weight = wants_weight ? sums : NULL;
  j.to_bias = wants_bias ? sums + length : NULL;
  if ((wants_weight || wants_bias) && length > 0) layer_backward_rows(&j, 0, rows);
  *grad_input = SHMT_TAKE(result);
  return SHMT_OK;
}

/* Computes those of the gradients of input, weight and bias that `wants` asks for. */
static shmt_status layer_gradients(shmt_tensor* grad_out, shmt_tensor* input, shmt_ints shape, shmt_tensor* mean,
                                   shmt_tensor* rstd, shmt_tensor* weight, const bool wants[3],
                                   shmt_tensor** const outs[3]) {
  int64_t length = 1, rows = 1;
  void* sums = NULL;
  shmt_status status;

  SHMT_REQUIRE_LOOP(SHMT_LOOP_row_norm_backward, input->dtype, "LayerNormBackwardKernelImpl");
  SHMT_REQUIRE(grad_out->numel == input->numel && shape.len <= input->n_dims, SHMT_E_RUNTIME,
               "layer norm backward: grad_out has shape %s, input %s", SHMT_SHAPE_TEXT(grad_out),
               SHMT_SHAPE_TEXT(input));
  for (int d = 0; d < input->n_dims; d++) *(d < input->n_dims - shape.len ? &rows : &length) *= input->sizes[d];
  for (int64_t d = 0; d < shape.len; d++)
    SHMT_REQUIRE(shape.data[d] == input->sizes[input->n_dims - shape.len + d], SHMT_E_RUNTIME,
                 "layer norm backward: normalized_shape has %" PRId64 " at dimension %" PRId64 ", input has shape %s",
                 shape.data[d], d, SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE(rstd->numel == rows && (!mean || mean->numel == rows) && (!weight || weight->numel == length),
               SHMT_E_RUNTIME, "layer norm backward: expected %" PRId64 " statistics and weights for %" PRId64
               " elements, but got shapes %s and %s", rows, length, SHMT_SHAPE_TEXT(rstd),
               weight ? SHMT_SHAPE_TEXT(weight) : "[]");
  if (shmt__tensor_is_meta(input)) {
    for (int i = 0; i < 3; i++)
      if (wants[i])
        SHMT_TRY(shmt__tensor_empty(i == 0 ? shmt__tensor_sizes(input) : shape, input->dtype, SHMT_META,
                                    SHMT_CONTIGUOUS_FORMAT, outs[i]));
    return SHMT_OK;
  }
  SHMT_AUTO(shmt_tensor) to_input = NULL;
  SHMT_AUTO(shmt_tensor) to_weight = NULL;
  SHMT_AUTO(shmt_tensor) to_bias = NULL;
  shmt_tensor** const made[3] = {&to_input, &to_weight, &to_bias};
  const uint64_t nbytes = (uint64_t)length * 16;
  SHMT_TRY(shmt__alloc(nbytes, &sums));
  memset(sums, 0, nbytes);
  status = layer_backward(grad_out, input, mean, rstd, weight, rows, length, wants[0], sums, wants[1], wants[2],
                          &to_input);
  for (int i = 1; i < 3; i++)
    if (status == SHMT_OK && wants[i])
      status = from_doubles((double*)sums + (i - 1) * length, shape, input->dtype, made[i]);
  shmt__dealloc(sums, nbytes);
  for (int i = 0; i < 3; i++)
    if (status == SHMT_OK && outs[i]) *outs[i] = SHMT_TAKE(*made[i]);
  return status;
}

shmt_status shmt__native_layer_norm_backward(shmt_tensor* grad_out, shmt_tensor* input, shmt_ints normalized_shape,
                                             shmt_tensor* mean, shmt_tensor* rstd, shmt_tensor* weight,
                                             shmt_ints output_mask, shmt_tensor** grad_input,
                                             shmt_tensor** grad_weight, shmt_tensor** grad_bias) {
  SHMT_REQUIRE(output_mask.len == 3, SHMT_E_RUNTIME, "native_layer_norm_backward(): expected 3 values of output_mask");
  const bool wants[3] = {output_mask.data[0] != 0, output_mask.data[1] != 0, output_mask.data[2] != 0};

  return layer_gradients(grad_out, input, normalized_shape, mean, rstd, weight, wants,
                         (shmt_tensor** const[]){grad_input, grad_weight, grad_bias});
}

shmt_status shmt__fused_rms_norm_backward(shmt_tensor* grad_out, shmt_tensor* input, shmt_ints normalized_shape,
                                          shmt_tensor* rstd, shmt_tensor* weight, shmt_ints output_mask,
                                          shmt_tensor** grad_input, shmt_tensor** grad_weight) {
  SHMT_REQUIRE(output_mask.len == 2, SHMT_E_RUNTIME, "_fused_rms_norm_backward(): expected 2 values of output_mask");
  const bool wants[3] = {output_mask.data[0] != 0, output_mask.data[1] != 0, false};

  return layer_gradients(grad_out, input, normalized_shape, NULL, rstd, weight, wants,
                         (shmt_tensor** const[]){grad_input, grad_weight, NULL});
}
