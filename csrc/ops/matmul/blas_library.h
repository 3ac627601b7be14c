/* ops/matmul/blas_library.h -- the table of BLAS functions bound with dlopen. */
#ifndef SHMT_OPS_MATMUL_BLAS_LIBRARY_H
#define SHMT_OPS_MATMUL_BLAS_LIBRARY_H

#include "base/types.h"

/* CBLAS codes. */
enum { SHMT_BLAS_ROW_MAJOR = 101, SHMT_BLAS_NO_TRANS = 111, SHMT_BLAS_TRANS = 112 };

typedef void (*shmt__sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha, const void* a, int lda,
                               const void* b, int ldb, float beta, void* c, int ldc);
typedef void (*shmt__dgemm_fn)(int order, int ta, int tb, int m, int n, int k, double alpha, const void* a, int lda,
                               const void* b, int ldb, double beta, void* c, int ldc);
typedef void (*shmt__cgemm_fn)(int order, int ta, int tb, int m, int n, int k, const void* alpha, const void* a,
                               int lda, const void* b, int ldb, const void* beta, void* c, int ldc);
typedef void (*shmt__sgemv_fn)(int order, int ta, int m, int n, float alpha, const void* a, int lda, const void* x,
                               int incx, float beta, void* y, int incy);
typedef void (*shmt__dgemv_fn)(int order, int ta, int m, int n, double alpha, const void* a, int lda, const void* x,
                               int incx, double beta, void* y, int incy);
typedef float (*shmt__sdot_fn)(int n, const void* x, int incx, const void* y, int incy);
typedef double (*shmt__ddot_fn)(int n, const void* x, int incx, const void* y, int incy);
typedef void (*shmt__cdot_fn)(int n, const void* x, int incx, const void* y, int incy, void* out);

typedef struct shmt__blas_table {
  bool loaded; /* false: no library was found, use the built-in loops */
  shmt__sgemm_fn sgemm;
  shmt__dgemm_fn dgemm;
  shmt__cgemm_fn cgemm, zgemm;
  shmt__sgemv_fn sgemv;
  shmt__dgemv_fn dgemv;
  shmt__sdot_fn sdot;
  shmt__ddot_fn ddot;
  shmt__cdot_fn cdotu, cdotc, zdotu, zdotc;
} shmt__blas_table;

/* The table; loads the library at the first call, once per process. */
const shmt__blas_table* shmt__blas(void);
/* The address of another function of the loaded library by its CBLAS/LAPACK name without prefix; NULL when absent. */
void* shmt__blas_symbol(const char* name);

#endif
