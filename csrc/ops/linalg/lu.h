/* ops/linalg/lu.h -- LU factors with row pivoting: LAPACK's getrf, divided between threads. */
#ifndef SHMT_OPS_LINALG_LU_H
#define SHMT_OPS_LINALG_LU_H

#include "ops/matmul/gemm.h"

/* Factors a, whose row stride is 1: it becomes L below its diagonal and U. pivots gets one for every row of the smaller
 * side, as LAPACK's getrf leaves them. dtype: float32, float64, complex64 or complex128; sizes fit an int. Returns
 * getrf's info: the first zero on U's diagonal, counted from 1, or 0. */
int shmt__lu(shmt_dtype dtype, shmt__matrix a, int* pivots);

#endif
