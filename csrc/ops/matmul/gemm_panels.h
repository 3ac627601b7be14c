/* ops/matmul/gemm_panels.h -- products of matrices of moderate size, of one thread. */
#ifndef SHMT_OPS_MATMUL_GEMM_PANELS_H
#define SHMT_OPS_MATMUL_GEMM_PANELS_H

#include "ops/matmul/blas.h"

/* Is a @ b sooner made here than by the library? item: the bytes of an element. */
bool shmt__gemm_prefers_panels(shmt__matrix a, shmt__matrix b, int64_t item);

/* c = beta * c + alpha * a @ b for float32 and float64, with factors of that dtype; c has column_stride 1 and no overlap with
 * a or b, which have any strides; nothing is empty. beta_is_zero: c is not read. */
void shmt__gemm_panels(shmt_dtype dtype, const void* alpha, shmt__matrix a, shmt__matrix b, const void* beta,
                       bool beta_is_zero, shmt__matrix c);

#endif
