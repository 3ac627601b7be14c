/* kernels/simd/exp_log.h -- exp and log in the compute type, float or double. */
#ifndef SHMT_KERNELS_SIMD_EXP_LOG_H
#define SHMT_KERNELS_SIMD_EXP_LOG_H

#include "kernels/simd/vmath.h"

#define SHMT_EXP(x) _Generic((x), float: shmt__expf, default: shmt__exp)(x)
/* The least number of type C whose exponential is a normal number. */
#define SHMT_LEAST_NORMAL_EXPONENT(C) (sizeof(C) == sizeof(float) ? (C)-87.33654f : (C)-708.3964185322641)
/* log for loops that the compiler vectorises. */
#define SHMT_LOG_IN_LANES(x) _Generic((x), float: shmt__logf, default: shmt__log)(x)

#endif
