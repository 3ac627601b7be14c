/* kernels/simd/avx512/erf_tanh.h -- error functions and tanh of 512-bit vectors, by polynomials with looked-up
 * coefficients.
 *
 * erf and tanh have a limit at infinity: |x| is rounded to a multiple of a step, which selects the polynomial, and the
 * polynomial is in the rest. Near 0 it is odd, so that small results are exact, too. erfc and erfinv are computed by
 * functions that vary with the logarithm of an argument u: each part of an octave of u has its polynomial.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_ERF_TANH_H
#define SHMT_KERNELS_SIMD_AVX512_ERF_TANH_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/exp.h"
#include "kernels/simd/avx512/log.h"
#include "kernels/simd/avx512/tables.h"

#if SHMT_HAS_AVX512
/* Evaluates polynomials of n coefficients: the first is given, the others are in the columns `at` of the table. */
SHMT_VECTOR shmt__f512 shmt__avx512_polynomialsf(shmt__f512 first, const float (*table)[32], int n, __m512i at,
                                                 shmt__f512 d) {
  shmt__f512 p = shmt__lookupf(table[n - 1], at);
#pragma GCC unroll 16
  for (int k = n - 2; k > 0; k--) p = shmt__maddf(p, d, shmt__lookupf(table[k], at));
  return shmt__maddf(p, d, first);
}
SHMT_VECTOR shmt__d512 shmt__avx512_polynomials(shmt__d512 first, const double (*table)[16], int n, __m512i at,
                                                shmt__d512 d) {
  shmt__d512 p = shmt__lookup(table[n - 1], at);
#pragma GCC unroll 16
  for (int k = n - 2; k > 0; k--) p = shmt__madd(p, d, shmt__lookup(table[k], at));
  return shmt__madd(p, d, first);
}
/* An odd function of x that is 1 from `last` on. Its table has one column for each step. The first row is the point
 * that the polynomial is centred at: near the step, where the function's value is almost exactly a float. The
 * polynomial at 0 is without its factor x. */
SHMT_VECTOR shmt__f512 shmt__avx512_in_stepsf(shmt__f512 x, const float (*table)[32], int n, float step, float last) {
  const shmt__f512 a = shmt__avx512_at_mostf(shmt__avx512_absf(x), last), rounder = shmt__avx512_f(SHMT_ROUNDERF(1.0f));
  const __m512i at = _mm512_castps_si512(shmt__maddf(a, shmt__avx512_f(1.0f / step), rounder));
  const __mmask16 is_near = _mm512_testn_epi32_mask(at, _mm512_set1_epi32(31));
  const shmt__f512 first = _mm512_mask_mov_ps(shmt__lookupf(table[1], at), is_near, a);
  return shmt__signedf(shmt__avx512_polynomialsf(first, table + 1, n, at, a - shmt__lookupf(table[0], at)), x);
}
SHMT_VECTOR shmt__f512 shmt__avx512_erff(shmt__f512 x) {
  return shmt__avx512_in_stepsf(x, shmt__avx512_erff_steps, 6, 33.0f / 256, 4.06f);
}
SHMT_VECTOR shmt__f512 shmt__avx512_tanhf(shmt__f512 x) {
  return shmt__avx512_in_stepsf(x, shmt__avx512_tanhf_steps, 7, 19.0f / 64, 9.35f);
}
SHMT_VECTOR shmt__d512 shmt__avx512_erf(shmt__d512 x) {
  const shmt__d512 a = shmt__avx512_at_most(shmt__avx512_abs(x), 6.05), rounder = shmt__avx512_d(SHMT_ROUNDER(1.0));
  const __m512i at = _mm512_castpd_si512(shmt__madd(a, shmt__avx512_d(64.0 / 25), rounder));
  const double(*const table)[16] = shmt__avx512_erf_steps;
  const shmt__d512 d = a - shmt__lookup(table[0], at), first = shmt__lookup(table[1], at);
  return shmt__signed(shmt__avx512_polynomials(first, table + 1, 14, at, d), x);
}

/* The middle of the part that u is in, where an octave has 8 parts (doubles: 4). */
SHMT_VECTOR shmt__f512 shmt__avx512_middlef(__m512i u) {
  const __m512i m = _mm512_ternarylogic_epi32(u, _mm512_set1_epi32(-0x100000), _mm512_set1_epi32(0x80000), 0xea);
  return _mm512_castsi512_ps(m);
}
SHMT_VECTOR shmt__d512 shmt__avx512_middle(__m512i u) {
  const __m512i m =
      _mm512_ternarylogic_epi64(u, _mm512_set1_epi64(-0x4000000000000), _mm512_set1_epi64(0x2000000000000), 0xea);
  return _mm512_castsi512_pd(m);
}
/* Evaluates the polynomials of the parts of octaves that u is in; d is u's distance from the middle. */
SHMT_VECTOR shmt__f512 shmt__avx512_in_octavesf(const float (*table)[32], int n, __m512i u, shmt__f512 d) {
  const __m512i at = _mm512_srli_epi32(u, 20);
  return shmt__avx512_polynomialsf(shmt__lookupf(table[0], at), table, n, at, d);
}
SHMT_VECTOR shmt__d512 shmt__avx512_in_octaves(const double (*table)[16], int n, __m512i u, shmt__d512 d) {
  const __m512i at = _mm512_srli_epi64(u, 50);
  return shmt__avx512_polynomials(shmt__lookup(table[0], at), table, n, at, d);
}
/* exp(-c*c) times a polynomial near exp(c*c) erfc(c), c = |x|. */
SHMT_VECTOR shmt__f512 shmt__avx512_erfcf(shmt__f512 x) {
  const shmt__f512 c = shmt__avx512_at_mostf(shmt__avx512_absf(x), 10.1f), one = shmt__avx512_f(1.0f);
  const __m512i u = _mm512_castps_si512(c + one);
  const shmt__f512 scaled =
      shmt__avx512_in_octavesf(shmt__avx512_erfcxf_octaves, 6, u, c - (shmt__avx512_middlef(u) - one));
  const shmt__avx512_scaledf e = shmt__avx512_exp_of_squaref(c);
  const shmt__f512 y = _mm512_scalef_ps(shmt__maddf(e.power, e.rest, e.power) * scaled, e.k);
  const __mmask16 is_left = _mm512_movepi32_mask(_mm512_castps_si512(x));
  return _mm512_mask_sub_ps(y, is_left, shmt__avx512_f(2.0f), y);
}
SHMT_VECTOR shmt__d512 shmt__avx512_erfc(shmt__d512 x) {
  const shmt__d512 c = shmt__avx512_at_most(shmt__avx512_abs(x), 27.3), two = shmt__avx512_d(2.0);
  const __m512i u = _mm512_castpd_si512(c + two);
  const shmt__d512 scaled =
      shmt__avx512_in_octaves(shmt__avx512_erfcx_octaves, 14, u, c - (shmt__avx512_middle(u) - two));
  const shmt__avx512_scaled e = shmt__avx512_exp_of_square(c);
  const shmt__d512 y = _mm512_scalef_pd(shmt__madd(e.power, e.rest, e.power) * scaled, e.k);
  const __mmask8 is_left = _mm512_movepi64_mask(_mm512_castpd_si512(x));
  return _mm512_mask_sub_pd(y, is_left, two, y);
}
/* erfinv by polynomials in w = -log(1 - x*x), from 0 to 16. */
SHMT_VECTOR shmt__f512 shmt__avx512_erfinvf(shmt__f512 x) {
  const shmt__f512 rest = shmt__nmaddf(x, x, shmt__avx512_f(1.0f)), w = shmt__avx512_logf(rest);
  const __m512i u = _mm512_castps_si512(shmt__avx512_f(2.0f) - w);
  const shmt__f512 d = shmt__avx512_f(2.0f) - shmt__avx512_middlef(u) - w;
  const shmt__f512 y = x * shmt__avx512_in_octavesf(shmt__avx512_erfinvf_octaves, 6, u, d);
  const __mmask16 is_end = _mm512_cmp_ps_mask(rest, _mm512_setzero_ps(), _CMP_EQ_OQ);
  return _mm512_mask_mul_ps(y, is_end, x, shmt__avx512_f(INFINITY));
}

#endif
#endif
