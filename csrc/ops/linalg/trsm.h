/* ops/linalg/trsm.h -- solving with triangles: substitution in panels, products for what lies beside the diagonal.
 *
 * Note [Substitution]
 * A triangle of few rows is solved by substitution in a panel of right-hand sides (kernels/linalg/trsm.tmpl.h), whatever
 * the strides of all matrices. A larger one is halved: both halves on the diagonal are solved, and what stands beside
 * them is a product. No part is inverted, so that the residual is as small as LAPACK's.
 *
 * Two triangles one after the other, as of a factorisation, are solved without leaving the panel.
 */
#ifndef SHMT_OPS_LINALG_TRSM_H
#define SHMT_OPS_LINALG_TRSM_H

#include "ops/matmul/blas.h"
#include "tensor/tensor.h"

typedef struct shmt__triangular {
  shmt__matrix a; /* square; only the triangle is read */
  bool is_lower;
  bool is_unit;       /* the diagonal counts as ones and is not read */
  bool is_conjugated; /* a stands for its conjugate */
} shmt__triangular;

/* x = T1^-1 T0^-1 P b, or P^-1 T1^-1 T0^-1 b. */
typedef struct shmt__trsm_args {
  shmt_dtype dtype; /* float32, float64, complex64 or complex128 */
  int n;            /* triangles: 1 or 2 */
  shmt__triangular triangular[2];
  const int* pivots; /* NULL, or LAPACK's of P: row i changes places with row pivots[i] - 1, both within the matrix */
  bool pivots_last;
} shmt__trsm_args;

/* Triangles of more rows are solved in place, and the BLAS must be able to read them (shmt__matrix_is_blas) and x. */
enum { SHMT_TRSM_PANEL_ROWS = 256 };

/* x from b, which is x itself or overlaps it nowhere. The rows of b above `begin` are 0, which saves work where T0 is
 * lower; begin is 0 where they are not, and where rows are exchanged before T0. Sizes and strides fit an int. */
void shmt__trsm(const shmt__trsm_args* s, shmt__matrix b, shmt__matrix x, int64_t begin);

/* Row i of x changes places with row pivots[i] - 1, for i from 0 to n or from n to 0. */
void shmt__swap_rows(shmt__matrix x, const int* pivots, int64_t n, bool backwards, int64_t item);
/* x = x P for such pivots: the columns of x, whose row stride is 1, change places from the last to the first. */
void shmt__swap_columns(shmt__matrix x, const int* pivots, int64_t item);

/* The triangle of a transposed matrix. */
static inline shmt__triangular shmt__triangular_transposed(shmt__triangular t) {
  return (shmt__triangular){shmt__matrix_transposed(t.a), !t.is_lower, t.is_unit, t.is_conjugated};
}

#endif
