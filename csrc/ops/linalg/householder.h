/* ops/linalg/householder.h -- LAPACK's geqrf, orgqr and ormqr, divided between threads.
 *
 * Note [Blocks of reflectors]
 * LAPACK's Householder reflectors are I - tau v v^H, one for each column, with v below the diagonal. Some tens of them
 * together are I - V T V^H with a triangular T: a few products of matrices, whose columns do not depend on each other.
 * LAPACK's own routines do the same with one thread, and with triangular products, which are slower than general ones.
 */
#ifndef SHMT_OPS_LINALG_HOUSEHOLDER_H
#define SHMT_OPS_LINALG_HOUSEHOLDER_H

#include "base/error.h"
#include "base/types.h"

/* LAPACK's routines for a dtype. */
typedef struct shmt__householder {
  shmt_dtype dtype;
  void *geqrt3, *larft, *geqrf, *orgqr;
} shmt__householder;

/* Finds the routines. Errors: SHMT_E_RUNTIME when there is no LAPACK library. */
shmt_status shmt__householder_find(shmt_dtype dtype, shmt__householder* out);

/* All matrices are column-major; lda and ldc are leading dimensions. The functions return 0, or LAPACK's negative info,
 * for example when there is no memory for a workspace. */

/* Factors a (m x n): it becomes R on and above the diagonal, and below it the vectors of min(m, n) reflectors. tau gets
 * their factors. */
int shmt__householder_geqrf(const shmt__householder* h, int m, int n, char* a, int lda, char* tau);
/* Turns a (m x n), with k reflectors in its first columns, into the first n columns of their product. k <= n <= m. */
int shmt__householder_orgqr(const shmt__householder* h, int m, int n, int k, char* a, int lda, const char* tau);
/* Turns c (m x n) into Q c, or Q^H c when adjoint. Q is the product of the k reflectors in a (m x at least k). */
int shmt__householder_ormqr(const shmt__householder* h, bool adjoint, int m, int n, int k, const char* a, int lda,
                            const char* tau, char* c, int ldc);

#endif
