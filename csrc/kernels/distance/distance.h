/* kernels/distance/distance.h -- arguments of the loop of gradients of distances. */
#ifndef SHMT_KERNELS_DISTANCE_DISTANCE_H
#define SHMT_KERNELS_DISTANCE_DISTANCE_H

#include <stdint.h>

/* Distances of one row to many others. Gradients and distances are step elements apart, each time shrink fewer (as in
 * the condensed result of pdist). */
typedef struct shmt__distance_backward_args {
  int64_t length, others;
  int64_t grad_step, grad_shrink;
  int64_t distance_step, distance_shrink;
  int norm; /* 1, 2; 3: the largest difference */
} shmt__distance_backward_args;

#endif
