/* kernels/simd/exp_log.h -- exp and log in the compute type, float or double. */
#ifndef SHMT_KERNELS_SIMD_EXP_LOG_H
#define SHMT_KERNELS_SIMD_EXP_LOG_H

#include "kernels/simd/vmath.h"

#define SHMT_EXP(x) _Generic((x), float: shmt__expf, default: shmt__exp)(x)
#define SHMT_EXP_IN_RANGE(x) _Generic((x), float: shmt__exp_in_rangef, default: shmt__exp_in_range)(x)
/* log for loops that the compiler vectorises. */
#define SHMT_LOG_IN_LANES(x) _Generic((x), float: shmt__logf, default: shmt__log)(x)

#endif
