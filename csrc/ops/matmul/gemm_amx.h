/* ops/matmul/gemm_amx.h -- products of bfloat16 matrices on AMX tiles, in one thread. */
#ifndef SHMT_OPS_MATMUL_GEMM_AMX_H
#define SHMT_OPS_MATMUL_GEMM_AMX_H

#include "ops/matmul/gemm.h"

/* Has the processor AMX for bfloat16, and may this process use it? The operating system is asked once. */
bool shmt__gemm_has_amx(void);

/* c = beta * c + alpha * a @ b for bfloat16, summed in float32. c has bfloat16, or float32 where is_wide, and
 * column_stride 1; nothing is empty. beta == 0 does not read c. Subnormal numbers count as 0. Only where
 * shmt__gemm_has_amx(). */
void shmt__gemm_amx(float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c, bool is_wide);

/* The parts of such a product, for kernels that make the left factor themselves (ops/conv/nhwc/amx.c).
 *
 * A strip is at most 32 rows of a. Element (i, k) is at data + k / 32 * step + i * row bytes + k % 32 elements; zeros
 * follow up to a multiple of 32 along k. Missing rows up to 16, or 32, are read, too. */
typedef struct shmt__amx_strip {
  const char* data;
  int64_t row, step, rows;
} shmt__amx_strip;

/* Pack a panel of at most 32 columns of b: 512 words for each 32 rows, the last filled up with zeros. */
void shmt__amx_pack_panel(shmt__matrix b, uint32_t* to);
/* A thread multiplies between these two calls only; in between it must not wait. */
void shmt__amx_begin(void);
void shmt__amx_end(void);
/* sums (32 by 32, aligned to 64 bytes) = strip @ panel, or that is added to them, over n steps of 32 along k. Of a
 * strip of at most 16 rows, only 16 rows of sums. */
void shmt__amx_multiply(const shmt__amx_strip* a, const uint32_t* panel, int64_t n, float* sums, bool adds);

#endif
