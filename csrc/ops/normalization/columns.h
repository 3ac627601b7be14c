/* ops/normalization/columns.h -- runs loops over the columns of a matrix with dense rows, on several threads. */
#ifndef SHMT_OPS_NORMALIZATION_COLUMNS_H
#define SHMT_OPS_NORMALIZATION_COLUMNS_H

#include "generated/api/dtypes.h"

#include <stdbool.h>
#include <stdint.h>

enum { SHMT_MAX_COLUMNS = 512 };

/* A loop of kernels/normalization/column_affine.tmpl.h or column_moments.tmpl.h and its arguments. `data` is the output
 * or the sums, then n_matrices matrices (the second may be NULL), then n_params arrays of one double for each column.
 * Strides are in bytes from row to row. */
typedef struct shmt__column_loop {
  int loop;
  shmt_dtype dtype;
  bool is_sum;
  int64_t n, rows; /* n: at most SHMT_MAX_COLUMNS */
  int n_matrices, n_params;
  char* data[7];
  int64_t strides[3];
} shmt__column_loop;

/* Runs the loop, on several threads where that is worth it and the caller is not itself a task. Adds to the sums. */
void shmt__column_loop_run(const shmt__column_loop* c);

#endif
