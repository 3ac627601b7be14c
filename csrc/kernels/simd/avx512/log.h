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
SHMT_VECTOR shmt__f512 shmt__avx512_mantissaf(shmt__f512 x) {
  return _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
}
SHMT_VECTOR shmt__d512 shmt__avx512_mantissa(shmt__d512 x) {
  return _mm512_getmant_pd(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
}
/* The column of m's reciprocal in the tables. */
SHMT_VECTOR __m512i shmt__avx512_log_columnf(shmt__f512 m) {
  return _mm512_castps_si512(m + shmt__avx512_f(SHMT_ROUNDERF(0x1p-5f)));
}
SHMT_VECTOR __m512i shmt__avx512_log_column(shmt__d512 m) {
  return _mm512_castpd_si512(m + shmt__avx512_d(SHMT_ROUNDER(0x1p-4)));
}
/* log1p(r) times `scale` for |r| <= 1/48 (doubles: 1/24), with `rest` added among the small terms */
SHMT_VECTOR shmt__f512 shmt__avx512_scaled_log1pf(shmt__f512 r, float scale, shmt__f512 rest) {
  shmt__f512 p = shmt__avx512_f(-2.5005427e-01f * scale);
  p = shmt__maddf(p, r, shmt__avx512_f(3.3339846e-01f * scale));
  p = shmt__maddf(p, r, shmt__avx512_f(-5.0e-01f * scale));
  return shmt__maddf(r, shmt__avx512_f(scale), shmt__maddf(r * r, p, rest));
}
SHMT_VECTOR shmt__d512 shmt__avx512_scaled_log1p(shmt__d512 r, double scale, shmt__d512 rest) {
  shmt__d512 p = shmt__avx512_d(-0.10032624883989222 * scale);
  p = shmt__madd(p, r, shmt__avx512_d(0.11146700874018471 * scale));
  p = shmt__madd(p, r, shmt__avx512_d(-0.1249995748981349 * scale));
  p = shmt__madd(p, r, shmt__avx512_d(0.14285667912711614 * scale));
  p = shmt__madd(p, r, shmt__avx512_d(-0.16666666687173523 * scale));
  p = shmt__madd(p, r, shmt__avx512_d(0.20000000022370187 * scale));
  p = shmt__madd(p, r, shmt__avx512_d(-0.2499999999999733 * scale));
  p = shmt__madd(p, r, shmt__avx512_d(0.3333333333333042 * scale));
  p = shmt__madd(p, r, shmt__avx512_d(-0.5 * scale));
  return shmt__madd(r, shmt__avx512_d(scale), shmt__madd(r * r, p, rest));
}
SHMT_VECTOR shmt__f512 shmt__avx512_short_log1pf(shmt__f512 r) {
  return shmt__avx512_scaled_log1pf(r, 1.0f, _mm512_setzero_ps());
}
SHMT_VECTOR shmt__d512 shmt__avx512_short_log1p(shmt__d512 r) {
  return shmt__avx512_scaled_log1p(r, 1.0, _mm512_setzero_pd());
}
/* (k log(2) + at + log1p(r)) * scale. log(2) in the base is high + low; low is not negative, so that an infinite k
 * gives no infinity of the other sign. */
SHMT_VECTOR shmt__f512 shmt__avx512_log_sumf(shmt__f512 k, shmt__f512 at, shmt__f512 r, float scale, float high,
                                             float low) {
  shmt__f512 rest = _mm512_setzero_ps();
  if (low != 0) rest = k * shmt__avx512_f(low);
  return shmt__maddf(k, shmt__avx512_f(high), at) + shmt__avx512_scaled_log1pf(r, scale, rest);
}
SHMT_VECTOR shmt__d512 shmt__avx512_log_sum(shmt__d512 k, shmt__d512 at, shmt__d512 r, double scale, double high,
                                            double low) {
  shmt__d512 rest = _mm512_setzero_pd();
  if (low != 0) rest = k * shmt__avx512_d(low);
  return shmt__madd(k, shmt__avx512_d(high), at) + shmt__avx512_scaled_log1p(r, scale, rest);
}
SHMT_VECTOR shmt__f512 shmt__avx512_log_in_basef(shmt__f512 x, const float (*table)[32], float scale, float high,
                                                 float low) {
  const shmt__f512 m = shmt__avx512_mantissaf(x), k = _mm512_getexp_ps(x) - _mm512_getexp_ps(m);
  const __m512i at = shmt__avx512_log_columnf(m);
  const shmt__f512 r = _mm512_fmsub_ps(m, shmt__lookupf(table[0], at), shmt__avx512_f(1.0f));
  return shmt__avx512_log_sumf(k, shmt__lookupf(table[1], at), r, scale, high, low);
}
SHMT_VECTOR shmt__d512 shmt__avx512_log_in_base(shmt__d512 x, const double (*table)[16], double scale, double high,
                                                double low) {
  const shmt__d512 m = shmt__avx512_mantissa(x), k = _mm512_getexp_pd(x) - _mm512_getexp_pd(m);
  const __m512i at = shmt__avx512_log_column(m);
  const shmt__d512 r = _mm512_fmsub_pd(m, shmt__lookup(table[0], at), shmt__avx512_d(1.0));
  return shmt__avx512_log_sum(k, shmt__lookup(table[1], at), r, scale, high, low);
}
SHMT_VECTOR shmt__f512 shmt__avx512_logf(shmt__f512 x) {
  return shmt__avx512_log_in_basef(x, shmt__avx512_logsf, 1.0f, 0.693147123f, 5.76999888e-08f);
}
SHMT_VECTOR shmt__d512 shmt__avx512_log(shmt__d512 x) {
  return shmt__avx512_log_in_base(x, shmt__avx512_logs, 1.0, 0.69314718055994531, 2.3190468138462996e-17);
}
SHMT_VECTOR shmt__f512 shmt__avx512_log2f(shmt__f512 x) {
  return shmt__avx512_log_in_basef(x, shmt__avx512_logs2f, 1.44269504f, 1.0f, 0.0f);
}
SHMT_VECTOR shmt__d512 shmt__avx512_log2(shmt__d512 x) {
  return shmt__avx512_log_in_base(x, shmt__avx512_logs2, 1.4426950408889634, 1.0, 0.0);
}
SHMT_VECTOR shmt__f512 shmt__avx512_log10f(shmt__f512 x) {
  return shmt__avx512_log_in_basef(x, shmt__avx512_logs10f, 0.434294492f, 0.30102998f, 1.54813335e-08f);
}
SHMT_VECTOR shmt__d512 shmt__avx512_log10(shmt__d512 x) {
  return shmt__avx512_log_in_base(x, shmt__avx512_logs10, 0.43429448190325182, 0.30102999566398114,
                                  5.270742310347266e-17);
}

/* log(1 + x): the rounding error of 1 + x is added to r. */
SHMT_VECTOR shmt__f512 shmt__avx512_log1pf(shmt__f512 x) {
  const shmt__f512 one = shmt__avx512_f(1.0f), u = one + x, lost = x - (u - one);
  const shmt__f512 m = shmt__avx512_mantissaf(u), k = _mm512_getexp_ps(u) - _mm512_getexp_ps(m);
  const __m512i at = shmt__avx512_log_columnf(m);
  const shmt__f512 c = shmt__lookupf(shmt__avx512_logsf[0], at), less = shmt__avx512_minusf(k);
  /* Where k is infinite (1 + x is 0 or infinity), there is no rounding error to add. */
  const __mmask16 usual = _mm512_cmp_ps_mask(shmt__avx512_absf(k), shmt__avx512_f(INFINITY), _CMP_NEQ_UQ);
  const shmt__f512 r = shmt__maddf(_mm512_maskz_scalef_ps(usual, lost, less), c, _mm512_fmsub_ps(m, c, one));
  const shmt__f512 y =
      shmt__avx512_log_sumf(k, shmt__lookupf(shmt__avx512_logsf[1], at), r, 1.0f, 0.693147123f, 5.76999888e-08f);
  return shmt__signedf(y, x);
}
SHMT_VECTOR shmt__d512 shmt__avx512_log1p(shmt__d512 x) {
  const shmt__d512 one = shmt__avx512_d(1.0), u = one + x, lost = x - (u - one);
  const shmt__d512 m = shmt__avx512_mantissa(u), k = _mm512_getexp_pd(u) - _mm512_getexp_pd(m);
  const __m512i at = shmt__avx512_log_column(m);
  const shmt__d512 c = shmt__lookup(shmt__avx512_logs[0], at), less = shmt__avx512_minus(k);
  const __mmask8 usual = _mm512_cmp_pd_mask(shmt__avx512_abs(k), shmt__avx512_d(INFINITY), _CMP_NEQ_UQ);
  const shmt__d512 r = shmt__madd(_mm512_maskz_scalef_pd(usual, lost, less), c, _mm512_fmsub_pd(m, c, one));
  const shmt__d512 y = shmt__avx512_log_sum(k, shmt__lookup(shmt__avx512_logs[1], at), r, 1.0, 0.69314718055994531,
                                            2.3190468138462996e-17);
  return shmt__signed(y, x);
}

/* log(1 + x) for 0 <= x <= 1; a NaN passes. 1 + x is never computed: (1 + x) c - 1 is x c + (c - 1). */
SHMT_VECTOR shmt__f512 shmt__avx512_log1p_unitf(shmt__f512 x) {
  const __m512i at = _mm512_castps_si512(shmt__maddf(x, shmt__avx512_f(31.0f), shmt__avx512_f(SHMT_ROUNDERF(1.0f))));
  const shmt__f512 c = shmt__lookupf(shmt__avx512_unit_logsf[0], at);
  const shmt__f512 r = shmt__maddf(x, c, c - shmt__avx512_f(1.0f));
  return shmt__lookupf(shmt__avx512_unit_logsf[1], at) + shmt__avx512_short_log1pf(r);
}
SHMT_VECTOR shmt__d512 shmt__avx512_log1p_unit(shmt__d512 x) {
  const __m512i at = _mm512_castpd_si512(shmt__madd(x, shmt__avx512_d(15.0), shmt__avx512_d(SHMT_ROUNDER(1.0))));
  const shmt__d512 c = shmt__lookup(shmt__avx512_unit_logs[0], at);
  const shmt__d512 r = shmt__madd(x, c, c - shmt__avx512_d(1.0));
  return shmt__lookup(shmt__avx512_unit_logs[1], at) + shmt__avx512_short_log1p(r);
}
/* log(1 + exp(-a)) for a >= 0. Just above a power of two, the float exponential is coarser than the logarithm: the
 * rounding error of its looked-up power is added. */
SHMT_VECTOR shmt__f512 shmt__avx512_log1p_expf(shmt__f512 a) {
  shmt__avx512_scaledf e = shmt__avx512_exp_partsf(shmt__avx512_minusf(shmt__avx512_at_mostf(a, 105.0f)));
  e.rest = e.rest + shmt__lookupf(shmt__avx512_half_powersf[1], e.at);
  return shmt__avx512_log1p_unitf(shmt__avx512_valuef(e));
}
SHMT_VECTOR shmt__d512 shmt__avx512_log1p_exp(shmt__d512 a) {
  return shmt__avx512_log1p_unit(
      shmt__avx512_value(shmt__avx512_exp_parts(shmt__avx512_minus(shmt__avx512_at_most(a, 750.0)))));
}
SHMT_VECTOR shmt__f512 shmt__avx512_log_sigmoidf(shmt__f512 x) {
  return _mm512_min_ps(_mm512_setzero_ps(), x) - shmt__avx512_log1p_expf(shmt__avx512_absf(x));
}
SHMT_VECTOR shmt__d512 shmt__avx512_log_sigmoid(shmt__d512 x) {
  return _mm512_min_pd(_mm512_setzero_pd(), x) - shmt__avx512_log1p_exp(shmt__avx512_abs(x));
}
SHMT_VECTOR shmt__f512 shmt__avx512_softplusf(shmt__f512 a, float beta, float at, float one_by_beta) {
  const shmt__f512 x = a * shmt__avx512_f(beta);
  const shmt__f512 y = _mm512_max_ps(_mm512_setzero_ps(), x) + shmt__avx512_log1p_expf(shmt__avx512_absf(x));
  return _mm512_mask_mov_ps(y * shmt__avx512_f(one_by_beta), _mm512_cmp_ps_mask(x, shmt__avx512_f(at), _CMP_GT_OQ), a);
}
SHMT_VECTOR shmt__d512 shmt__avx512_softplus(shmt__d512 a, double beta, double at, double one_by_beta) {
  const shmt__d512 x = a * shmt__avx512_d(beta);
  const shmt__d512 y = _mm512_max_pd(_mm512_setzero_pd(), x) + shmt__avx512_log1p_exp(shmt__avx512_abs(x));
  return _mm512_mask_mov_pd(y * shmt__avx512_d(one_by_beta), _mm512_cmp_pd_mask(x, shmt__avx512_d(at), _CMP_GT_OQ), a);
}
/* logaddexp's |a - b|: equal infinities have distance 0, and a NaN in either argument gives a NaN distance. */
SHMT_VECTOR shmt__f512 shmt__avx512_logaddexpf(shmt__f512 a, shmt__f512 b) {
  const shmt__f512 away = _mm512_maskz_sub_ps(_mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ), a, b);
  return _mm512_max_ps(a, b) + shmt__avx512_log1p_expf(shmt__avx512_absf(away));
}
SHMT_VECTOR shmt__d512 shmt__avx512_logaddexp(shmt__d512 a, shmt__d512 b) {
  const shmt__d512 away = _mm512_maskz_sub_pd(_mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ), a, b);
  return _mm512_max_pd(a, b) + shmt__avx512_log1p_exp(shmt__avx512_abs(away));
}

/* |a|^b of 8 floats, computed in double as 2^(b log2 a). Does not handle 0^0. */
SHMT_VECTOR __m256 shmt__avx512_pow_of_8(__m256 a, __m256 b) {
  const shmt__d512 x = shmt__avx512_abs(_mm512_cvtps_pd(a)), m = shmt__avx512_mantissa(x);
  const shmt__d512 k = _mm512_getexp_pd(x) - _mm512_getexp_pd(m);
  const __m512i at = shmt__avx512_log_column(m);
  const shmt__d512 r = _mm512_fmsub_pd(m, shmt__lookup(shmt__avx512_logs2[0], at), shmt__avx512_d(1.0));
  shmt__d512 p = shmt__avx512_d(-0.2409195356489457), q = shmt__avx512_d(0.05550508525196963);
  p = shmt__madd(p, r, shmt__avx512_d(0.2890765415893161));
  p = shmt__madd(p, r, shmt__avx512_d(-0.36067345386093774));
  p = shmt__madd(p, r, shmt__avx512_d(0.480897996855308));
  p = shmt__madd(p, r, shmt__avx512_d(-0.7213475204740327));
  p = shmt__madd(p, r, shmt__avx512_d(1.4426950409227342));
  const shmt__d512 log = shmt__madd(p, r, k + shmt__lookup(shmt__avx512_logs2[1], at));
  const shmt__d512 e = shmt__within(log * _mm512_cvtps_pd(b), -160.0, 130.0);
  const shmt__d512 rounder = shmt__avx512_d(SHMT_ROUNDER(0x1p-4)), shifted = e + rounder, turns = shifted - rounder;
  const shmt__d512 rest = e - turns;
  q = shmt__madd(q, rest, shmt__avx512_d(0.2402335515698872));
  q = shmt__madd(q, rest, shmt__avx512_d(0.6931471805599453));
  const shmt__d512 power = shmt__lookup(shmt__avx512_powers[0], _mm512_castpd_si512(shifted));
  return _mm512_cvtpd_ps(shmt__avx512_value((shmt__avx512_scaled){power, q * rest, turns}));
}
SHMT_VECTOR shmt__f512 shmt__avx512_powf(shmt__f512 a, shmt__f512 b) {
  const shmt__f512 c = shmt__withinf(b, -1e30f, 1e30f); /* infinity times the logarithm of 1 must be 0 */
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
