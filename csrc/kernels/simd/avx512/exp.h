/* kernels/simd/avx512/exp.h -- exponentials of 512-bit vectors, and functions made of them: expm1, sigmoid, tanh, gelu.
 *
 * exp(x) = 2^k exp(r), with k a multiple of 1/16 (doubles) or 1/32 (floats). The power of the fraction of k is looked
 * up, so a short polynomial is enough for exp(r). The scaling instruction handles subnormal results, 0 and infinity.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_EXP_H
#define SHMT_KERNELS_SIMD_AVX512_EXP_H

#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/tables.h"

#if SHMT_HAS_AVX512
#include "kernels/simd/avx512/of_floats.h"
#include "kernels/simd/avx512/exp.tmpl.h"

#include "kernels/simd/avx512/of_doubles.h"
#include "kernels/simd/avx512/exp.tmpl.h"

#include "kernels/simd/avx512/of_neither.h"

/* 1 + exp(-x), rounded once. Both terms are divided by 2, because 2^128 is not a float. The rounding errors of the
 * looked-up power and of the sum are added to the term that is not a power. */
SHMT_VECTOR shmt__f512 shmt__avx512_one_plus_expf(shmt__f512 x) {
  const shmt__f512 c = shmt__avx512_withinf(x, -89.0f, 89.0f), rounder = shmt__avx512_f(SHMT_ROUNDERF(0x1p-5f));
  const shmt__f512 shifted = shmt__avx512_maddf(c, shmt__avx512_f(-1.44269504f), rounder), k = shifted - rounder;
  const shmt__f512 near = _mm512_fnmsub_ps(k, shmt__avx512_f(0.693147182f), c), half = shmt__avx512_f(0.5f);
  const shmt__f512 r = shmt__avx512_maddf(k, shmt__avx512_f(1.90465430e-9f), near);
  const __m512i at = _mm512_castps_si512(shifted);
  const shmt__f512 power = _mm512_scalef_ps(shmt__avx512_lookupf(shmt__avx512_half_powersf[0], at), k);
  const shmt__f512 rest = shmt__avx512_short_expm1f(r) + shmt__avx512_lookupf(shmt__avx512_half_powersf[1], at);
  const shmt__f512 sum = power + half, high = _mm512_max_ps(power, half), low = _mm512_min_ps(power, half);
  const shmt__f512 y = shmt__avx512_maddf(power, rest, low - (sum - high)) + sum;
  return y + y;
}
SHMT_VECTOR shmt__f512 shmt__avx512_sigmoidf(shmt__f512 x) {
  return shmt__avx512_f(1.0f) / shmt__avx512_one_plus_expf(x);
}
SHMT_VECTOR shmt__d512 shmt__avx512_sigmoid(shmt__d512 x) {
  const shmt__d512 one = shmt__avx512_d(1.0);
  return one / (one + shmt__avx512_exp(shmt__avx512_minus(x)));
}
/* sigmoid with an error of about 2 ulp, for results that are rounded to a shorter type. */
SHMT_VECTOR shmt__f512 shmt__avx512_sigmoid_coarsef(shmt__f512 x) {
  const shmt__f512 one = shmt__avx512_f(1.0f), d = one + shmt__avx512_expf(shmt__avx512_minusf(x)),
                   y = _mm512_rcp14_ps(d);
  const shmt__f512 e = shmt__avx512_nmaddf(d, y, one); /* not a number where d is infinite */
  return _mm512_mask3_fmadd_ps(e, y, y, _mm512_cmp_ps_mask(e, e, _CMP_ORD_Q));
}
SHMT_VECTOR shmt__f512 shmt__avx512_siluf(shmt__f512 x) { return x / shmt__avx512_one_plus_expf(x); }
SHMT_VECTOR shmt__d512 shmt__avx512_silu(shmt__d512 x) {
  return x / (shmt__avx512_d(1.0) + shmt__avx512_exp(shmt__avx512_minus(x)));
}

/* tanh by e = exp(2 |x|) - 1, without a looked-up power, whose rounding error would show. */
SHMT_VECTOR shmt__d512 shmt__avx512_tanh(shmt__d512 x) {
  const shmt__d512 a = shmt__avx512_at_most(shmt__avx512_abs(x), 20.0), c = a + a, one = shmt__avx512_d(1.0);
  const shmt__d512 rounder = shmt__avx512_d(SHMT_ROUNDER(1.0));
  const shmt__d512 k = shmt__avx512_madd(c, shmt__avx512_d(1.4426950408889634), rounder) - rounder;
  const shmt__d512 near = shmt__avx512_nmadd(k, shmt__avx512_d(0.69314718055994531), c);
  const shmt__d512 r = shmt__avx512_nmadd(k, shmt__avx512_d(2.3190468138462996e-17), near);
  shmt__d512 p = shmt__avx512_d(2.0915442297780116e-09);
  p = shmt__avx512_madd(p, r, shmt__avx512_d(2.5106274733573296e-08));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(2.75572718102198e-07));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(2.755725283351691e-06));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(2.4801587327007187e-05));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(1.9841269876864356e-04));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(1.3888888888883327e-03));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(8.333333333325544e-03));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(4.166666666666667e-02));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(1.666666666666667e-01));
  p = shmt__avx512_madd(p, r, shmt__avx512_d(0.5));
  const shmt__d512 scale = _mm512_scalef_pd(one, k), q = shmt__avx512_madd(r * r, p, r);
  const shmt__d512 e = shmt__avx512_madd(q, scale, scale - one);
  return shmt__avx512_signed(e / (e + shmt__avx512_d(2.0)), x);
}

/* gelu, as in activation.tmpl.h. The area of the normal distribution beyond |x| is 2^P(|x|), as in vmath_tail.h. */
SHMT_VECTOR shmt__f512 shmt__avx512_above_zerof(shmt__f512 x) {
  return _mm512_mask_mul_ps(x, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), x, _mm512_setzero_ps());
}
SHMT_VECTOR shmt__f512 shmt__avx512_geluf(shmt__f512 x) {
  const shmt__f512 a = shmt__avx512_at_mostf(shmt__avx512_absf(x), 12.5f),
                   rounder = shmt__avx512_f(SHMT_ROUNDERF(0x1p-5f));
  shmt__f512 p = shmt__avx512_f(-5.31343592e-9f), q = shmt__avx512_f(5.550435e-02f);
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(2.56041695e-7f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-4.83455818e-6f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(4.4638887e-5f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-1.86930497e-4f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-1.574282e-4f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(7.10171329e-3f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-5.25252343e-2f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-0.459198478f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-1.15110642f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-1.0f));
  const shmt__f512 shifted = p + rounder, r = p - (shifted - rounder);
  q = shmt__avx512_maddf(q, r, shmt__avx512_f(2.4022827e-01f));
  q = shmt__avx512_maddf(q, r, shmt__avx512_f(6.931472e-01f));
  const shmt__f512 area = shmt__avx512_valuef(shmt__avx512_scaled_byf(shifted, q * r));
  const __mmask16 is_some = _mm512_cmp_ps_mask(a, shmt__avx512_f(12.5f), _CMP_NEQ_UQ);
  return shmt__avx512_above_zerof(x) - _mm512_maskz_mul_ps(is_some, a, area);
}
SHMT_VECTOR shmt__f512 shmt__avx512_gelu_coarsef(shmt__f512 x) {
  const shmt__f512 a = shmt__avx512_at_mostf(shmt__avx512_absf(x), 12.5f),
                   rounder = shmt__avx512_f(SHMT_ROUNDERF(0x1p-5f));
  shmt__f512 p = shmt__avx512_f(2.32332026e-5f), q = shmt__avx512_f(2.4022827e-01f);
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-6.80928166e-4f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(7.7946059e-3f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-5.29904365e-2f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-0.459059762f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-1.15111912f));
  p = shmt__avx512_maddf(p, a, shmt__avx512_f(-1.0f));
  const shmt__f512 shifted = p + rounder, r = p - (shifted - rounder);
  q = shmt__avx512_maddf(q, r, shmt__avx512_f(6.931472e-01f));
  const shmt__f512 area = shmt__avx512_valuef(shmt__avx512_scaled_byf(shifted, q * r));
  const __mmask16 is_some = _mm512_cmp_ps_mask(a, shmt__avx512_f(12.5f), _CMP_NEQ_UQ);
  return shmt__avx512_above_zerof(x) - _mm512_maskz_mul_ps(is_some, a, area);
}

#endif

#endif
