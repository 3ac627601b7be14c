/* kernels/wide_log.h -- logarithms of 512-bit vectors, and powers.
 *
 * x = 2^k m with m from 3/4 to 3/2. m is near some multiple of 1/16 (doubles) or 1/32 (floats), whose reciprocal c and
 * the logarithm of 1/c are looked up: log(x) = k log(2) - log(c) + log1p(r), r = m c - 1. About 1, c is 1 and k is 0. The
 * instructions that take x apart know subnormal numbers, make k infinite of 0 and infinity, and m a NaN of what is
 * negative.
 */
#ifndef SHMT_KERNELS_WIDE_LOG_H
#define SHMT_KERNELS_WIDE_LOG_H

#include "kernels/wide.h"
#include "kernels/wide_exp.h"
#include "kernels/wide_tables.h"

#if SHMT_HAS_WIDE
SHMT_VECTOR shmt__wf shmt__wide_mantissaf(shmt__wf x) {
  return _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
}
SHMT_VECTOR shmt__wd shmt__wide_mantissa(shmt__wd x) {
  return _mm512_getmant_pd(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
}
/* Where m's reciprocal stands in a table. */
SHMT_VECTOR __m512i shmt__wide_log_columnf(shmt__wf m) {
  return _mm512_castps_si512(m + shmt__wide_f(SHMT_ROUNDERF(0x1p-5f)));
}
SHMT_VECTOR __m512i shmt__wide_log_column(shmt__wd m) {
  return _mm512_castpd_si512(m + shmt__wide_d(SHMT_ROUNDER(0x1p-4)));
}
/* k log(2) + at + log1p(r), all of it times `scale`: log(2) in that base is high + low, which
 * is not negative: an infinite k must not meet its opposite. */
SHMT_VECTOR shmt__wf shmt__wide_log_sumf(shmt__wf k, shmt__wf at, shmt__wf r, float scale, float high, float low) {
  shmt__wf p = shmt__wide_f(-2.5005427e-01f * scale);
  p = shmt__maddf(p, r, shmt__wide_f(3.3339846e-01f * scale));
  p = shmt__maddf(p, r, shmt__wide_f(-5.0e-01f * scale));
  const shmt__wf turns = shmt__maddf(k, shmt__wide_f(high), at);
  shmt__wf rest = r * r * p;
  if (low != 0) rest = shmt__maddf(k, shmt__wide_f(low), rest);
  return turns + shmt__maddf(r, shmt__wide_f(scale), rest);
}
SHMT_VECTOR shmt__wd shmt__wide_log_sum(shmt__wd k, shmt__wd at, shmt__wd r, double scale, double high, double low) {
  shmt__wd p = shmt__wide_d(-0.10032624883989222 * scale);
  p = shmt__madd(p, r, shmt__wide_d(0.11146700874018471 * scale));
  p = shmt__madd(p, r, shmt__wide_d(-0.1249995748981349 * scale));
  p = shmt__madd(p, r, shmt__wide_d(0.14285667912711614 * scale));
  p = shmt__madd(p, r, shmt__wide_d(-0.16666666687173523 * scale));
  p = shmt__madd(p, r, shmt__wide_d(0.20000000022370187 * scale));
  p = shmt__madd(p, r, shmt__wide_d(-0.2499999999999733 * scale));
  p = shmt__madd(p, r, shmt__wide_d(0.3333333333333042 * scale));
  p = shmt__madd(p, r, shmt__wide_d(-0.5 * scale));
  const shmt__wd turns = shmt__madd(k, shmt__wide_d(high), at);
  shmt__wd rest = r * r * p;
  if (low != 0) rest = shmt__madd(k, shmt__wide_d(low), rest);
  return turns + shmt__madd(r, shmt__wide_d(scale), rest);
}
SHMT_VECTOR shmt__wf shmt__wide_log_in_basef(shmt__wf x, const float (*table)[32], float scale, float high, float low) {
  const shmt__wf m = shmt__wide_mantissaf(x), k = _mm512_getexp_ps(x) - _mm512_getexp_ps(m);
  const __m512i at = shmt__wide_log_columnf(m);
  const shmt__wf r = _mm512_fmsub_ps(m, shmt__lookupf(table[0], at), shmt__wide_f(1.0f));
  return shmt__wide_log_sumf(k, shmt__lookupf(table[1], at), r, scale, high, low);
}
SHMT_VECTOR shmt__wd shmt__wide_log_in_base(shmt__wd x, const double (*table)[16], double scale, double high, double low) {
  const shmt__wd m = shmt__wide_mantissa(x), k = _mm512_getexp_pd(x) - _mm512_getexp_pd(m);
  const __m512i at = shmt__wide_log_column(m);
  const shmt__wd r = _mm512_fmsub_pd(m, shmt__lookup(table[0], at), shmt__wide_d(1.0));
  return shmt__wide_log_sum(k, shmt__lookup(table[1], at), r, scale, high, low);
}
SHMT_VECTOR shmt__wf shmt__wide_logf(shmt__wf x) {
  return shmt__wide_log_in_basef(x, shmt__wide_logsf, 1.0f, 0.693147123f, 5.76999888e-08f);
}
SHMT_VECTOR shmt__wd shmt__wide_log(shmt__wd x) {
  return shmt__wide_log_in_base(x, shmt__wide_logs, 1.0, 0.69314718055994531, 2.3190468138462996e-17);
}
SHMT_VECTOR shmt__wf shmt__wide_log2f(shmt__wf x) {
  return shmt__wide_log_in_basef(x, shmt__wide_logs2f, 1.44269504f, 1.0f, 0.0f);
}
SHMT_VECTOR shmt__wd shmt__wide_log2(shmt__wd x) {
  return shmt__wide_log_in_base(x, shmt__wide_logs2, 1.4426950408889634, 1.0, 0.0);
}
SHMT_VECTOR shmt__wf shmt__wide_log10f(shmt__wf x) {
  return shmt__wide_log_in_basef(x, shmt__wide_logs10f, 0.434294492f, 0.30102998f, 1.54813335e-08f);
}
SHMT_VECTOR shmt__wd shmt__wide_log10(shmt__wd x) {
  return shmt__wide_log_in_base(x, shmt__wide_logs10, 0.43429448190325182, 0.30102999566398114, 5.270742310347266e-17);
}

/* log(1 + x): what 1 + x loses of x is added to r. */
SHMT_VECTOR shmt__wf shmt__wide_log1pf(shmt__wf x) {
  const shmt__wf one = shmt__wide_f(1.0f), u = one + x, lost = x - (u - one);
  const shmt__wf m = shmt__wide_mantissaf(u), k = _mm512_getexp_ps(u) - _mm512_getexp_ps(m);
  const __m512i at = shmt__wide_log_columnf(m);
  const shmt__wf c = shmt__lookupf(shmt__wide_logsf[0], at), less = shmt__wide_minusf(k);
  /* Nothing is lost of 0 and infinity, whose k is infinite. */
  const __mmask16 usual = _mm512_cmp_ps_mask(shmt__wide_absf(k), shmt__wide_f(INFINITY), _CMP_NEQ_UQ);
  const shmt__wf r = shmt__maddf(_mm512_maskz_scalef_ps(usual, lost, less), c, _mm512_fmsub_ps(m, c, one));
  const shmt__wf y = shmt__wide_log_sumf(k, shmt__lookupf(shmt__wide_logsf[1], at), r, 1.0f, 0.693147123f, 5.76999888e-08f);
  return shmt__signedf(y, x);
}
SHMT_VECTOR shmt__wd shmt__wide_log1p(shmt__wd x) {
  const shmt__wd one = shmt__wide_d(1.0), u = one + x, lost = x - (u - one);
  const shmt__wd m = shmt__wide_mantissa(u), k = _mm512_getexp_pd(u) - _mm512_getexp_pd(m);
  const __m512i at = shmt__wide_log_column(m);
  const shmt__wd c = shmt__lookup(shmt__wide_logs[0], at), less = shmt__wide_minus(k);
  const __mmask8 usual = _mm512_cmp_pd_mask(shmt__wide_abs(k), shmt__wide_d(INFINITY), _CMP_NEQ_UQ);
  const shmt__wd r = shmt__madd(_mm512_maskz_scalef_pd(usual, lost, less), c, _mm512_fmsub_pd(m, c, one));
  const shmt__wd y =
      shmt__wide_log_sum(k, shmt__lookup(shmt__wide_logs[1], at), r, 1.0, 0.69314718055994531, 2.3190468138462996e-17);
  return shmt__signed(y, x);
}

#endif
#endif
