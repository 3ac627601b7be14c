/* ops/matmul/gemm_half.h -- products of matrices of 16-bit floats, summed in float32, in one thread. */
#ifndef SHMT_OPS_MATMUL_GEMM_HALF_H
#define SHMT_OPS_MATMUL_GEMM_HALF_H

#include "ops/matmul/gemm.h"

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
