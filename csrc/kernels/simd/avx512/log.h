/* kernels/simd/avx512/log.h -- logarithms of 512-bit vectors, and powers.
 *
 * x = 2^k m with m from 3/4 to 3/2. m is near a multiple of 1/16 (doubles) or 1/32 (floats), whose reciprocal c and the
 * logarithm of 1/c are looked up: log(x) = k log(2) - log(c) + log1p(r), r = m c - 1. Near 1, c is 1 and k is 0. The
 * instructions that split x handle subnormal numbers; they give an infinite k for 0 and infinity, and a NaN m for
 * negative x. */
#ifndef SHMT_KERNELS_SIMD_AVX512_LOG_H
#define SHMT_KERNELS_SIMD_AVX512_LOG_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/exp.h"
#include "kernels/simd/avx512/tables.h"

#if SHMT_HAS_AVX512
#include "kernels/simd/avx512/of_floats.h"
#include "kernels/simd/avx512/log.tmpl.h"

#include "kernels/simd/avx512/of_doubles.h"
#include "kernels/simd/avx512/log.tmpl.h"

#include "kernels/simd/avx512/of_neither.h"

/* |a|^b of 8 floats, computed in double as 2^(b log2 a). Does not handle 0^0. */
SHMT_VECTOR __m256 shmt__avx512_pow_of_8(__m256 a, __m256 b) {
  const shmt__d512 x = shmt__avx512_abs(_mm512_cvtps_pd(a)), m = shmt__avx512_mantissa(x);
  const shmt__d512 k = _mm512_getexp_pd(x) - _mm512_getexp_pd(m);
  const __m512i at = shmt__avx512_log_column(m);
  const shmt__d512 r = _mm512_fmsub_pd(m, shmt__avx512_lookup(shmt__avx512_logs2[0], at), shmt__avx512_d(1.0));
  shmt__d512 p = shmt__avx512_d(-0.2409195356489457), q = shmt__avx512_d(0.05550508525196963);
  p = shmt__avx512_madd(p, r, shmt__avx512_d(0.2890765415893161));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(-0.36067345386093774));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(0.480897996855308));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(-0.7213475204740327));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(1.4426950409227342));
  const shmt__d512 log = shmt__avx512_madd(p, r, k + shmt__avx512_lookup(shmt__avx512_logs2[1], at));
  const shmt__d512 e = shmt__avx512_within(log * _mm512_cvtps_pd(b), -160.0, 130.0);
  const shmt__d512 rounder = shmt__avx512_d(SHMT_ROUNDER(0x1p-4)), shifted = e + rounder;
  const shmt__d512 rest = e - (shifted - rounder);
  q = shmt__avx512_madd(q, rest, shmt__avx512_d(0.2402335515698872));
  q = shmt__avx512_madd(q, rest, shmt__avx512_d(0.6931471805599453));
  return _mm512_cvtpd_ps(shmt__avx512_value(shmt__avx512_scaled_by(shifted, q * rest)));
}
SHMT_VECTOR shmt__f512 shmt__avx512_powf(shmt__f512 a, shmt__f512 b) {
  const shmt__f512 c = shmt__avx512_withinf(b, -1e30f, 1e30f); /* infinity times the logarithm of 1 must be 0 */
  const __m256 low = shmt__avx512_pow_of_8(_mm512_castps512_ps256(a), _mm512_castps512_ps256(c));
  const __m256 high = shmt__avx512_pow_of_8(_mm512_extractf32x8_ps(a, 1), _mm512_extractf32x8_ps(c, 1));
  const shmt__f512 zero = _mm512_setzero_ps(), one = shmt__avx512_f(1.0f), half = b * shmt__avx512_f(0.5f);
  const int cut = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC;
  const __mmask16 is_part = _mm512_cmp_ps_mask(_mm512_roundscale_ps(b, cut), b, _CMP_NEQ_UQ);
  const __mmask16 is_odd = (__mmask16)~is_part & _mm512_cmp_ps_mask(_mm512_roundscale_ps(half, cut), half, _CMP_NEQ_UQ);
  const __mmask16 is_minus = _mm512_movepi32_mask(_mm512_castps_si512(a));
  const __mmask16 is_below =
      _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(a, zero, _CMP_LT_OQ), a, shmt__avx512_f(-INFINITY), _CMP_GT_OQ);
  shmt__f512 y = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
  y = _mm512_mask_xor_ps(y, is_minus & is_odd, y, shmt__avx512_f(-0.0f));
  y = _mm512_mask_mov_ps(y, is_below & is_part, shmt__avx512_f(NAN));
  return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(b, zero, _CMP_EQ_OQ) | _mm512_cmp_ps_mask(a, one, _CMP_EQ_OQ), one);
}

#endif

#endif
