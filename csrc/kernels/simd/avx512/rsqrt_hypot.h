/* kernels/simd/avx512/rsqrt_hypot.h -- rsqrt, sqrt and hypot of 512-bit vectors, by Newton's method from 14 bits.
 *
 * The square root and division instructions are slow; this takes a third of their time. Doubles take one step more than
 * floats.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_RSQRT_HYPOT_H
#define SHMT_KERNELS_SIMD_AVX512_RSQRT_HYPOT_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/exp.h"

#if SHMT_HAS_AVX512
#include "kernels/simd/avx512/of_floats.h"
#include "kernels/simd/avx512/rsqrt_hypot.tmpl.h"

#include "kernels/simd/avx512/of_doubles.h"
#include "kernels/simd/avx512/rsqrt_hypot.tmpl.h"

#include "kernels/simd/avx512/of_neither.h"

/* rsqrt. For 0 and infinity the first estimate is the result, and Newton's step must not change it. */
SHMT_VECTOR shmt__f512 shmt__avx512_rsqrtf(shmt__f512 x) {
  const shmt__f512 y = _mm512_rsqrt14_ps(x), e = shmt__avx512_missingf(x, y);
  return _mm512_mask3_fmadd_ps(y * shmt__avx512_f(0.5f), e, y, _mm512_cmp_ps_mask(e, e, _CMP_ORD_Q));
}
SHMT_VECTOR shmt__d512 shmt__avx512_rsqrt(shmt__d512 x) {
  const shmt__d512 y = shmt__avx512_rsqrt_near(x), e = shmt__avx512_missing(x, y);
  const shmt__d512 better = shmt__avx512_madd(y * shmt__avx512_d(0.5), e, y);
  return _mm512_mask_mov_pd(_mm512_rsqrt14_pd(x), _mm512_cmp_pd_mask(better, better, _CMP_ORD_Q), better);
}

/* sqrt(x), correctly rounded. The last Newton step, from an almost exact root and half its reciprocal, leaves a
 * relative error of about 2^-102 for doubles. Only few roots lie that near to the middle of two doubles; their rounding
 * was checked, and that of every float. Numbers whose remainder would be subnormal or undefined use the instruction. */
SHMT_VECTOR shmt__f512 shmt__avx512_sqrtf(shmt__f512 x) {
  const shmt__f512 y = _mm512_rsqrt14_ps(x), half = shmt__avx512_f(0.5f), g = x * y, h = y * half;
  const shmt__f512 e = shmt__avx512_nmaddf(g, h, half), root = shmt__avx512_maddf(g, e, g),
                   by = shmt__avx512_maddf(h, e, h);
  const __m512i above = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_castps_si512(shmt__avx512_f(0x1p-60f)));
  const __mmask16 is_rare = _mm512_cmpge_epu32_mask(above, _mm512_set1_epi32(186 << 23));
  const shmt__f512 z = shmt__avx512_maddf(shmt__avx512_nmaddf(root, root, x), by, root);
  return __builtin_expect(is_rare != 0, 0) ? _mm512_mask_sqrt_ps(z, is_rare, x) : z;
}
SHMT_VECTOR shmt__d512 shmt__avx512_sqrt(shmt__d512 x) {
  const shmt__d512 y = _mm512_rsqrt14_pd(x), half = shmt__avx512_d(0.5), g = x * y, h = y * half;
  const shmt__d512 e = shmt__avx512_nmadd(g, h, half), g2 = shmt__avx512_madd(g, e, g), h2 = shmt__avx512_madd(h, e, h);
  const shmt__d512 e2 = shmt__avx512_nmadd(g2, h2, half), root = shmt__avx512_madd(g2, e2, g2),
                   by = shmt__avx512_madd(h2, e2, h2);
  const __m512i above = _mm512_sub_epi64(_mm512_castpd_si512(x), _mm512_castpd_si512(shmt__avx512_d(0x1p-800)));
  const __mmask8 is_rare = _mm512_cmpge_epu64_mask(above, _mm512_set1_epi64(INT64_C(1600) << 52));
  const shmt__d512 z = shmt__avx512_madd(shmt__avx512_nmadd(root, root, x), by, root);
  return __builtin_expect(is_rare != 0, 0) ? _mm512_mask_sqrt_pd(z, is_rare, x) : z;
}
#endif

#endif
