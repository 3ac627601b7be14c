/* ops/linalg/trsm.h -- solves with triangular matrices, as BLAS' trsm: substitution in panels, products for the rest.
 *
 * Note [trsm]
 * A triangular matrix of few rows is solved by substitution in a panel of right-hand sides
 * (kernels/linalg/trsm.tmpl.h), whatever the strides of all matrices. A larger one is halved: the two halves on the
 * diagonal are solved, and the block beside them is a product. No part is inverted, so that the residual is as small as
 * LAPACK's.
 *
 * Two triangular matrices one after the other, such as the factors L and U, are solved without leaving the panel.
 */
#ifndef SHMT_OPS_LINALG_TRSM_H
#define SHMT_OPS_LINALG_TRSM_H

#include "ops/matmul/gemm.h"
#include "tensor/tensor.h"

typedef struct shmt__triangular {
  shmt__matrix a; /* square; only the triangular part is read */
  bool is_lower;
  bool is_unit;       /* the diagonal counts as ones and is not read */
  bool is_conjugated; /* a stands for its conjugate */
} shmt__triangular;

/* The arguments of x = T1^-1 T0^-1 P b, or x = P^-1 T1^-1 T0^-1 b when pivots_last. */
typedef struct shmt__trsm_args {
  shmt_dtype dtype; /* float32, float64, complex64 or complex128 */
  int n;            /* triangular matrices: 1 or 2 */
  shmt__triangular triangular[2];
  const int*
      pivots; /* NULL, or LAPACK's pivots of P: row i is swapped with row pivots[i] - 1, both within the matrix */
  bool pivots_last;
} shmt__trsm_args;

/* Larger matrices are solved in place, and the BLAS must be able to read them (shmt__matrix_is_blas) and x. */
enum { SHMT_TRSM_PANEL_ROWS = 256 };

/* Calculates x from b, which is x itself or does not overlap it. The rows of b above `begin` are 0, which saves work
 * where T0 is lower. begin is 0 where these rows are not 0, and where rows are swapped before T0. Sizes and strides fit
 * an int. */
void shmt__trsm(const shmt__trsm_args* s, shmt__matrix b, shmt__matrix x, int64_t begin);

/* Swaps row i of x with row pivots[i] - 1, for i from 0 to n, or from n to 0 when backwards. (LAPACK's laswp.) */
void shmt__swap_rows(shmt__matrix x, const int* pivots, int64_t n, bool backwards, int64_t item);
/* x = x P for such pivots: swaps the columns of x, from the last to the first. The row stride of x is 1. */
void shmt__swap_columns(shmt__matrix x, const int* pivots, int64_t item);

/* The transpose of a triangular matrix. */
static inline shmt__triangular shmt__triangular_transposed(shmt__triangular t) {
  return (shmt__triangular){shmt__matrix_transposed(t.a), !t.is_lower, t.is_unit, t.is_conjugated};
}

#endif
