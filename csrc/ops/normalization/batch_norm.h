/* ops/normalization/batch_norm.h -- batch norm of channels: what its two ways to walk the elements share. */
#ifndef SHMT_OPS_NORMALIZATION_BATCH_NORM_H
#define SHMT_OPS_NORMALIZATION_BATCH_NORM_H

#include "iter/copy/pack.h"
#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* Everything dense but x and grad, which have the dims of out in the order of its memory: (n, n_channels, plane). */
typedef struct shmt__batch_norm_args {
  shmt__part x, grad;
  shmt_dtype dtype;
  shmt_tensor *out, *weight, *bias, *mean, *scale, *running_mean, *running_var, *to_weight, *to_bias;
  int64_t n, n_channels, plane;
  int n_dims; /* before that of the channels */
  bool training;
  double eps, momentum;
} shmt__batch_norm_args;

/* Store the statistics of channel k, from its mean and its sum of squares (read in training only), and return the
 * scale and shift of its elements. */
shmt__norm_args shmt__batch_norm_finish_statistics(const shmt__batch_norm_args* c, int64_t k, double mean, double square);

/* The mean that channel k was centred by. */
double shmt__batch_norm_mean(const shmt__batch_norm_args* c, int64_t k);

/* Store the gradients of channel k's weight and bias, from the sums of its gradients and of their products with the
 * centred elements, and return the numbers of its elements' gradients. */
shmt__norm_args shmt__batch_norm_finish_gradients(const shmt__batch_norm_args* c, int64_t k, double sum, double product);

/* Are planes so small that the elements are walked as columns? */
bool shmt__batch_norm_has_columns(const shmt__batch_norm_args* c);

/* Channels [begin, end) of ctx, a shmt__batch_norm_args, walked as columns of a matrix. For shmt__parallel_for. */
void shmt__batch_norm_columns(void* ctx, int64_t begin, int64_t end);
void shmt__batch_norm_columns_backward(void* ctx, int64_t begin, int64_t end);

#endif
