/* kernels/simd/exp_log.h -- exp and log of what a dtype is calculated in: float or double. */
#ifndef SHMT_KERNELS_SIMD_EXP_LOG_H
#define SHMT_KERNELS_SIMD_EXP_LOG_H

#include "kernels/simd/vmath.h"

#define SHMT_EXP(x) _Generic((x), float: shmt__expf, default: shmt__exp)(x)
/* For loops that the compiler makes vectors of. */
#define SHMT_LOG_IN_LANES(x) _Generic((x), float: shmt__logf, default: shmt__log)(x)

#endif
