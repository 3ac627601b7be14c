/* ops/matmul/gemm.h -- general matrix products (gemm), with a BLAS that is bound at run time.
 *
 * Note [One BLAS thread]
 * The BLAS library runs with one thread: with threads of its own, fork() hangs, and its jobs wait for each other.
 * shmt__gemm splits a large product into slices of rows or columns that never wait, and hands them to the threads of
 * iter/.
 *
 * Note [gemm dtypes]
 * float32 and float64 products of moderate size run on the panels of ops/matmul/gemm_panels.h. Others of these dtypes,
 * and those of complex64 and complex128, go to the BLAS library, or to the built-in loop when there is none. Integers
 * and bool use that loop. Products of 16-bit floats are summed in float32 and rounded once (ops/matmul/gemm_half.h,
 * ops/matmul/gemm_amx.h); shmt__dot needs them widened.
 */
#ifndef SHMT_OPS_MATMUL_GEMM_H
#define SHMT_OPS_MATMUL_GEMM_H

#include "base/error.h"
#include "base/types.h"

/* A matrix in memory: element (i, j) is at data + (i * row_stride + j * column_stride) * size. */
typedef struct shmt__matrix {
  char* data;
  int64_t rows, columns;
  int64_t row_stride, column_stride; /* elements */
} shmt__matrix;

static inline shmt__matrix shmt__matrix_transposed(shmt__matrix a) {
  return (shmt__matrix){a.data, a.columns, a.rows, a.column_stride, a.row_stride};
}

/* Can a BLAS read this layout: is one stride 1 and the other a valid leading dimension? shmt__gemm takes any strides,
 * but runs the built-in loop on others. */
bool shmt__matrix_is_blas(shmt__matrix a);

/* c = beta * c + alpha * a @ b. beta == 0 does not read c. Empty sizes are allowed.
 *
 * c must have column_stride 1 or row_stride 1, and must not overlap a or b. Cannot fail: sizes and strides above 2^31 -
 * 1, which the library does not take, go to the built-in loop. */
void shmt__gemm(shmt_dtype dtype, shmt_scalar alpha, shmt__matrix a, shmt__matrix b, shmt_scalar beta, shmt__matrix c);

/* c = a @ b, or c += a @ b, for bfloat16 factors and float32 sums. Only where shmt__gemm_has_amx(); nothing is empty, c
 * has column_stride 1 and does not overlap a or b. */
void shmt__gemm_bfloat16_float32(shmt__matrix a, shmt__matrix b, bool adds, shmt__matrix c);

/* n products of the same shape; the steps between matrices are in elements. The threads share out small products, and
 * split large ones one after the other. */
void shmt__gemm_batch(shmt_dtype dtype, int64_t n, shmt_scalar alpha, shmt__matrix a, int64_t a_step, shmt__matrix b,
                      int64_t b_step, shmt_scalar beta, shmt__matrix c, int64_t c_step);

/* sum of x[i] * y[i], or of conj(x[i]) * y[i], into *out (one element of dtype). Strides in elements. */
void shmt__dot(shmt_dtype dtype, bool conjugate, int64_t n, const char* x, int64_t x_stride, const char* y,
               int64_t y_stride, char* out);

/* Are there products of this dtype? */
bool shmt__gemm_has(shmt_dtype dtype);

#endif
