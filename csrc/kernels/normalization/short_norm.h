/* kernels/normalization/short_norm.h -- what the loop that normalises short rows is told. */
#ifndef SHMT_KERNELS_NORMALIZATION_SHORT_NORM_H
#define SHMT_KERNELS_NORMALIZATION_SHORT_NORM_H

#include <stdbool.h>
#include <stdint.h>

/* Rows of so few elements are normalised so many at a time. */
enum { SHMT_SHORT_ROW = 16, SHMT_SHORT_ROWS_PER_BLOCK = 64 };

typedef struct shmt__short_norm_args {
  int64_t length;
  double eps;
  bool uncentred; /* means are not taken off */
  bool to_length; /* to length 1, where it is not below eps, instead of deviation 1 */
} shmt__short_norm_args;

#endif
