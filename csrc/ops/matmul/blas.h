/* ops/matmul/blas.h -- general matrix products over an external BLAS bound at run time.
 *
 * Note [One BLAS thread]
 * The library runs with one thread: its own threads hang fork(), and its jobs wait for each other.
 * shmt__gemm splits a large product into slices of rows or columns that never wait, and hands them to
 * the pool of iter/.
 *
 * Note [Dtypes]
 * Moderate products of float32 and float64 go by panels of our own (ops/matmul/gemm_panels.h), others of these and of complex64
 * and complex128 to the library (or the built-in loop when there is none); integers and bool use that loop. Products of
 * 16-bit floats are summed in float32 and rounded once (ops/matmul/gemm_half.h, ops/matmul/gemm_amx.h); shmt__dot wants them widened.
 */
#ifndef SHMT_OPS_MATMUL_BLAS_H
#define SHMT_OPS_MATMUL_BLAS_H

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

/* Can the BLAS read this layout as it is (one stride 1, the other long enough)? The product itself takes any
 * strides, but the others run on the built-in loop. */
bool shmt__matrix_is_blas(shmt__matrix a);

/* c = beta * c + alpha * a @ b. beta == 0 does not read c. Empty sizes are right.
 *
 * c must have column_stride 1 or row_stride 1; no overlap with a or b. Cannot fail: sizes and strides above 2^31 - 1, which
 * the library does not take, are for the built-in loop. */
void shmt__gemm(shmt_dtype dtype, shmt_scalar alpha, shmt__matrix a, shmt__matrix b, shmt_scalar beta, shmt__matrix c);

/* c = a @ b, or that is added to c: bfloat16 factors, float32 sums. Only where shmt__gemm_has_amx(); nothing is empty, c
 * has column_stride 1 and no overlap with a or b. */
void shmt__gemm_bfloat16_float32(shmt__matrix a, shmt__matrix b, bool adds, shmt__matrix c);

/* n products of the same shape; the strides between them are in elements. Small ones are shared out
 * over the pool, large ones are split one after the other. */
void shmt__gemm_batch(shmt_dtype dtype, int64_t n, shmt_scalar alpha, shmt__matrix a, int64_t a_step, shmt__matrix b,
                      int64_t b_step, shmt_scalar beta, shmt__matrix c, int64_t c_step);

/* sum of x[i] * y[i], or of conj(x[i]) * y[i], into *out (one element of dtype). Strides in elements. */
void shmt__dot(shmt_dtype dtype, bool conjugate, int64_t n, const char* x, int64_t x_stride, const char* y,
               int64_t y_stride, char* out);

/* Does the product of this dtype have a loop at all? */
bool shmt__gemm_has(shmt_dtype dtype);

#endif
