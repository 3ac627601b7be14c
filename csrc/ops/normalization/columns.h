/* ops/normalization/columns.h -- loops over the columns of a matrix whose rows lie dense, shared out by rows. */
#ifndef SHMT_OPS_NORMALIZATION_COLUMNS_H
#define SHMT_OPS_NORMALIZATION_COLUMNS_H

#include "generated/api/dtypes.h"

#include <stdbool.h>
#include <stdint.h>

enum { SHMT_MAX_COLUMNS = 512 };

/* What a loop of kernels/normalization/column_affine.tmpl.h or kernels/normalization/column_moments.tmpl.h takes: `data` are its output or its sums, so many matrices, of
 * which the second may be NULL, and so many rows of params, each a double a column; strides are in bytes from row to row. */
typedef struct shmt__column_loop {
  int loop;
  shmt_dtype dtype;
  bool is_sum;
  int64_t n, rows; /* n: at most SHMT_MAX_COLUMNS */
  int n_matrices, n_params;
  char* data[7];
  int64_t strides[3];
} shmt__column_loop;

/* Run it, on several threads where that is worth it and none is at work. Sums are added to. */
void shmt__column_loop_run(const shmt__column_loop* c);

#endif
