/* ops/batch_norm.c -- normalisation per channel over batch and positions, forward and backward. */
#include "ops/batch_norm.h"

#include "base/scalar.h"
#include "generated/impls.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "ops/norm.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef shmt__channels channels;

static char* plane_of(const channels* c, shmt_tensor* t, int64_t i, int64_t channel) {
  return (char*)shmt__tensor_data(t) + (i * c->n_channels + channel) * c->plane * shmt__tensor_item_bytes(t);
}

/* A sum over all planes of a channel. */
static double sum_over(const channels* c, int row, int64_t channel, double mean) {
  const shmt__norm_shape shape = {.mean = mean};
  double sum = 0;

  for (int64_t i = 0; i < c->n; i++) {
    char* data[3] = {(char*)&sum, plane_of(c, c->x, i, channel), c->grad ? plane_of(c, c->grad, i, channel) : NULL};
    shmt__loops[row][c->x->dtype](data, NULL, c->plane, &shape);
  }
  return sum;
}

/* Move a running statistic towards the batch's. */
static void follow(const channels* c, shmt_tensor* running, int64_t k, double value) {
  if (running) shmt__norm_store(running, k, c->momentum * value + (1 - c->momentum) * shmt__norm_load(running, k, 0));
}

shmt__norm_shape shmt__batch_norm_settle(const channels* c, int64_t k, double mean, double square) {
  const double count = (double)(c->n * c->plane);
  double scale;

  if (c->training) {
    scale = 1 / sqrt(square / count + c->eps);
    follow(c, c->running_mean, k, mean);
    follow(c, c->running_var, k, square / (count - 1));
  } else {
    mean = shmt__norm_load(c->running_mean, k, 0);
    scale = 1 / sqrt(shmt__norm_load(c->running_var, k, 1) + c->eps);
  }
  shmt__norm_store(c->mean, k, mean);
  shmt__norm_store(c->scale, k, scale);
  shmt__norm_shape shape = {.scale = scale * shmt__norm_load(c->weight, k, 1)};
  shape.shift = shmt__norm_load(c->bias, k, 0) - mean * shape.scale;
  return shape;
}

static void forward_channels(void* ctx, int64_t begin, int64_t end) {
  const channels* c = ctx;

  for (int64_t k = begin; k < end; k++) {
    const double mean = c->training ? sum_over(c, SHMT_LOOP_run_sum, k, 0) / (double)(c->n * c->plane) : 0;
    const double square = c->training ? sum_over(c, SHMT_LOOP_run_square, k, mean) : 0;
    const shmt__norm_shape shape = shmt__batch_norm_settle(c, k, mean, square);
    for (int64_t i = 0; i < c->n; i++) {
      char* data[2] = {plane_of(c, c->out, i, k), plane_of(c, c->x, i, k)};
      shmt__loops[SHMT_LOOP_run_affine][c->x->dtype](data, NULL, c->plane, &shape);
    }
  }
}

double shmt__batch_norm_mean(const channels* c, int64_t k) {
  return shmt__norm_load(c->training ? c->mean : c->running_mean, k, 0);
}

shmt__norm_shape shmt__batch_norm_settle_backward(const channels* c, int64_t k, double sum, double product) {
  const double count = (double)(c->n * c->plane), weight = shmt__norm_load(c->weight, k, 1);
  const double scale =
      c->training ? shmt__norm_load(c->scale, k, 1) : 1 / sqrt(shmt__norm_load(c->running_var, k, 1) + c->eps);
  shmt__norm_shape shape = {.mean = shmt__batch_norm_mean(c, k), .scale = scale * weight, .weight = 1};

  shmt__norm_store(c->to_weight, k, product * scale);
  shmt__norm_store(c->to_bias, k, sum);
  if (c->training) {
    shape.shift = -sum / count;
    shape.slope = -product * scale * scale / count;
  }
  return shape;
}

static void backward_channels(void* ctx, int64_t begin, int64_t end) {
  const channels* c = ctx;
  channels grads = *c;

  grads.x = c->grad;
  grads.grad = NULL;
  for (int64_t k = begin; k < end; k++) {
    const double sum = sum_over(&grads, SHMT_LOOP_run_sum, k, 0);
    const double product = sum_over(c, SHMT_LOOP_run_product, k, shmt__batch_norm_mean(c, k));
    const shmt__norm_shape shape = shmt__batch_norm_settle_backward(c, k, sum, product);
    for (int64_t i = 0; c->out && i < c->n; i++) {
      char* data[3] = {plane_of(c, c->out, i, k), plane_of(c, c->x, i, k), plane_of(c, c->grad, i, k)};
      shmt__loops[SHMT_LOOP_run_backward][c->x->dtype](data, NULL, c->plane, &shape);
    }
  }
}

static shmt_status check_channel(const char* what, const shmt_tensor* t, int64_t n_channels) {
  SHMT_REQUIRE(!t || t->numel == n_channels, SHMT_E_RUNTIME, "%s should contain %" PRId64 " elements not %" PRId64, what,
               n_channels, t ? t->numel : 0);
  return SHMT_OK;
}

/* In channels-last memory every position is a sample of its own. */
static void find_extent(const shmt_tensor* input, shmt_memory_format format, channels* c) {
  c->n = input->sizes[0];
  c->n_channels = input->sizes[1];
  c->plane = 1;
  for (int d = 2; d < input->n_dims; d++) *(format == SHMT_CONTIGUOUS_FORMAT ? &c->plane : &c->n) *= input->sizes[d];
}

/* A tensor of the input's shape, dense in its format; a new reference. */
static shmt_status in_format(shmt_tensor* t, shmt_dtype dtype, shmt_memory_format format, shmt_tensor** out) {
  SHMT_AUTO(shmt_tensor) cast = NULL;

  SHMT_TRY(shmt__tensor_cast(t, dtype, &cast));
  return shmt__tensor_contiguous(cast, format, out);
}

static int64_t grain_of(const channels* c) { return 16384 / (c->n * c->plane + 1) + 1; }

shmt_status shmt__native_batch_norm(shmt_tensor* input, shmt_tensor* weight, shmt_tensor* bias,
                                    shmt_tensor* running_mean, shmt_tensor* running_var, bool training, double momentum,
                                    double eps, shmt_tensor** out, shmt_tensor** save_mean,
                                    shmt_tensor** save_invstd) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) b = NULL;
  SHMT_AUTO(shmt_tensor) rm = NULL;
  SHMT_AUTO(shmt_tensor) rv = NULL;
  SHMT_AUTO(shmt_tensor) result = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  channels c = {.training = training, .eps = eps, .momentum = momentum};

  SHMT_REQUIRE(input->n_dims >= 2, SHMT_E_RUNTIME, "batch_norm(): expected at least 2 dimensions, got %d",
               input->n_dims);
  SHMT_REQUIRE_LOOP(SHMT_LOOP_run_affine, input->dtype, "batch_norm");
  const shmt_memory_format format = shmt__tensor_suggest_format(input);
  find_extent(input, format, &c);
  SHMT_TRY(check_channel("running_mean", running_mean, c.n_channels));
  SHMT_TRY(check_channel("running_var", running_var, c.n_channels));
  SHMT_TRY(check_channel("weight", weight, c.n_channels));
  SHMT_TRY(check_channel("bias", bias, c.n_channels));
  SHMT_REQUIRE(training || (running_mean && running_var), SHMT_E_RUNTIME,
               "running_mean and running_var must be defined in evaluation mode");
  SHMT_REQUIRE(!training || input->numel > 0, SHMT_E_RUNTIME,
               "input tensor must have at least one element, but got input_sizes = %s", SHMT_SHAPE_TEXT(input));
  if (training) SHMT_TRY(shmt__check_writable("batch_norm", running_mean));
  if (training) SHMT_TRY(shmt__check_writable("batch_norm", running_var));
  const shmt_dtype stat = weight ? weight->dtype : input->dtype;
  const shmt_ints stat_sizes = SHMT_INTS(training ? c.n_channels : 0);
  SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, input->device, format, &result));
  SHMT_TRY(shmt__tensor_empty(stat_sizes, stat, input->device, SHMT_CONTIGUOUS_FORMAT, &means));
  SHMT_TRY(shmt__tensor_empty(stat_sizes, stat, input->device, SHMT_CONTIGUOUS_FORMAT, &scales));
  if (!shmt__tensor_is_meta(input) && input->numel > 0) {
    SHMT_TRY(in_format(input, input->dtype, format, &x));
    if (weight) SHMT_TRY(shmt__norm_dense(weight, weight->dtype, &w));
    if (bias) SHMT_TRY(shmt__norm_dense(bias, bias->dtype, &b));
    if (running_mean) SHMT_TRY(shmt__norm_dense(running_mean, running_mean->dtype, &rm));
    if (running_var) SHMT_TRY(shmt__norm_dense(running_var, running_var->dtype, &rv));
    c.x = x;
    c.out = result;
    c.weight = w;
    c.bias = b;
    c.mean = means;
    c.scale = scales;
    c.running_mean = rm;
    c.running_var = rv;
    shmt__parallel_for(c.n_channels, grain_of(&c),
                       shmt__batch_norm_has_columns(&c) ? shmt__batch_norm_columns : forward_channels, &c);
    /* The statistics' versions stay, as in torch: the node that saves them does not read them after training. */
    if (training && running_mean && rm != running_mean) SHMT_TRY(shmt__tensor_copy(running_mean, rm));
    if (training && running_var && rv != running_var) SHMT_TRY(shmt__tensor_copy(running_var, rv));
  }
  *out = SHMT_TAKE(result);
  *save_mean = SHMT_TAKE(means);
  *save_invstd = SHMT_TAKE(scales);
  return SHMT_OK;
}

shmt_status shmt__native_batch_norm_backward(shmt_tensor* grad_out, shmt_tensor* input, shmt_tensor* weight,
                                             shmt_tensor* running_mean, shmt_tensor* running_var,
                                             shmt_tensor* save_mean, shmt_tensor* save_invstd, bool train, double eps,
                                             shmt_ints output_mask, shmt_tensor** grad_input,
                                             shmt_tensor** grad_weight, shmt_tensor** grad_bias) {
  SHMT_AUTO(shmt_tensor) x = NULL;
  SHMT_AUTO(shmt_tensor) g = NULL;
  SHMT_AUTO(shmt_tensor) w = NULL;
  SHMT_AUTO(shmt_tensor) rm = NULL;
  SHMT_AUTO(shmt_tensor) rv = NULL;
  SHMT_AUTO(shmt_tensor) means = NULL;
  SHMT_AUTO(shmt_tensor) scales = NULL;
  SHMT_AUTO(shmt_tensor) for_input = NULL;
  SHMT_AUTO(shmt_tensor) for_weight = NULL;
  SHMT_AUTO(shmt_tensor) for_bias = NULL;
  channels c = {.training = train, .eps = eps};

  SHMT_REQUIRE(output_mask.len == 3, SHMT_E_RUNTIME, "native_batch_norm_backward(): expected 3 values of output_mask");
  SHMT_REQUIRE(input->n_dims >= 2 && shmt__sizes_are(grad_out, shmt__tensor_sizes(input)), SHMT_E_RUNTIME,
               "native_batch_norm_backward(): a gradient of size %s does not fit an input of size %s",
               SHMT_SHAPE_TEXT(grad_out), SHMT_SHAPE_TEXT(input));
  SHMT_REQUIRE_LOOP(SHMT_LOOP_run_backward, input->dtype, "batch_norm_backward");
  const shmt_memory_format format = shmt__tensor_suggest_format(input);
  find_extent(input, format, &c);
  SHMT_TRY(check_channel("running_mean", running_mean, c.n_channels));
  SHMT_TRY(check_channel("running_var", running_var, c.n_channels));
  SHMT_TRY(check_channel("weight", weight, c.n_channels));
  if (train) SHMT_TRY(check_channel("save_mean", save_mean, c.n_channels));
  if (train) SHMT_TRY(check_channel("save_invstd", save_invstd, c.n_channels));
  SHMT_REQUIRE(train || (running_mean && running_var), SHMT_E_RUNTIME,
               "running_mean and running_var must be defined in evaluation mode");
  const shmt_dtype stat = weight ? weight->dtype : input->dtype;
  const shmt_ints per_channel = SHMT_INTS(c.n_channels);
  if (output_mask.data[0])
    SHMT_TRY(shmt__tensor_empty(shmt__tensor_sizes(input), input->dtype, input->device, format, &for_input));
  if (output_mask.data[1])
    SHMT_TRY(shmt__tensor_empty(per_channel, stat, input->device, SHMT_CONTIGUOUS_FORMAT, &for_weight));
  if (output_mask.data[2])
    SHMT_TRY(shmt__tensor_empty(per_channel, stat, input->device, SHMT_CONTIGUOUS_FORMAT, &for_bias));
  if (!shmt__tensor_is_meta(input)) {
    SHMT_TRY(in_format(input, input->dtype, format, &x));
    SHMT_TRY(in_format(grad_out, input->dtype, format, &g));
    if (weight) SHMT_TRY(shmt__norm_dense(weight, weight->dtype, &w));
    if (running_mean) SHMT_TRY(shmt__norm_dense(running_mean, running_mean->dtype, &rm));
    if (running_var) SHMT_TRY(shmt__norm_dense(running_var, running_var->dtype, &rv));
    SHMT_TRY(shmt__norm_dense(save_mean, save_mean->dtype, &means));
    SHMT_TRY(shmt__norm_dense(save_invstd, save_invstd->dtype, &scales));
    c.x = x;
    c.grad = g;
    c.weight = w;
    c.mean = means;
    c.scale = scales;
    c.running_mean = rm;
    c.running_var = rv;
    c.out = for_input;
    c.to_weight = for_weight;
    c.to_bias = for_bias;
    shmt__parallel_for(c.n_channels, grain_of(&c),
                       shmt__batch_norm_has_columns(&c) ? shmt__batch_norm_columns_backward : backward_channels, &c);
  }
  *grad_input = SHMT_TAKE(for_input);
  *grad_weight = SHMT_TAKE(for_weight);
  *grad_bias = SHMT_TAKE(for_bias);
  return SHMT_OK;
}
