/* ops/normalization/batch_norm.h -- what the two algorithms of batch norm share: planes (batch_norm.c) and columns. */
#ifndef SHMT_OPS_NORMALIZATION_BATCH_NORM_H
#define SHMT_OPS_NORMALIZATION_BATCH_NORM_H

#include "iter/copy/pack.h"
#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* The operands of batch norm, seen as (n, n_channels, plane). All are dense but x and grad, whose dims are in the order
 * of out's memory. For channels-last tensors, plane is 1 and n counts all positions. */
typedef struct shmt__batch_norm_args {
  shmt__part x, grad;
  shmt_dtype dtype;
  shmt_tensor *out, *weight, *bias, *mean, *scale, *running_mean, *running_var, *to_weight, *to_bias;
  int64_t n, n_channels, plane;
  int n_dims; /* dims before that of the channels */
  bool training;
  double eps, momentum;
} shmt__batch_norm_args;

/* Stores the statistics of channel k and returns the scale and shift of its elements. In training they follow from its
 * mean and its sum of squares; in evaluation mode from the running statistics. */
shmt__norm_args shmt__batch_norm_finish_statistics(const shmt__batch_norm_args* c, int64_t k, double mean,
                                                   double square);

/* The mean that the forward pass subtracted from channel k. */
double shmt__batch_norm_mean(const shmt__batch_norm_args* c, int64_t k);

/* Stores the gradients of channel k's weight and bias, and returns how the gradients of its elements are computed. sum:
 * of the output's gradients; product: of these times the centred elements. */
shmt__norm_args shmt__batch_norm_finish_gradients(const shmt__batch_norm_args* c, int64_t k, double sum,
                                                  double product);

/* Are planes so small that the algorithm of columns is faster? */
bool shmt__batch_norm_has_columns(const shmt__batch_norm_args* c);

/* The algorithm of columns, for channels [begin, end) of ctx, a shmt__batch_norm_args. For shmt__parallel_for. */
void shmt__batch_norm_columns(void* ctx, int64_t begin, int64_t end);
void shmt__batch_norm_columns_backward(void* ctx, int64_t begin, int64_t end);

#endif
