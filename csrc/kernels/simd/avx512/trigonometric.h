/* kernels/simd/avx512/trigonometric.h -- sin, cos and tan of 512-bit vectors.
 *
 * x is rounded to a multiple of a 16th (doubles) or a 32nd (floats) of a turn. The multiple's sine and cosine (which is
 * the sine a quarter turn on) are looked up; two short polynomials are enough for the rest r. The rounding error of the
 * looked-up sine is added, so that results smaller than it are as exact. Large angles are reduced by the C library.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_TRIGONOMETRIC_H
#define SHMT_KERNELS_SIMD_AVX512_TRIGONOMETRIC_H

#include "kernels/simd/vmath_double.h"
#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/tables.h"

#if SHMT_HAS_AVX512
#include "kernels/simd/avx512/of_floats.h"
#include "kernels/simd/avx512/trigonometric.tmpl.h"

#include "kernels/simd/avx512/of_doubles.h"
#include "kernels/simd/avx512/trigonometric.tmpl.h"

#include "kernels/simd/avx512/of_neither.h"
#endif

#endif
