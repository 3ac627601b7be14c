/* ops/linalg/lapack.h -- LAPACK routines bound at run time, and batches of column-major matrices for them.
 *
 * Note [Column major]
 * LAPACK works on columns. A batch is copied once into a tensor whose last two dims are column-major and whose
 * batch dims are dense; the routine overwrites it, and the result is that tensor, with those strides.
 */
#ifndef SHMT_OPS_LINALG_LAPACK_H
#define SHMT_OPS_LINALG_LAPACK_H

#include "ops/matmul/blas.h"
#include "tensor/tensor.h"

/* name, routine for real dtypes, routine for complex ones; without the letter of the dtype. */
#define SHMT_LAPACK_ROUTINES(X)                                                                                \
  X(potrf, "potrf", "potrf") X(trtri, "trtri", "trtri") \
  X(geqrf, "geqrf", "geqrf") X(orgqr, "orgqr", "ungqr") X(ormqr, "ormqr", "unmqr") \
  X(syevd, "syevd", "heevd") X(geev, "geev", "geev") X(gesdd, "gesdd", "gesdd") X(sytrf, "sytrf", "sytrf")    \
  X(hetrf, "sytrf", "hetrf") X(sytrs, "sytrs", "sytrs") X(hetrs, "sytrs", "hetrs")    \
  X(gels, "gels", "gels") X(gelsy, "gelsy", "gelsy") X(gelsd, "gelsd", "gelsd") X(gelss, "gelss", "gelss")    \
  X(geqrt3, "geqrt3", "geqrt3") X(larft, "larft", "larft") X(geqp3, "geqp3", "geqp3")    \
  X(tzrzf, "tzrzf", "tzrzf") X(ormrz, "ormrz", "unmrz")

enum {
#define SHMT_LAPACK_ROW(NAME, REAL, COMPLEX) SHMT_LAPACK_##NAME,
  SHMT_LAPACK_ROUTINES(SHMT_LAPACK_ROW)
#undef SHMT_LAPACK_ROW
  SHMT_N_LAPACK
};

enum {
  SHMT_LAPACK_COLUMN_MAJOR = 102,
  SHMT_LAPACK_NO_WORK = -1010 /* the info of a workspace that could not be had */
};

/* LAPACKE's functions by the kinds of their arguments: i an int, c a letter, p an array; the first int is the layout. */
typedef int (*shmt__lapack_cipi)(int, char, int, void*, int);
typedef int (*shmt__lapack_ccipi)(int, char, char, int, void*, int);
typedef int (*shmt__lapack_cipip)(int, char, int, void*, int, void*);
typedef int (*shmt__lapack_ciipippi)(int, char, int, int, const void*, int, const int*, void*, int);
typedef int (*shmt__lapack_iipip)(int, int, int, void*, int, void*);
typedef int (*shmt__lapack_iipipi)(int, int, int, void*, int, void*, int);
typedef int (*shmt__lapack_iipipp)(int, int, int, void*, int, int*, void*);
typedef int (*shmt__lapack_larft)(int, char, char, int, int, const void*, int, const void*, void*, int);
typedef int (*shmt__lapack_iiipip)(int, int, int, int, void*, int, const void*);
typedef int (*shmt__lapack_cciiipippi)(int, char, char, int, int, int, const void*, int, const void*, void*, int);
typedef int (*shmt__lapack_ormrz)(int, char, char, int, int, int, int, const void*, int, const void*, void*, int);
typedef int (*shmt__lapack_ccipip)(int, char, char, int, void*, int, void*);
typedef int (*shmt__lapack_geev_real)(int, char, char, int, void*, int, void*, void*, void*, int, void*, int);
typedef int (*shmt__lapack_geev_complex)(int, char, char, int, void*, int, void*, void*, int, void*, int);
typedef int (*shmt__lapack_ciipippipi)(int, char, int, int, void*, int, void*, void*, int, void*, int);
typedef int (*shmt__lapack_ciiipipi)(int, char, int, int, int, void*, int, void*, int);
typedef int (*shmt__lapack_gels_float)(int, int, int, int, void*, int, void*, int, void*, float, int*);
typedef int (*shmt__lapack_gels_double)(int, int, int, int, void*, int, void*, int, void*, double, int*);

/* The routine for dtype. Errors: SHMT_E_RUNTIME when the library has none or there is no library. */
shmt_status shmt__lapack_find(int routine, shmt_dtype dtype, void** function);

/* c = a b + beta c, or beta c - a b where minus; the conjugate transpose of a where adjoint. Column-major, one thread. */
void shmt__lapack_gemm(shmt_dtype dtype, bool adjoint, int m, int n, int k, bool minus, const char* a, int lda,
                       const char* b, int ldb, double beta, char* c, int ldc);

/* The dtype of singular values and the like: float32 for complex64. */
static inline shmt_dtype shmt__real_dtype(shmt_dtype dtype) { return shmt__dtype_real[dtype]; }
static inline shmt_dtype shmt__complex_dtype(shmt_dtype dtype) {
  return dtype == SHMT_FLOAT32 ? SHMT_COMPLEX64 : dtype == SHMT_FLOAT64 ? SHMT_COMPLEX128 : dtype;
}

/* A batch of matrices, or of vectors when it was made from a tensor with is_vector. */
typedef struct shmt__batch {
  char* data;
  int64_t n;             /* matrices */
  int64_t step;          /* bytes from one to the next */
  int rows, columns, ld; /* of each; ld at least 1 */
} shmt__batch;

/* The batch in t, whose last two dims are column-major. Errors: SHMT_E_RUNTIME when a dim is above 2^31 - 1. */
shmt_status shmt__batch_of(const shmt_tensor* t, shmt__batch* out);
/* A new tensor of those sizes whose matrices are column-major. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__batch_empty(shmt_ints sizes, shmt_dtype dtype, shmt_device device, shmt_tensor** out);
/* The same with the values of t, broadcast to sizes. Errors: SHMT_E_NOMEM. */
shmt_status shmt__batch_copy(shmt_tensor* t, shmt_ints sizes, shmt_tensor** out);
/* t itself where it lies like that already, otherwise such a copy; only to be read. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__batch_read(shmt_tensor* t, shmt_ints sizes, shmt_tensor** out);
/* A batch of matrices of any strides. */
typedef struct shmt__matrices {
  shmt__matrix first;
  int64_t step; /* bytes from one to the next; may be 0 */
} shmt__matrices;
/* The matrices of t, spread to the batch dims of sizes, where they lie; a column-major copy where there is no one step
 * between them, or where the BLAS must read them (for_blas) and cannot. holder: what owns them, a new reference; only
 * to be read. Errors: SHMT_E_RUNTIME when a dim is above 2^31 - 1. */
shmt_status shmt__batch_view(shmt_tensor* t, shmt_ints sizes, bool for_blas, shmt_tensor** holder, shmt__matrices* out);
/* The matrices of a column-major batch. Errors: as above. */
shmt_status shmt__batch_matrices(const shmt_tensor* t, shmt__matrices* out);

/* sizes of t's batch dims followed by those given, into buf (room for SHMT_MAX_DIMS). n: 0 to 2 of them. */
shmt_ints shmt__batch_sizes(const shmt_tensor* t, int n, int64_t a, int64_t b, int64_t* buf);

/* one(ctx, i) for every matrix of a batch, over several threads when work (multiplications per matrix) is large.
 * Returns what one returned first that is not SHMT_OK. */
typedef int (*shmt__batch_fn)(void* ctx, int64_t i);
/* infos[i] = one(ctx, i). Errors: SHMT_E_NOMEM when a routine could not get its workspace. */
shmt_status shmt__batch_run(int64_t n, double work, shmt__batch_fn one, void* ctx, int* infos);

/* The same for routines to which the columns (or rows) of a matrix are independent problems: one(ctx, i, begin, end)
 * does those of matrix i, which count are there of. Its infos other than the workspace's are ignored. */
typedef int (*shmt__batch_columns_fn)(void* ctx, int64_t i, int begin, int end);
shmt_status shmt__batch_run_columns(int64_t n, int count, double work, shmt__batch_columns_fn one, void* ctx);

/* The product of reflections, over the reflections: q is such a batch, tau dense and of q's dtype. Errors: those of _batch_of and _batch_run. */
shmt_status shmt__householder_product_inplace(shmt_tensor* q, shmt_tensor* tau);

/* --- checks, with torch's texts --------------------------------------------------------------- */

/* At least two dims. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__check_matrix(const char* name, const char* argument, const shmt_tensor* t);
/* Square matrices. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__check_square(const char* name, const char* argument, const shmt_tensor* t);
/* Floating point or complex. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__check_float_dtype(const char* name, const shmt_tensor* t);
/* float32, float64, complex64 or complex128. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__check_lapack_dtype(const char* name, const shmt_tensor* t);
/* The same where torch finds out at the routine. Errors: SHMT_E_NOT_IMPLEMENTED. */
shmt_status shmt__check_lapack_routine(const char* routine, const shmt_tensor* t);
/* The same where no routine is called for nothing: tensors without elements may have any dtype. */
shmt_status shmt__check_lapack_work(const char* routine, const shmt_tensor* t);
/* *out is a copy of the pivots, spread to sizes. Pivots are positions from 1 to n, and LAPACK would follow any that are
 * not: the copy is checked, which no other process can change afterwards. Errors: SHMT_E_RUNTIME. New reference. */
shmt_status shmt__own_pivots(const char* name, shmt_tensor* pivots, shmt_ints sizes, int64_t n, shmt_tensor** out);
/* Errors: SHMT_E_LINALG with torch's text for the first info that is not 0. */
shmt_status shmt__check_infos(const char* name, const int* infos, int64_t n, bool is_batch);

#endif
