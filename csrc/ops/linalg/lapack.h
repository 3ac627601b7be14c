/* ops/linalg/lapack.h -- LAPACK routines, found at run time, and batches of column-major matrices for them.
 *
 * Note [Column major]
 * LAPACK works on columns. A batch is copied once into a tensor whose last two dims are column-major and whose batch
 * dims are dense. The routine overwrites this copy, which becomes the result and keeps its strides.
 */
#ifndef SHMT_OPS_LINALG_LAPACK_H
#define SHMT_OPS_LINALG_LAPACK_H

#include "ops/matmul/gemm.h"
#include "tensor/tensor.h"

/* name, routine for real dtypes, routine for complex ones; without the letter of the dtype. */
#define SHMT_LAPACK_ROUTINES(X)                                                                            \
  X(potrf, "potrf", "potrf") X(trtri, "trtri", "trtri")                                                    \
  X(geqrf, "geqrf", "geqrf") X(orgqr, "orgqr", "ungqr") X(ormqr, "ormqr", "unmqr")                         \
  X(syevd, "syevd", "heevd") X(geev, "geev", "geev") X(gesdd, "gesdd", "gesdd") X(sytrf, "sytrf", "sytrf") \
  X(hetrf, "sytrf", "hetrf") X(sytrs, "sytrs", "sytrs") X(hetrs, "sytrs", "hetrs")                         \
  X(gels, "gels", "gels") X(gelsy, "gelsy", "gelsy") X(gelsd, "gelsd", "gelsd") X(gelss, "gelss", "gelss") \
  X(geqrt3, "geqrt3", "geqrt3") X(larft, "larft", "larft") X(geqp3, "geqp3", "geqp3")                      \
  X(tzrzf, "tzrzf", "tzrzf") X(ormrz, "ormrz", "unmrz")

enum {
#define SHMT_LAPACK_ROW(NAME, REAL, COMPLEX) SHMT_LAPACK_##NAME,
  SHMT_LAPACK_ROUTINES(SHMT_LAPACK_ROW)
#undef SHMT_LAPACK_ROW
  SHMT_N_LAPACK
};

enum {
  SHMT_LAPACK_COLUMN_MAJOR = 102,
  SHMT_LAPACK_NO_WORK = -1010 /* LAPACKE's info when it has no memory for a workspace */
};

/* Types of LAPACKE's functions, named by the kinds of their arguments: i an int, c a letter, p an array. The first int
 * is the layout. */
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

/* Finds the routine for dtype. Errors: SHMT_E_RUNTIME when the library has none or there is no library. */
shmt_status shmt__lapack_find(int routine, shmt_dtype dtype, void** function);

/* c = a b + beta c, or beta c - a b when minus. adjoint: with the conjugate transpose of a. Column-major, one
 * thread. */
void shmt__lapack_gemm(shmt_dtype dtype, bool adjoint, int m, int n, int k, bool minus, const char* a, int lda,
                       const char* b, int ldb, double beta, char* c, int ldc);

/* The dtype of singular values and the like: float32 for complex64. */
static inline shmt_dtype shmt__real_dtype(shmt_dtype dtype) { return shmt__dtype_real[dtype]; }
static inline shmt_dtype shmt__complex_dtype(shmt_dtype dtype) {
  return dtype == SHMT_FLOAT32 ? SHMT_COMPLEX64 : dtype == SHMT_FLOAT64 ? SHMT_COMPLEX128 : dtype;
}

/* A batch of column-major matrices. */
typedef struct shmt__batch {
  char* data;
  int64_t n;             /* matrices */
  int64_t step;          /* bytes from one matrix to the next */
  int rows, columns, ld; /* of each matrix; ld, the leading dimension, is at least 1 */
} shmt__batch;

/* Describes the batch in t, whose last two dims are column-major. Errors: SHMT_E_RUNTIME when a dim is above 2^31 -
 * 1. */
shmt_status shmt__batch_of(const shmt_tensor* t, shmt__batch* out);
/* Makes a tensor of these sizes whose matrices are column-major. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__batch_empty(shmt_ints sizes, shmt_dtype dtype, shmt_device device, shmt_tensor** out);
/* Makes such a tensor with the values of t, broadcast to sizes. Errors: SHMT_E_NOMEM. */
shmt_status shmt__batch_copy(shmt_tensor* t, shmt_ints sizes, shmt_tensor** out);
/* Returns t itself when its matrices are column-major and dense already, otherwise such a copy. The result is only to
 * be read. New reference. Errors: SHMT_E_NOMEM. */
shmt_status shmt__batch_read(shmt_tensor* t, shmt_ints sizes, shmt_tensor** out);
/* A batch of matrices of any strides. */
typedef struct shmt__matrices {
  shmt__matrix first;
  int64_t step; /* bytes from one matrix to the next; may be 0 */
} shmt__matrices;
/* Describes the matrices of t, broadcast to the batch dims of sizes, without a copy if possible. Makes a column-major
 * copy when the matrices are not evenly apart, or when the BLAS must read them (for_blas) and cannot. holder: a new
 * reference to the owner of the matrices, which are only to be read. Errors: SHMT_E_RUNTIME when a dim is above 2^31
 * - 1. */
shmt_status shmt__batch_view(shmt_tensor* t, shmt_ints sizes, bool for_blas, shmt_tensor** holder, shmt__matrices* out);
/* Describes the matrices of a column-major batch. Errors: as above. */
shmt_status shmt__batch_matrices(const shmt_tensor* t, shmt__matrices* out);

/* Writes the sizes of t's batch dims, followed by n (0 to 2) of those given, into buf (room for SHMT_MAX_DIMS). */
shmt_ints shmt__batch_sizes(const shmt_tensor* t, int n, int64_t a, int64_t b, int64_t* buf);

/* A function that does matrix i of a batch and returns LAPACK's info. */
typedef int (*shmt__batch_fn)(void* ctx, int64_t i);
/* Sets infos[i] = one(ctx, i) for every matrix of a batch. Uses several threads when work (multiplications per matrix)
 * is large. Errors: SHMT_E_NOMEM when a routine could not get its workspace. */
shmt_status shmt__batch_run(int64_t n, double work, shmt__batch_fn one, void* ctx, int* infos);

/* The same for routines that treat the columns (or rows) of a matrix as independent problems: one(ctx, i, begin, end)
 * does columns begin to end of matrix i, of `count`. Its infos are ignored, except that of a missing workspace. */
typedef int (*shmt__batch_columns_fn)(void* ctx, int64_t i, int begin, int end);
shmt_status shmt__batch_run_columns(int64_t n, int count, double work, shmt__batch_columns_fn one, void* ctx);

/* Overwrites reflectors with their product. q is a column-major batch; tau is dense and has q's dtype. Errors: those of
 * shmt__batch_of and shmt__batch_run. */
shmt_status shmt__householder_product_inplace(shmt_tensor* q, shmt_tensor* tau);

/* --- checks, with torch's texts --------------------------------------------------------------- */

/* Checks for at least two dims. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__check_matrix(const char* name, const char* argument, const shmt_tensor* t);
/* Checks for square matrices. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__check_square(const char* name, const char* argument, const shmt_tensor* t);
/* Checks for float32, float64, complex64 or complex128. Errors: SHMT_E_RUNTIME. */
shmt_status shmt__check_lapack_dtype(const char* name, const shmt_tensor* t);
/* Checks the same, for operators that torch refuses when it calls the routine. Errors: SHMT_E_NOT_IMPLEMENTED. */
shmt_status shmt__check_lapack_routine(const char* routine, const shmt_tensor* t);
/* Checks the same, unless there are no elements: then no routine is called, and any dtype is fine. */
shmt_status shmt__check_lapack_work(const char* routine, const shmt_tensor* t);
/* Copies the pivots, broadcast to sizes, into *out. LAPACK follows pivots that are not positions from 1 to n to
 * wherever they lead. So the copy is checked, which no other process can change afterwards. Errors: SHMT_E_RUNTIME. New
 * reference. */
shmt_status shmt__own_pivots(const char* name, shmt_tensor* pivots, shmt_ints sizes, int64_t n, shmt_tensor** out);
/* Errors: SHMT_E_LINALG, with torch's text, for the first info that is not 0. */
shmt_status shmt__check_infos(const char* name, const int* infos, int64_t n, bool is_batch);

#endif
