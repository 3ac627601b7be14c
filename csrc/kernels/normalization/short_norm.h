/* kernels/normalization/short_norm.h -- the arguments of the loop that normalises short rows. */
#ifndef SHMT_KERNELS_NORMALIZATION_SHORT_NORM_H
#define SHMT_KERNELS_NORMALIZATION_SHORT_NORM_H

#include <stdbool.h>
#include <stdint.h>

/* Rows of at most SHMT_SHORT_ROW elements are normalised SHMT_SHORT_ROWS_PER_BLOCK at a time. */
enum { SHMT_SHORT_ROW = 16, SHMT_SHORT_ROWS_PER_BLOCK = 64 };

typedef struct shmt__short_norm_args {
  int64_t length;
  double eps;
  bool uncentred; /* RMS norm: the mean is not subtracted */
  bool to_length; /* divides by max(2-norm, eps) instead of the standard deviation */
} shmt__short_norm_args;

#endif
