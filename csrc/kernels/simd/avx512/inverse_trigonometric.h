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

/* atan(low / high) for 0 <= low <= high, both finite, high not 0, as two parts whose first is looked up. */
SHMT_VECTOR shmt__f512 shmt__avx512_atan_of_ratiof(shmt__f512 low, shmt__f512 high, shmt__f512* at_least) {
  const shmt__f512 q = low * _mm512_rcp14_ps(high);
  const __m512i at = _mm512_castps_si512(shmt__maddf(q, shmt__avx512_f(31.0f), shmt__avx512_f(SHMT_ROUNDERF(1.0f))));
  const shmt__f512 t = shmt__lookupf(shmt__avx512_anglesf[0], at);
  const shmt__f512 r = shmt__nmaddf(t, high, low) / shmt__maddf(t, low, high), z = r * r;
  const shmt__f512 p = shmt__maddf(z, shmt__avx512_f(1.999524e-01f), shmt__avx512_f(-3.3333334e-01f));
  *at_least = shmt__lookupf(shmt__avx512_anglesf[1], at);
  return shmt__maddf(z * p, r, r);
}
SHMT_VECTOR shmt__d512 shmt__avx512_atan_of_ratio(shmt__d512 low, shmt__d512 high, shmt__d512* at_least) {
  const shmt__d512 q = low * _mm512_rcp14_pd(high);
  const __m512i at = _mm512_castpd_si512(shmt__madd(q, shmt__avx512_d(15.0), shmt__avx512_d(SHMT_ROUNDER(1.0))));
  const shmt__d512 t = shmt__lookup(shmt__avx512_angles[0], at);
  const shmt__d512 r = shmt__nmadd(t, high, low) / shmt__madd(t, low, high), z = r * r;
  shmt__d512 p = shmt__avx512_d(-0.09066912884333873);
  p = shmt__madd(p, z, shmt__avx512_d(0.11111084879978127));
  p = shmt__madd(p, z, shmt__avx512_d(-0.14285714274006903));
  p = shmt__madd(p, z, shmt__avx512_d(0.19999999999998172));
  p = shmt__madd(p, z, shmt__avx512_d(-0.3333333333333333));
  *at_least = shmt__lookup(shmt__avx512_angles[1], at);
  return shmt__madd(z * p, r, r);
}
/* From 1 on, atan by the reciprocal. x is limited to a number whose angle already rounds to pi/2. */
SHMT_VECTOR shmt__f512 shmt__avx512_atanf(shmt__f512 x) {
  const shmt__f512 a = shmt__avx512_at_mostf(shmt__avx512_absf(x), 1e30f), one = shmt__avx512_f(1.0f);
  const __mmask16 is_steep = _mm512_cmp_ps_mask(a, one, _CMP_GT_OQ);
  shmt__f512 near, rest = shmt__avx512_atan_of_ratiof(_mm512_min_ps(one, a), _mm512_max_ps(one, a), &near);
  near = _mm512_mask_sub_ps(near, is_steep, shmt__avx512_f(1.57079637f), near);
  return shmt__signedf(_mm512_mask_sub_ps(near + rest, is_steep, near, rest), x);
}
SHMT_VECTOR shmt__d512 shmt__avx512_atan(shmt__d512 x) {
  const shmt__d512 a = shmt__avx512_at_most(shmt__avx512_abs(x), 1e200), one = shmt__avx512_d(1.0);
  const __mmask8 is_steep = _mm512_cmp_pd_mask(a, one, _CMP_GT_OQ);
  shmt__d512 near, rest = shmt__avx512_atan_of_ratio(_mm512_min_pd(one, a), _mm512_max_pd(one, a), &near);
  near = _mm512_mask_sub_pd(near, is_steep, shmt__avx512_d(1.5707963267948966), near);
  return shmt__signed(_mm512_mask_sub_pd(near + rest, is_steep, near, rest), x);
}

/* Scales both by the larger one's exponent k, so that infinity becomes 1 and a finite number beside it 0. 0 / 0 has the
 * direction of 0 / 1. If either argument is NaN, high or low is. */
SHMT_VECTOR shmt__f512 shmt__avx512_atan2f(shmt__f512 y, shmt__f512 x) {
  const shmt__f512 ay = shmt__avx512_absf(y), ax = shmt__avx512_absf(x), one = shmt__avx512_f(1.0f);
  const __mmask16 is_steep = _mm512_cmp_ps_mask(ay, ax, _CMP_GT_OQ);
  const __mmask16 is_back = _mm512_movepi32_mask(_mm512_castps_si512(x));
  shmt__f512 high = _mm512_max_ps(ax, ay), low = _mm512_min_ps(ay, ax);
  const shmt__f512 less = shmt__withinf(shmt__avx512_minusf(_mm512_getexp_ps(high)), -300.0f, 150.0f);
  const __mmask16 is_far = _mm512_cmp_ps_mask(high, shmt__avx512_f(INFINITY), _CMP_EQ_OQ);
  const __mmask16 are_far = _mm512_cmp_ps_mask(low, shmt__avx512_f(INFINITY), _CMP_EQ_OQ);
  high = _mm512_mask_mov_ps(_mm512_max_ps(shmt__avx512_f(0.5f), _mm512_scalef_ps(high, less)), is_far, one);
  low = _mm512_mask_mov_ps(_mm512_scalef_ps(low, less), are_far, one);
  shmt__f512 near, rest = shmt__avx512_atan_of_ratiof(low, high, &near);
  near = _mm512_mask_sub_ps(near, is_steep, shmt__avx512_f(1.57079637f), near);
  near = _mm512_mask_sub_ps(near, is_back, shmt__avx512_f(3.14159274f), near);
  return shmt__signedf(_mm512_mask_sub_ps(near + rest, is_steep ^ is_back, near, rest), y);
}
SHMT_VECTOR shmt__d512 shmt__avx512_atan2(shmt__d512 y, shmt__d512 x) {
  const shmt__d512 ay = shmt__avx512_abs(y), ax = shmt__avx512_abs(x), one = shmt__avx512_d(1.0);
  const __mmask8 is_steep = _mm512_cmp_pd_mask(ay, ax, _CMP_GT_OQ);
  const __mmask8 is_back = _mm512_movepi64_mask(_mm512_castpd_si512(x));
  shmt__d512 high = _mm512_max_pd(ax, ay), low = _mm512_min_pd(ay, ax);
  const shmt__d512 less = shmt__within(shmt__avx512_minus(_mm512_getexp_pd(high)), -2200.0, 1080.0);
  const __mmask8 is_far = _mm512_cmp_pd_mask(high, shmt__avx512_d(INFINITY), _CMP_EQ_OQ);
  const __mmask8 are_far = _mm512_cmp_pd_mask(low, shmt__avx512_d(INFINITY), _CMP_EQ_OQ);
  high = _mm512_mask_mov_pd(_mm512_max_pd(shmt__avx512_d(0.5), _mm512_scalef_pd(high, less)), is_far, one);
  low = _mm512_mask_mov_pd(_mm512_scalef_pd(low, less), are_far, one);
  shmt__d512 near, rest = shmt__avx512_atan_of_ratio(low, high, &near);
  near = _mm512_mask_sub_pd(near, is_steep, shmt__avx512_d(1.5707963267948966), near);
  near = _mm512_mask_sub_pd(near, is_back, shmt__avx512_d(3.1415926535897931), near);
  return shmt__signed(_mm512_mask_sub_pd(near + rest, is_steep ^ is_back, near, rest), y);
}

/* asin(s) for s from 0 to 1/2, where s is |x| up to 1/2 and sqrt((1 - |x|) / 2) from there on, which is NaN beyond 1.
 * Uses the polynomials of vmath_tail.h and vmath_double.h. */
SHMT_VECTOR shmt__f512 shmt__avx512_asin_partf(shmt__f512 x, __mmask16* is_near) {
  const shmt__f512 a = shmt__avx512_absf(x), half = shmt__avx512_f(0.5f), rest = shmt__nmaddf(a, half, half);
  *is_near = _mm512_cmp_ps_mask(a, half, _CMP_LE_OQ);
  const shmt__f512 s = _mm512_mask_mov_ps(shmt__avx512_sqrt_or_0f(rest), *is_near, a);
  const shmt__f512 z = _mm512_mask_mul_ps(rest, *is_near, a, a);
  shmt__f512 p = shmt__avx512_f(3.67468037e-2f);
  p = shmt__maddf(p, z, shmt__avx512_f(1.50363054e-2f));
  p = shmt__maddf(p, z, shmt__avx512_f(3.16326506e-2f));
  p = shmt__maddf(p, z, shmt__avx512_f(4.45407107e-2f));
  p = shmt__maddf(p, z, shmt__avx512_f(7.50035867e-2f));
  p = shmt__maddf(p, z, shmt__avx512_f(0.166666627f));
  return shmt__maddf(p * z, s, s);
}
SHMT_VECTOR shmt__d512 shmt__avx512_asin_part(shmt__d512 x, __mmask8* is_near) {
  const shmt__d512 a = shmt__avx512_abs(x), half = shmt__avx512_d(0.5), rest = shmt__nmadd(a, half, half);
  *is_near = _mm512_cmp_pd_mask(a, half, _CMP_LE_OQ);
  const shmt__d512 s = _mm512_mask_mov_pd(shmt__avx512_root_or_0(rest), *is_near, a);
  const shmt__d512 z = _mm512_mask_mul_pd(rest, *is_near, a, a);
  shmt__d512 p = shmt__avx512_d(0.030892816831561705);
  p = shmt__madd(p, z, shmt__avx512_d(-0.014661802758561255));
  p = shmt__madd(p, z, shmt__avx512_d(0.018478382459397272));
  p = shmt__madd(p, z, shmt__avx512_d(0.0069342031092192152));
  p = shmt__madd(p, z, shmt__avx512_d(0.012069266856768386));
  p = shmt__madd(p, z, shmt__avx512_d(0.013901525034266787));
  p = shmt__madd(p, z, shmt__avx512_d(0.017357928071828881));
  p = shmt__madd(p, z, shmt__avx512_d(0.022371886000067787));
  p = shmt__madd(p, z, shmt__avx512_d(0.030381953284341508));
  p = shmt__madd(p, z, shmt__avx512_d(0.044642856985937548));
  p = shmt__madd(p, z, shmt__avx512_d(0.075000000001215456));
  p = shmt__madd(p, z, shmt__avx512_d(0.16666666666666458));
  return shmt__madd(p * z, s, s);
}
SHMT_VECTOR shmt__f512 shmt__avx512_asinf(shmt__f512 x) {
  __mmask16 is_near;
  const shmt__f512 y = shmt__avx512_asin_partf(x, &is_near), half_pi = shmt__avx512_f(1.57079637f);
  const shmt__f512 far = shmt__nmaddf(y, shmt__avx512_f(2.0f), half_pi);
  return shmt__signedf(_mm512_mask_mov_ps(far + shmt__avx512_f(-4.37113883e-8f), is_near, y), x);
}
SHMT_VECTOR shmt__d512 shmt__avx512_asin(shmt__d512 x) {
  __mmask8 is_near;
  const shmt__d512 y = shmt__avx512_asin_part(x, &is_near), half_pi = shmt__avx512_d(1.5707963267948966);
  const shmt__d512 far = shmt__nmadd(y, shmt__avx512_d(2.0), half_pi);
  return shmt__signed(_mm512_mask_mov_pd(far + shmt__avx512_d(6.123233995736766e-17), is_near, y), x);
}
/* acos as n quarter turns minus m times asin_part's result: near 0, n = 1 and m has x's sign; else n = 0, m = -2 for
 * positive x, and n = 2, m = 2 for negative x. */
SHMT_VECTOR shmt__f512 shmt__avx512_acosf(shmt__f512 x) {
  __mmask16 is_near;
  const shmt__f512 y = shmt__avx512_asin_partf(x, &is_near), one = shmt__avx512_f(1.0f), sign = shmt__signedf(one, x);
  const shmt__f512 half_pis = _mm512_mask_mov_ps(one - sign, is_near, one);
  const shmt__f512 parts = _mm512_mask_mov_ps(sign * shmt__avx512_f(-2.0f), is_near, sign);
  const shmt__f512 less = shmt__maddf(y, parts, half_pis * shmt__avx512_f(4.37113883e-8f));
  return _mm512_fmsub_ps(half_pis, shmt__avx512_f(1.57079637f), less);
}
SHMT_VECTOR shmt__d512 shmt__avx512_acos(shmt__d512 x) {
  __mmask8 is_near;
  const shmt__d512 y = shmt__avx512_asin_part(x, &is_near), one = shmt__avx512_d(1.0), sign = shmt__signed(one, x);
  const shmt__d512 half_pis = _mm512_mask_mov_pd(one - sign, is_near, one);
  const shmt__d512 parts = _mm512_mask_mov_pd(sign * shmt__avx512_d(-2.0), is_near, sign);
  const shmt__d512 less = _mm512_fmsub_pd(y, parts, half_pis * shmt__avx512_d(6.123233995736766e-17));
  return _mm512_fmsub_pd(half_pis, shmt__avx512_d(1.5707963267948966), less);
}

#endif
#endif
