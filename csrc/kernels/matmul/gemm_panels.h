/* kernels/matmul/gemm_panels.h -- what the loop over rows by a panel of columns is told. */
#ifndef SHMT_KERNELS_MATMUL_GEMM_PANELS_H
#define SHMT_KERNELS_MATMUL_GEMM_PANELS_H

#include <stdbool.h>
#include <stdint.h>

enum { SHMT_GEMM_PANEL_BYTES = 128 }; /* of a row of a panel */

/* c = beta * c + alpha * a @ b; strides in elements. Rows of b have SHMT_GEMM_PANEL_BYTES at least, of
 * which `columns` count; c has room for no more than those. */
typedef struct shmt__gemm_panel_args {
  int64_t columns, depth; /* depth: of a's rows and b's columns */
  int64_t a_row, a_column, b_row, c_row;
  const void *alpha, *beta; /* of the dtype */
  bool beta_is_zero;        /* c is not read */
  bool prefetches;              /* b's rows are best fetched ahead */
} shmt__gemm_panel_args;

#endif
