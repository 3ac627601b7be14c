/* ops/linalg/householder.h -- orthogonal factors by blocks of reflections, shared out over the pool.
 *
 * Note [Blocks of reflections]
 * LAPACK's reflections are I - tau v v^H, one for each column, with v below the diagonal. Some tens of them together
 * are I - V T V^H with T triangular: a few products of matrices, whose columns need nothing of each other. LAPACK's
 * own routines do the same with one thread and with triangular products, which are slower than general ones.
 */
#ifndef SHMT_OPS_LINALG_HOUSEHOLDER_H
#define SHMT_OPS_LINALG_HOUSEHOLDER_H

#include "base/error.h"
#include "base/types.h"

/* The routines of a dtype. */
typedef struct shmt__householder {
  shmt_dtype dtype;
  void *geqrt3, *larft, *geqrf, *orgqr;
} shmt__householder;

/* Errors: SHMT_E_RUNTIME when there is no LAPACK library. */
shmt_status shmt__householder_find(shmt_dtype dtype, shmt__householder* out);

/* All matrices are column-major; lda and so on are the elements from column to column. They return 0, or LAPACK's
 * negative info; that of a workspace that could not be had among them. */

/* a (m x n) becomes R on and above the diagonal and the vectors of min(m, n) reflections below; tau their factors. */
int shmt__householder_geqrf(const shmt__householder* h, int m, int n, char* a, int lda, char* tau);
/* a (m x n), with k reflections in its first columns, becomes the first n columns of their product. k <= n <= m. */
int shmt__householder_orgqr(const shmt__householder* h, int m, int n, int k, char* a, int lda, const char* tau);
/* c (m x n) becomes Q c, or Q^H c where adjoint, for the product Q of the k reflections in a (m x at least k). */
int shmt__householder_ormqr(const shmt__householder* h, bool adjoint, int m, int n, int k, const char* a, int lda,
                            const char* tau, char* c, int ldc);

#endif
