/* ops/gemm_tiles.h -- products of bfloat16 matrices by tiles (AMX), of one thread. */
#ifndef SHMT_OPS_GEMM_TILES_H
#define SHMT_OPS_GEMM_TILES_H

#include "ops/blas.h"

/* Has the processor tiles of bfloat16, and may this process use them? The kernel is asked once. */
bool shmt__gemm_has_tiles(void);

/* c = beta * c + alpha * a @ b for bfloat16, summed in float32; c, of bfloat16 or (is_wide) of float32, has column_stride 1,
 * nothing is empty. beta == 0 does not read c. Subnormal numbers are taken for 0. Only where shmt__gemm_has_tiles(). */
void shmt__gemm_tiles(float alpha, shmt__matrix a, shmt__matrix b, float beta, shmt__matrix c, bool is_wide);

#endif
