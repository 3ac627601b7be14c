/* kernels/matmul/gemm_small.h -- arguments of products of small matrices. */
#ifndef SHMT_KERNELS_MATMUL_GEMM_SMALL_H
#define SHMT_KERNELS_MATMUL_GEMM_SMALL_H

#include <stdbool.h>
#include <stdint.h>

enum { SHMT_GEMM_SMALL_SIDE = 8 }; /* rows, columns and terms (k) at most */

/* c = beta * c + alpha * a @ b; strides in elements. */
typedef struct shmt__gemm_small_args {
  int64_t rows, columns, terms;
  int64_t a_row, a_column, b_row, b_column, c_row, c_column;
  const void *alpha, *beta; /* of the dtype */
  bool beta_is_zero;        /* c is not read */
} shmt__gemm_small_args;

#endif
