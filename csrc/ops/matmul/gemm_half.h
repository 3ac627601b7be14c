/* ops/matmul/gemm_half.h -- products of matrices of 16-bit floats, summed in float32, in one thread. */
#ifndef SHMT_OPS_MATMUL_GEMM_HALF_H
#define SHMT_OPS_MATMUL_GEMM_HALF_H

#include "base/sizes.h"
#include "ops/matmul/gemm.h"

/* The part of a matrix of 16-bit elements from (row, column) on, of at most so many rows and columns. */
static inline shmt__matrix shmt__matrix16_block(shmt__matrix m, int64_t row, int64_t rows, int64_t column,
                                                int64_t columns) {
  enum { ITEM = 2 };
  m.data += (row * m.row_stride + column * m.column_stride) * ITEM;
  m.rows = shmt__min_i64(rows, m.rows - row);
  m.columns = shmt__min_i64(columns, m.columns - column);
  return m;
}

/* c = beta * c + alpha * a @ b for float16 or bfloat16, each element rounded once; c has column_stride 1, nothing is
 * empty. beta == 0 does not read c. False: not done (no library, or no memory), c is untouched. */
bool shmt__gemm_half(shmt_dtype dtype, float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c);

/* Has the processor AVX-512, and may this process use it? */
bool shmt__gemm_has_widened(void);

/* The same by AVX-512; only where shmt__gemm_has_widened(). */
void shmt__gemm_widened(shmt_dtype dtype, float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c);

/* Does the processor multiply bfloat16 by itself (AVX512_BF16), and may this process use that? */
bool shmt__gemm_has_bfloat16(void);

/* The same by the processor's own instruction, which takes subnormal numbers for 0; only where
 * shmt__gemm_has_bfloat16(). False: no memory, c is untouched. */
bool shmt__gemm_bfloat16(float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c);

#endif
