/* ops/linalg/lstsq_qr.h -- least squares of one matrix by its QR factors, divided between threads.
 *
 * These are the same steps as those of LAPACK's drivers gels and gelsy, which run with one thread. They are for
 * matrices that need no scaling.
 */
#ifndef SHMT_OPS_LINALG_LSTSQ_QR_H
#define SHMT_OPS_LINALG_LSTSQ_QR_H

#include "ops/linalg/householder.h"

/* LAPACK's routines for a dtype. */
typedef struct shmt__lstsq_qr {
  shmt__householder householder;
  void *geqp3, *tzrzf, *ormrz, *laic1;
} shmt__lstsq_qr;

/* Finds the routines. *is_there becomes false when the library lacks one of them. Errors: SHMT_E_RUNTIME when there is
 * no LAPACK library. */
shmt_status shmt__lstsq_qr_find(shmt_dtype dtype, shmt__lstsq_qr* out, bool* is_there);

/* Both overwrite column-major a (m x n) and b (max(m, n) x columns); the first n rows of b become the solution. They
 * return LAPACK's info: negative when there is no memory for a workspace, positive for the first zero on R's
 * diagonal. */

/* For m >= n and full rank. */
int shmt__lstsq_gels(const shmt__lstsq_qr* s, int m, int n, int columns, char* a, int lda, char* b, int ldb);
/* The solution of least norm. Singular values of the factor below rcond times the largest count as zero. */
int shmt__lstsq_gelsy(const shmt__lstsq_qr* s, int m, int n, int columns, char* a, int lda, char* b,
                      int ldb, double rcond, int64_t* rank);

#endif
