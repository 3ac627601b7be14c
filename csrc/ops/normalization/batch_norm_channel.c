/* ops/normalization/batch_norm_channel.c -- batch norm of one channel: from its sums to statistics, scale and
 * gradients. */
#include "ops/normalization/batch_norm.h"

#include "ops/normalization/normalization.h"

#include <math.h>

/* Moves a running statistic towards the batch's by the momentum. */
static void update_running(const shmt__batch_norm_args* c, shmt_tensor* running, int64_t k, double value) {
  if (running) shmt__norm_store(running, k, c->momentum * value + (1 - c->momentum) * shmt__norm_load(running, k, 0));
}

shmt__norm_args shmt__batch_norm_finish_statistics(const shmt__batch_norm_args* c, int64_t k, double mean,
                                                   double square) {
  const double count = (double)(c->n * c->plane);
  double scale;

  if (c->training) {
    scale = 1 / sqrt(square / count + c->eps);
    update_running(c, c->running_mean, k, mean);
    update_running(c, c->running_var, k, square / (count - 1));
  } else {
    mean = shmt__norm_load(c->running_mean, k, 0);
    scale = 1 / sqrt(shmt__norm_load(c->running_var, k, 1) + c->eps);
  }
  shmt__norm_store(c->mean, k, mean);
  shmt__norm_store(c->scale, k, scale);
  shmt__norm_args args = {.scale = scale * shmt__norm_load(c->weight, k, 1)};
  args.shift = shmt__norm_load(c->bias, k, 0) - mean * args.scale;
  return args;
}

double shmt__batch_norm_mean(const shmt__batch_norm_args* c, int64_t k) {
  return shmt__norm_load(c->training ? c->mean : c->running_mean, k, 0);
}

shmt__norm_args shmt__batch_norm_finish_gradients(const shmt__batch_norm_args* c, int64_t k, double sum,
                                                  double product) {
  const double count = (double)(c->n * c->plane), weight = shmt__norm_load(c->weight, k, 1);
  const double scale =
      c->training ? shmt__norm_load(c->scale, k, 1) : 1 / sqrt(shmt__norm_load(c->running_var, k, 1) + c->eps);
  shmt__norm_args args = {.mean = shmt__batch_norm_mean(c, k), .scale = scale * weight, .weight = 1};

  shmt__norm_store(c->to_weight, k, product * scale);
  shmt__norm_store(c->to_bias, k, sum);
  if (c->training) {
    args.shift = -sum / count;
    args.slope = -product * scale * scale / count;
  }
  return args;
}
