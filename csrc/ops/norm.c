/* ops/norm.c -- layer, batch and group normalisation, forward and backward.
 *
 * Statistics are kept in double and stored in the input's dtype (float32 for 16-bit floats).
 */
#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "kernels/shapes.h"
#include "ops/check.h"
#include "storage/allocator.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GRAIN = 16384 };

static shmt_status dense_of(shmt_tensor* t, shmt_dtype dtype, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  if (!t) return SHMT_OK;
  SHMT_TRY(shmt__tensor_cast(t, dtype, &cast));
  return shmt__tensor_contiguous(cast, SHMT_CONTIGUOUS_FORMAT, out);
}

static char* data_of(shmt_tensor* t) { return t ? shmt__tensor_data(t) : NULL; }

static shmt_dtype stat_dtype(shmt_dtype dtype) { return shmt__is_half(dtype) ? SHMT_FLOAT32 : dtype; }

/* Mean and inverse deviation of a dense run. */
static void moments(shmt_dtype dtype, char* x, int64_t n, double eps, double* mean, double* scale) {
  shmt__norm_shape shape = {0};
  double sum = 0, square = 0;
  char* data[3] = {(char*)&sum, x, NULL};

  shmt__loops[SHMT_LOOP_run_sum][dtype](data, NULL, n, &shape);
  *mean = sum / (double)n;
  shape.mean = *mean;
  data[0] = (char*)&square;
  shmt__loops[SHMT_LOOP_run_square][dtype](data, NULL, n, &shape);
  *scale = 1 / sqrt(square / (double)n + eps);
}

static void store(shmt_tensor* t, int64_t i, double value) {
  if (t)
    shmt__scalar_store_unsafe(shmt__scalar_float(value), t->dtype,
                              (char*)shmt__tensor_data(t) + i * shmt__tensor_item_bytes(t));
}

static double load(const shmt_tensor* t, int64_t i, double missing) {
  if (!t) return missing;
  return shmt__scalar_to_double(
      shmt__scalar_load((const char*)shmt__tensor_data(t) + i * shmt__tensor_item_bytes(t), t->dtype));
}

/* --- layer ------------------------------------------------------------------------------------ */

typedef struct layer_job {
  shmt_tensor *x, *out, *weight, *bias, *mean, *rstd, *grad;
  int64_t length;
  double eps;
  double *to_weight, *to_bias;
} layer_job;

static void layer_rows(void* ctx, int64_t begin, int64_t end) {
  const layer_job* j = ctx;
  const int64_t step = j->length * shmt__tensor_item_bytes(j->x);

  for (int64_t r = begin; r < end; r++) {
    shmt__norm_shape shape = {0};
    char* x = data_of(j->x) + r * step;
    moments(j->x->dtype, x, j->length, j->eps, &shape.mean, &shape.scale);
    char* data[4] = {data_of(j->out) + r * step, x, data_of(j->weight), data_of(j->bias)};
    shmt__loops[SHMT_LOOP_row_norm][j->x->dtype](data, NULL, j->length, &shape);
    store(j->mean, r, shape.mean);
    store(j->rstd, r, shape.scale);
  }
}

static shmt_status check_normalized(const shmt_tensor* input, shmt_ints shape, const shmt_tensor* weight,
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

shmt_status shmt__native_layer_norm(shmt_tensor* input, shmt_ints normalized_shape, shmt_tensor* weight,
                                    shmt_tensor* bias, double eps, shmt_tensor** out, shmt_tensor** mean,
                                    shmt_tensor** rstd) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  int64_t stat_sizes[SHMT_MAX_DIMS], length = 1, rows = 1;

  SHMT_TRY(check_normalized(input, normalized_shape, weight, bias));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_row_norm, input->dtype, "LayerNormKernelImpl");
  const int64_t outer = input->n_dims - normalized_shape.len;
  for (int d = 0; d < input->n_dims; d++) {
    stat_sizes[d] = d < outer ? input->sizes[d] : 1;
    *(d < outer ? &rows : &length) *= input->sizes[d];
  }
  const shmt_ints stats = {stat_sizes, input->n_dims};
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, input->device, SHMT_CONTIGUOUS_FORMAT, &result));
  SHMT_TRY(shmt__tensor_empty(stats, stat_dtype(input->dtype), input->device, SHMT_CONTIGUOUS_FORMAT, &means));
  SHMT_TRY(shmt__tensor_empty(stats, stat_dtype(input->dtype), input->device, SHMT_CONTIGUOUS_FORMAT, &scales));
  if (!shmt__tensor_is_meta(input) && rows > 0 && length > 0) {
    SHMT_TRY(dense_of(input, input->dtype, &x));
    SHMT_TRY(dense_of(weight, input->dtype, &w));
    SHMT_TRY(dense_of(bias, input->dtype, &b));
    layer_job j = {.x = x, .out = result, .weight = w, .bias = b, .mean = means, .rstd = scales, .length = length,
                   .eps = eps};
    shmt__parallel_for(rows, GRAIN / length + 1, layer_rows, &j);
  }
  *out = SHMT_TAKE(result);
  *mean = SHMT_TAKE(means);
  *rstd = SHMT_TAKE(scales);
  return SHMT_OK;
}

static void layer_backward_rows(void* ctx, int64_t begin, int64_t end) {
  const layer_job* j = ctx;
  const int64_t step = j->length * shmt__tensor_item_bytes(j->x);

  for (int64_t r = begin; r < end; r++) {
    const shmt__norm_shape shape = {.mean = load(j->mean, r, 0), .scale = load(j->rstd, r, 1)};
    char* data[6] = {j->out ? data_of(j->out) + r * step : NULL,
                     data_of(j->x) + r * step,
                     data_of(j->grad) + r * step,
                     data_of(j->weight),
                     (char*)j->to_weight,
                     (char*)j->to_bias};
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

  SHMT_TRY(dense_of(input, input->dtype, &x));
  SHMT_TRY(dense_of(grad, input->dtype, &g));
  SHMT_TRY(dense_of(weight, input->dtype, &w));
  SHMT_TRY(dense_of(mean, mean->dtype, &m));
  SHMT_TRY(dense_of(rstd, rstd->dtype, &s));
  if (wants_input)
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, &result));
  layer_job j = {.x = x, .grad = g, .weight = w, .mean = m, .rstd = s, .length = length, .out = result};
  /* Rows' own gradients are independent; the sums over rows are not. */
  if (wants_input && rows > 0 && length > 0)
    shmt__parallel_for(rows, GRAIN / length + 1, layer_backward_rows, &j);
  j.out = NULL;
  j.to_weight = wants_weight ? sums : NULL;
  j.to_bias = wants_bias ? sums + length : NULL;
  if ((wants_weight || wants_bias) && length > 0) layer_backward_rows(&j, 0, rows);
  *grad_input = SHMT_TAKE(result);
  return SHMT_OK;
}

shmt_status shmt__native_layer_norm_backward(shmt_tensor* grad_out, shmt_tensor* input, shmt_ints normalized_shape,
                                             shmt_tensor* mean, shmt_tensor* rstd, shmt_tensor* weight,
                                             shmt_ints output_mask, shmt_tensor** grad_input,
                                             shmt_tensor** grad_weight, shmt_tensor** grad_bias) {
  int64_t length = 1, rows = 1;
  void* sums = NULL;
  shmt_status status;

  SHMT_REQUIRE(output_mask.len == 3, SHMT_E_RUNTIME, "native_layer_norm_backward(): expected 3 values of output_mask");
  for (int d = 0; d < input->n_dims; d++)
    *(d < input->n_dims - normalized_shape.len ? &rows : &length) *= input->sizes[d];
  const bool wants[3] = {output_mask.data[0] != 0, output_mask.data[1] != 0, output_mask.data[2] != 0};
  if (shmt__tensor_is_meta(input)) {
    if (wants[0])
      SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT,
                                  grad_input));
    if (wants[1])
      SHMT_TRY(shmt__tensor_empty(normalized_shape, input->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, grad_weight));
    if (wants[2])
      SHMT_TRY(shmt__tensor_empty(normalized_shape, input->dtype, SHMT_META, SHMT_CONTIGUOUS_FORMAT, grad_bias));
    return SHMT_OK;
  }
  const uint64_t nbytes = (uint64_t)length * 16;
  SHMT_TRY(shmt__alloc(nbytes, &sums));
  memset(sums, 0, nbytes);
  status = layer_backward(grad_out, input, mean, rstd, weight, rows, length, wants[0], sums, wants[1], wants[2],
                          grad_input);
  if (status == SHMT_OK && wants[1]) status = from_doubles(sums, normalized_shape, input->dtype, grad_weight);
  if (status == SHMT_OK && wants[2])
    status = from_doubles((double*)sums + length, normalized_shape, input->dtype, grad_bias);
  shmt__dealloc(sums, nbytes);
  return status;
}
