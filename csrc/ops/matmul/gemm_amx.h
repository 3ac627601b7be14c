/* ops/matmul/gemm_amx.h -- products of bfloat16 matrices by tiles (AMX), of one thread. */
#ifndef SHMT_OPS_MATMUL_GEMM_AMX_H
#define SHMT_OPS_MATMUL_GEMM_AMX_H

#include "ops/matmul/blas.h"

/* Has the processor tiles of bfloat16, and may this process use them? The kernel is asked once. */
bool shmt__gemm_has_amx(void);

/* c = beta * c + alpha * a @ b for bfloat16, summed in float32; c, of bfloat16 or (is_wide) of float32, has column_stride 1,
 * nothing is empty. beta == 0 does not read c. Subnormal numbers are taken for 0. Only where shmt__gemm_has_amx(). */
void shmt__gemm_amx(float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c, bool is_wide);

/* What such products are made of. A strip: at most 32 rows of a; its element (i, k) is at data + k / 32 * step + i * row bytes
 * + k % 32 elements, and behind k are zeros up to a multiple of 32. Those that are missing up to 16, or 32, are read, too. */
typedef struct shmt__amx_strip {
  const char* data;
  int64_t row, step, rows;
} shmt__amx_strip;

/* Pack at most 32 columns of b: 512 words for 32 rows, the last filled up with zeros. */
void shmt__amx_pack_panel(shmt__matrix b, uint32_t* to);
/* A thread multiplies between these two only; in between it does not wait. */
void shmt__amx_begin(void);
void shmt__amx_end(void);
/* sums (32 by 32, aligned to 64 bytes) = a strip with a panel, n steps of 32, or that is added to them; of a strip of at most
 * 16 rows only those. */
void shmt__amx_multiply(const shmt__amx_strip* a, const uint32_t* panel, int64_t n, float* sums, bool adds);

#endif
