/* kernels/simd/avx512/inverse_trigonometric.h -- asin, acos, atan and atan2 of 512-bit vectors.
 *
 * For atan(low / high), low <= high, the first 14 bits of the quotient tell which multiple of 1/15 (doubles) or 1/31
 * (floats) it is near. The tangent t at that place and its angle are looked up. The rest is
 * atan((low - t high) / (high + t low)): one division and few terms of the series.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_INVERSE_TRIGONOMETRIC_H
#define SHMT_KERNELS_SIMD_AVX512_INVERSE_TRIGONOMETRIC_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/rsqrt_hypot.h"
#include "kernels/simd/avx512/tables.h"

#if SHMT_HAS_AVX512
#include "kernels/simd/avx512/of_floats.h"
#include "kernels/simd/avx512/inverse_trigonometric.tmpl.h"

#include "kernels/simd/avx512/of_doubles.h"
#include "kernels/simd/avx512/inverse_trigonometric.tmpl.h"

#include "kernels/simd/avx512/of_neither.h"
#endif

#endif
