/* kernels/simd/avx512/rsqrt_hypot.h -- rsqrt, sqrt and hypot of 512-bit vectors, by Newton's method from 14 bits.
 *
 * The square root and division instructions are slow; this takes a third of their time.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_RSQRT_HYPOT_H
#define SHMT_KERNELS_SIMD_AVX512_RSQRT_HYPOT_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/exp.h"

#if SHMT_HAS_AVX512

/* For y near 1 / sqrt(x): how far x y^2 is from 1. */
SHMT_VECTOR shmt__f512 shmt__avx512_missingf(shmt__f512 x, shmt__f512 y) {
  return shmt__nmaddf(x * y, y, shmt__avx512_f(1.0f));
}
SHMT_VECTOR shmt__d512 shmt__avx512_missing(shmt__d512 x, shmt__d512 y) {
  return shmt__nmadd(x * y, y, shmt__avx512_d(1.0));
}
/* 1 / sqrt(x) with a relative error of about 2^-40. */
SHMT_VECTOR shmt__d512 shmt__avx512_rsqrt_near(shmt__d512 x) {
  const shmt__d512 y = _mm512_rsqrt14_pd(x), e = shmt__avx512_missing(x, y);
  return shmt__madd(y * e, shmt__madd(e, shmt__avx512_d(0.375), shmt__avx512_d(0.5)), y);
}
/* rsqrt. For 0 and infinity the first estimate is the result, and Newton's step must not change it. */
SHMT_VECTOR shmt__f512 shmt__avx512_rsqrtf(shmt__f512 x) {
  const shmt__f512 y = _mm512_rsqrt14_ps(x), e = shmt__avx512_missingf(x, y);
  return _mm512_mask3_fmadd_ps(y * shmt__avx512_f(0.5f), e, y, _mm512_cmp_ps_mask(e, e, _CMP_ORD_Q));
}
SHMT_VECTOR shmt__d512 shmt__avx512_rsqrt(shmt__d512 x) {
  const shmt__d512 y = shmt__avx512_rsqrt_near(x), e = shmt__avx512_missing(x, y);
  const shmt__d512 better = shmt__madd(y * shmt__avx512_d(0.5), e, y);
  return _mm512_mask_mov_pd(_mm512_rsqrt14_pd(x), _mm512_cmp_pd_mask(better, better, _CMP_ORD_Q), better);
}

/* sqrt(x) for x from 1e-30 (doubles: 1e-200) on, far from overflow; smaller x are replaced by this limit. */
SHMT_VECTOR shmt__f512 shmt__avx512_sqrt_newtonf(shmt__f512 x) {
  const shmt__f512 c = _mm512_max_ps(shmt__avx512_f(1e-30f), x), r = _mm512_rsqrt14_ps(c), y = c * r;
  return shmt__maddf(shmt__nmaddf(y, y, c), r * shmt__avx512_f(0.5f), y);
}
SHMT_VECTOR shmt__d512 shmt__avx512_sqrt_newton(shmt__d512 x) {
  const shmt__d512 c = _mm512_max_pd(shmt__avx512_d(1e-200), x), r = shmt__avx512_rsqrt_near(c), y = c * r;
  return shmt__madd(shmt__nmadd(y, y, c), r * shmt__avx512_d(0.5), y);
}

/* sqrt(x) for any x up to 1e30 (doubles: 1e200): 0 gives 0, a negative number NaN. */
SHMT_VECTOR shmt__f512 shmt__avx512_sqrt_or_0f(shmt__f512 x) {
  const shmt__f512 r = _mm512_rsqrt14_ps(x), y = x * r;
  const __mmask16 is_some = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  return _mm512_maskz_fmadd_ps(is_some, shmt__nmaddf(y, y, x), r * shmt__avx512_f(0.5f), y);
}
SHMT_VECTOR shmt__d512 shmt__avx512_root_or_0(shmt__d512 x) {
  const shmt__d512 r = shmt__avx512_rsqrt_near(x), y = x * r;
  const __mmask8 is_some = _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
  return _mm512_maskz_fmadd_pd(is_some, shmt__nmadd(y, y, x), r * shmt__avx512_d(0.5), y);
}
/* sqrt(x), correctly rounded. The last Newton step, from an almost exact root and half its reciprocal, leaves a
 * relative error of about 2^-102 for doubles. Only few roots lie that near to the middle of two doubles; their rounding
 * was checked, and that of every float. Numbers whose remainder would be subnormal or undefined use the instruction. */
SHMT_VECTOR shmt__f512 shmt__avx512_sqrtf(shmt__f512 x) {
  const shmt__f512 y = _mm512_rsqrt14_ps(x), half = shmt__avx512_f(0.5f), g = x * y, h = y * half;
  const shmt__f512 e = shmt__nmaddf(g, h, half), root = shmt__maddf(g, e, g), by = shmt__maddf(h, e, h);
  const __m512i above = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_castps_si512(shmt__avx512_f(0x1p-60f)));
  const __mmask16 is_rare = _mm512_cmpge_epu32_mask(above, _mm512_set1_epi32(186 << 23));
  const shmt__f512 z = shmt__maddf(shmt__nmaddf(root, root, x), by, root);
  return __builtin_expect(is_rare != 0, 0) ? _mm512_mask_sqrt_ps(z, is_rare, x) : z;
}
SHMT_VECTOR shmt__d512 shmt__avx512_sqrt(shmt__d512 x) {
  const shmt__d512 y = _mm512_rsqrt14_pd(x), half = shmt__avx512_d(0.5), g = x * y, h = y * half;
  const shmt__d512 e = shmt__nmadd(g, h, half), g2 = shmt__madd(g, e, g), h2 = shmt__madd(h, e, h);
  const shmt__d512 e2 = shmt__nmadd(g2, h2, half), root = shmt__madd(g2, e2, g2), by = shmt__madd(h2, e2, h2);
  const __m512i above = _mm512_sub_epi64(_mm512_castpd_si512(x), _mm512_castpd_si512(shmt__avx512_d(0x1p-800)));
  const __mmask8 is_rare = _mm512_cmpge_epu64_mask(above, _mm512_set1_epi64(INT64_C(1600) << 52));
  const shmt__d512 z = shmt__madd(shmt__nmadd(root, root, x), by, root);
  return __builtin_expect(is_rare != 0, 0) ? _mm512_mask_sqrt_pd(z, is_rare, x) : z;
}

/* hypot. Scales by the larger one's exponent k, so that no square overflows or underflows. If either argument is NaN,
 * high or low is. */
SHMT_VECTOR shmt__f512 shmt__avx512_hypotf(shmt__f512 a, shmt__f512 b) {
  const shmt__f512 x = shmt__avx512_absf(a), y = shmt__avx512_absf(b), infinity = shmt__avx512_f(INFINITY);
  const shmt__f512 high = _mm512_max_ps(x, y), low = _mm512_min_ps(y, x);
  const shmt__f512 k = _mm512_max_ps(shmt__avx512_f(-150.0f), _mm512_getexp_ps(high)), less = shmt__avx512_minusf(k);
  const shmt__f512 u = _mm512_scalef_ps(high, less), v = _mm512_scalef_ps(low, less);
  const shmt__f512 root = shmt__avx512_sqrt_newtonf(shmt__maddf(u, u, v * v));
  const __mmask16 is_infinite =
      _mm512_cmp_ps_mask(x, infinity, _CMP_EQ_OQ) | _mm512_cmp_ps_mask(y, infinity, _CMP_EQ_OQ);
  return _mm512_mask_mov_ps(_mm512_scalef_ps(root, k), is_infinite, infinity);
}
SHMT_VECTOR shmt__d512 shmt__avx512_hypot(shmt__d512 a, shmt__d512 b) {
  const shmt__d512 x = shmt__avx512_abs(a), y = shmt__avx512_abs(b), infinity = shmt__avx512_d(INFINITY);
  const shmt__d512 high = _mm512_max_pd(x, y), low = _mm512_min_pd(y, x);
  const shmt__d512 k = _mm512_max_pd(shmt__avx512_d(-1080.0), _mm512_getexp_pd(high)), less = shmt__avx512_minus(k);
  const shmt__d512 u = _mm512_scalef_pd(high, less), v = _mm512_scalef_pd(low, less);
  const shmt__d512 root = shmt__avx512_sqrt_newton(shmt__madd(u, u, v * v));
  const __mmask8 is_infinite =
      _mm512_cmp_pd_mask(x, infinity, _CMP_EQ_OQ) | _mm512_cmp_pd_mask(y, infinity, _CMP_EQ_OQ);
  return _mm512_mask_mov_pd(_mm512_scalef_pd(root, k), is_infinite, infinity);
}

#endif
#endif
