/* ops/matmul/gemm_panels.h -- products of matrices of moderate size, in one thread. */
#ifndef SHMT_OPS_MATMUL_GEMM_PANELS_H
#define SHMT_OPS_MATMUL_GEMM_PANELS_H

#include "ops/matmul/gemm.h"

/* Is shmt__gemm_panels() faster for a @ b than the BLAS library? item: bytes of an element. */
bool shmt__gemm_prefers_panels(shmt__matrix a, shmt__matrix b, int64_t item);

/* c = beta * c + alpha * a @ b for float32, float64 and int64; alpha and beta point to elements of that dtype. a and b
 * have any strides; c has column_stride 1 and does not overlap them; nothing is empty. beta_is_zero: c is not read. */
void shmt__gemm_panels(shmt_dtype dtype, const void* alpha, shmt__matrix a, shmt__matrix b, const void* beta,
                       bool beta_is_zero, shmt__matrix c);

#endif
