/* ops/linalg/lu.h -- triangular factors with exchanged rows, by halves of the columns. */
#ifndef SHMT_OPS_LINALG_LU_H
#define SHMT_OPS_LINALG_LU_H

#include "ops/matmul/blas.h"

/* a, whose row stride is 1, becomes L below its diagonal and U, with pivots for every row of the smaller side, as
 * LAPACK's getrf leaves them; float32, float64, complex64 or complex128, sizes within an int. Returns its info: the
 * first zero on U's diagonal, counted from 1, or 0. */
int shmt__lu(shmt_dtype dtype, shmt__matrix a, int* pivots);

#endif
