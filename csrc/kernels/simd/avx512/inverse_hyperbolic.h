/* kernels/simd/avx512/inverse_hyperbolic.h -- inverse hyperbolic functions of 512-bit vectors, all by log(1 + x). */
#ifndef SHMT_KERNELS_SIMD_AVX512_INVERSE_HYPERBOLIC_H
#define SHMT_KERNELS_SIMD_AVX512_INVERSE_HYPERBOLIC_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/log.h"
#include "kernels/simd/avx512/rsqrt_hypot.h"

#if SHMT_HAS_AVX512
#include "kernels/simd/avx512/of_floats.h"
#include "kernels/simd/avx512/inverse_hyperbolic.tmpl.h"

#include "kernels/simd/avx512/of_doubles.h"
#include "kernels/simd/avx512/inverse_hyperbolic.tmpl.h"

#include "kernels/simd/avx512/of_neither.h"
#endif

#endif
