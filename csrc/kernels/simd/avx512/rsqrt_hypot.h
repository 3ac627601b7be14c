/* kernels/simd/avx512/rsqrt_hypot.h -- reciprocal roots and hypot of 512-bit vectors, by Newton's method from 14 bits.
 *
 * The instructions of roots and quotients keep the processor waiting; these take a third of the time.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_RSQRT_HYPOT_H
#define SHMT_KERNELS_SIMD_AVX512_RSQRT_HYPOT_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/exp.h"

#if SHMT_HAS_AVX512

/* 1 / sqrt(x) and what of 1 is missing in its square times x, of a y that is all but that. */
SHMT_VECTOR shmt__floats512 shmt__avx512_missingf(shmt__floats512 x, shmt__floats512 y) { return shmt__nmaddf(x * y, y, shmt__avx512_f(1.0f)); }
SHMT_VECTOR shmt__doubles512 shmt__avx512_missing(shmt__doubles512 x, shmt__doubles512 y) { return shmt__nmadd(x * y, y, shmt__avx512_d(1.0)); }
/* To some 2^-40. */
SHMT_VECTOR shmt__doubles512 shmt__avx512_rsqrt_near(shmt__doubles512 x) {
  const shmt__doubles512 y = _mm512_rsqrt14_pd(x), e = shmt__avx512_missing(x, y);
  return shmt__madd(y * e, shmt__madd(e, shmt__avx512_d(0.375), shmt__avx512_d(0.5)), y);
}
/* The first guess is the result for 0 and infinity, of which nothing can be missing. */
SHMT_VECTOR shmt__floats512 shmt__avx512_rsqrtf(shmt__floats512 x) {
  const shmt__floats512 y = _mm512_rsqrt14_ps(x), e = shmt__avx512_missingf(x, y);
  return _mm512_mask3_fmadd_ps(y * shmt__avx512_f(0.5f), e, y, _mm512_cmp_ps_mask(e, e, _CMP_ORD_Q));
}
SHMT_VECTOR shmt__doubles512 shmt__avx512_rsqrt(shmt__doubles512 x) {
  const shmt__doubles512 y = shmt__avx512_rsqrt_near(x), e = shmt__avx512_missing(x, y);
  const shmt__doubles512 better = shmt__madd(y * shmt__avx512_d(0.5), e, y);
  return _mm512_mask_mov_pd(_mm512_rsqrt14_pd(x), _mm512_cmp_pd_mask(better, better, _CMP_ORD_Q), better);
}

/* sqrt(x) of x from 1e-30 (1e-200) on, far from overflow; what is less becomes that. */
SHMT_VECTOR shmt__floats512 shmt__avx512_sqrt_newtonf(shmt__floats512 x) {
  const shmt__floats512 c = _mm512_max_ps(shmt__avx512_f(1e-30f), x), r = _mm512_rsqrt14_ps(c), y = c * r;
  return shmt__maddf(shmt__nmaddf(y, y, c), r * shmt__avx512_f(0.5f), y);
}
SHMT_VECTOR shmt__doubles512 shmt__avx512_sqrt_newton(shmt__doubles512 x) {
  const shmt__doubles512 c = _mm512_max_pd(shmt__avx512_d(1e-200), x), r = shmt__avx512_rsqrt_near(c), y = c * r;
  return shmt__madd(shmt__nmadd(y, y, c), r * shmt__avx512_d(0.5), y);
}

/* The same of any x up to 1e30 (1e200): 0 of 0, NaN of what is negative. */
SHMT_VECTOR shmt__floats512 shmt__avx512_sqrt_or_0f(shmt__floats512 x) {
  const shmt__floats512 r = _mm512_rsqrt14_ps(x), y = x * r;
  const __mmask16 is_some = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  return _mm512_maskz_fmadd_ps(is_some, shmt__nmaddf(y, y, x), r * shmt__avx512_f(0.5f), y);
}
SHMT_VECTOR shmt__doubles512 shmt__avx512_root_or_0(shmt__doubles512 x) {
  const shmt__doubles512 r = shmt__avx512_rsqrt_near(x), y = x * r;
  const __mmask8 is_some = _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
  return _mm512_maskz_fmadd_pd(is_some, shmt__nmadd(y, y, x), r * shmt__avx512_d(0.5), y);
}
/* sqrt(x), rounded once. Of a root and half its reciprocal, each all but exact, the last step leaves an error of some 2^-102
 * of a double's root: none is so near to the middle of two numbers but some, whose rounding has been tried, as that of
 * every float. Of numbers whose remainders would be subnormal, or that have none, it is the instruction's. */
SHMT_VECTOR shmt__floats512 shmt__avx512_sqrtf(shmt__floats512 x) {
  const shmt__floats512 y = _mm512_rsqrt14_ps(x), half = shmt__avx512_f(0.5f), g = x * y, h = y * half;
  const shmt__floats512 e = shmt__nmaddf(g, h, half), root = shmt__maddf(g, e, g), by = shmt__maddf(h, e, h);
  const __m512i above = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_castps_si512(shmt__avx512_f(0x1p-60f)));
  const __mmask16 is_rare = _mm512_cmpge_epu32_mask(above, _mm512_set1_epi32(186 << 23));
  const shmt__floats512 z = shmt__maddf(shmt__nmaddf(root, root, x), by, root);
  return __builtin_expect(is_rare != 0, 0) ? _mm512_mask_sqrt_ps(z, is_rare, x) : z;
}
SHMT_VECTOR shmt__doubles512 shmt__avx512_sqrt(shmt__doubles512 x) {
  const shmt__doubles512 y = _mm512_rsqrt14_pd(x), half = shmt__avx512_d(0.5), g = x * y, h = y * half;
  const shmt__doubles512 e = shmt__nmadd(g, h, half), g2 = shmt__madd(g, e, g), h2 = shmt__madd(h, e, h);
  const shmt__doubles512 e2 = shmt__nmadd(g2, h2, half), root = shmt__madd(g2, e2, g2), by = shmt__madd(h2, e2, h2);
  const __m512i above = _mm512_sub_epi64(_mm512_castpd_si512(x), _mm512_castpd_si512(shmt__avx512_d(0x1p-800)));
  const __mmask8 is_rare = _mm512_cmpge_epu64_mask(above, _mm512_set1_epi64(INT64_C(1600) << 52));
  const shmt__doubles512 z = shmt__madd(shmt__nmadd(root, root, x), by, root);
  return __builtin_expect(is_rare != 0, 0) ? _mm512_mask_sqrt_pd(z, is_rare, x) : z;
}

/* By the larger one's exponent k, so that no square overflows or is lost. Whichever is NaN, high or low is. */
SHMT_VECTOR shmt__floats512 shmt__avx512_hypotf(shmt__floats512 a, shmt__floats512 b) {
  const shmt__floats512 x = shmt__avx512_absf(a), y = shmt__avx512_absf(b), infinity = shmt__avx512_f(INFINITY);
  const shmt__floats512 high = _mm512_max_ps(x, y), low = _mm512_min_ps(y, x);
  const shmt__floats512 k = _mm512_max_ps(shmt__avx512_f(-150.0f), _mm512_getexp_ps(high)), less = shmt__avx512_minusf(k);
  const shmt__floats512 u = _mm512_scalef_ps(high, less), v = _mm512_scalef_ps(low, less);
  const shmt__floats512 root = shmt__avx512_sqrt_newtonf(shmt__maddf(u, u, v * v));
  const __mmask16 is_infinite = _mm512_cmp_ps_mask(x, infinity, _CMP_EQ_OQ) | _mm512_cmp_ps_mask(y, infinity, _CMP_EQ_OQ);
  return _mm512_mask_mov_ps(_mm512_scalef_ps(root, k), is_infinite, infinity);
}
SHMT_VECTOR shmt__doubles512 shmt__avx512_hypot(shmt__doubles512 a, shmt__doubles512 b) {
  const shmt__doubles512 x = shmt__avx512_abs(a), y = shmt__avx512_abs(b), infinity = shmt__avx512_d(INFINITY);
  const shmt__doubles512 high = _mm512_max_pd(x, y), low = _mm512_min_pd(y, x);
  const shmt__doubles512 k = _mm512_max_pd(shmt__avx512_d(-1080.0), _mm512_getexp_pd(high)), less = shmt__avx512_minus(k);
  const shmt__doubles512 u = _mm512_scalef_pd(high, less), v = _mm512_scalef_pd(low, less);
  const shmt__doubles512 root = shmt__avx512_sqrt_newton(shmt__madd(u, u, v * v));
  const __mmask8 is_infinite = _mm512_cmp_pd_mask(x, infinity, _CMP_EQ_OQ) | _mm512_cmp_pd_mask(y, infinity, _CMP_EQ_OQ);
  return _mm512_mask_mov_pd(_mm512_scalef_pd(root, k), is_infinite, infinity);
}

#endif
#endif
