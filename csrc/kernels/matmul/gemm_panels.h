/* kernels/matmul/gemm_panels.h -- arguments of the product of rows with a panel of columns. */
#ifndef SHMT_KERNELS_MATMUL_GEMM_PANELS_H
#define SHMT_KERNELS_MATMUL_GEMM_PANELS_H

#include <stdbool.h>
#include <stdint.h>

enum { SHMT_GEMM_PANEL_BYTES = 128 }; /* of a row of a panel */

/* c = beta * c + alpha * a @ b; strides in elements. Rows of b have at least SHMT_GEMM_PANEL_BYTES, of which `columns`
 * elements count; rows of c have no more than those. */
typedef struct shmt__gemm_panel_args {
  int64_t columns, depth; /* depth: of a's rows and b's columns */
  int64_t a_row, a_column, b_row, c_row;
  const void *alpha, *beta; /* of the dtype */
  bool beta_is_zero;        /* c is not read */
  bool prefetches;              /* prefetch the rows of b */
} shmt__gemm_panel_args;

#endif
