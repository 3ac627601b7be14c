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
#include "kernels/simd/avx512/of_floats.h"
#include "kernels/simd/avx512/erf_tanh.tmpl.h"

#include "kernels/simd/avx512/of_doubles.h"
#include "kernels/simd/avx512/erf_tanh.tmpl.h"

#include "kernels/simd/avx512/of_neither.h"

/* An odd function of x that is 1 from `last` on. Its table has one column for each step. The first row is the point
 * that the polynomial is centred at: near the step, where the function's value is almost exactly a float. The
 * polynomial at 0 is without its factor x. */
SHMT_VECTOR shmt__f512 shmt__avx512_in_stepsf(shmt__f512 x, const float (*table)[32], int n, float step, float last) {
  const shmt__f512 a = shmt__avx512_at_mostf(shmt__avx512_absf(x), last), rounder = shmt__avx512_f(SHMT_ROUNDERF(1.0f));
  const __m512i at = _mm512_castps_si512(shmt__avx512_maddf(a, shmt__avx512_f(1.0f / step), rounder));
  const __mmask16 is_near = _mm512_testn_epi32_mask(at, _mm512_set1_epi32(31));
  const shmt__f512 first = _mm512_mask_mov_ps(shmt__avx512_lookupf(table[1], at), is_near, a);
  const shmt__f512 d = a - shmt__avx512_lookupf(table[0], at);
  return shmt__avx512_signedf(shmt__avx512_polynomialsf(first, table + 1, n, at, d), x);
}
SHMT_VECTOR shmt__f512 shmt__avx512_erff(shmt__f512 x) {
  return shmt__avx512_in_stepsf(x, shmt__avx512_erff_steps, 6, 33.0f / 256, 4.06f);
}
SHMT_VECTOR shmt__f512 shmt__avx512_tanhf(shmt__f512 x) {
  return shmt__avx512_in_stepsf(x, shmt__avx512_tanhf_steps, 7, 19.0f / 64, 9.35f);
}
SHMT_VECTOR shmt__d512 shmt__avx512_erf(shmt__d512 x) {
  const shmt__d512 a = shmt__avx512_at_most(shmt__avx512_abs(x), 6.05), rounder = shmt__avx512_d(SHMT_ROUNDER(1.0));
  const __m512i at = _mm512_castpd_si512(shmt__avx512_madd(a, shmt__avx512_d(64.0 / 25), rounder));
  const double(*const table)[16] = shmt__avx512_erf_steps;
  const shmt__d512 d = a - shmt__avx512_lookup(table[0], at), first = shmt__avx512_lookup(table[1], at);
  return shmt__avx512_signed(shmt__avx512_polynomials(first, table + 1, 14, at, d), x);
}

/* erfinv by polynomials in w = -log(1 - x*x), from 0 to 16. */
SHMT_VECTOR shmt__f512 shmt__avx512_erfinvf(shmt__f512 x) {
  const shmt__f512 rest = shmt__avx512_nmaddf(x, x, shmt__avx512_f(1.0f)), w = shmt__avx512_logf(rest);
  const __m512i u = _mm512_castps_si512(shmt__avx512_f(2.0f) - w);
  const shmt__f512 d = shmt__avx512_f(2.0f) - shmt__avx512_middlef(u) - w;
  const shmt__f512 y = x * shmt__avx512_in_octavesf(shmt__avx512_erfinvf_octaves, 6, u, d);
  const __mmask16 is_end = _mm512_cmp_ps_mask(rest, _mm512_setzero_ps(), _CMP_EQ_OQ);
  return _mm512_mask_mul_ps(y, is_end, x, shmt__avx512_f(INFINITY));
}
#endif

#endif
