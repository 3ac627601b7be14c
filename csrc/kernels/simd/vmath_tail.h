/* kernels/simd/vmath_tail.h -- the rarer elementary functions of floats, without branches.
 *
 * Written and fitted as those of vmath.h. Where float has too few digits for intermediate results, they are double.
 * tools/accuracy.py measures the errors; docs/accuracy.md lists them.
 */
#ifndef SHMT_KERNELS_SIMD_VMATH_TAIL_H
#define SHMT_KERNELS_SIMD_VMATH_TAIL_H

#include "kernels/simd/vmath.h"

static const float shmt__half_pi_highf = 1.57079637f, shmt__half_pi_lowf = -4.37113883e-8f;

/* --- built on exp ------------------------------------------------------------------------ */

SHMT_VMATH float shmt__exp2f(float x) {
  const float c = shmt__vmath_clampf(shmt__unless_belowf(x, -150.0f, x), -150.0f, 129.0f);
  const float shifted = c + 12582912.0f, k = shifted - 12582912.0f, r = c - k;
  float p = 1.54697322e-4f;
  p = SHMT_MADDF(p, r, 1.33908715e-3f);
  p = SHMT_MADDF(p, r, 9.61803086e-3f);
  p = SHMT_MADDF(p, r, 5.55035695e-2f);
  p = SHMT_MADDF(p, r, 0.240226507f);
  p = SHMT_MADDF(p, r, 0.693147182f);
  const float y = shmt__scaledf(SHMT_MADDF(p, r, 1.0f), shifted);
  return x != x ? x : shmt__unless_belowf(x, -150.0f, y);
}

/* exp(a) / 2 for 0 <= a <= 89.5. It is finite even where exp(a) overflows. */
SHMT_VMATH float shmt__half_expf(float a) {
  float shifted, n;
  const float e = shmt__exp_coref(a, &shifted, &n) + 1.0f;
  return shmt__float_of_bits(shmt__bits_of_float(e) + (shmt__bits_of_float(shifted) << 23) - 0x1000000u) * 2.0f;
}
/* sinh(x) is x + x z p up to 1, with z = x x. */
SHMT_VMATH float shmt__sinh_polynomialf(float z) {
  float p = 2.81704115e-6f;
  p = SHMT_MADDF(p, z, 1.98361478e-4f);
  p = SHMT_MADDF(p, z, 8.33335053e-3f);
  return SHMT_MADDF(p, z, 0.166666672f);
}

/* 1 - erf(x) up to 0.9; from there on exp(-a*a) P(a) / Q(a). */
SHMT_VMATH float shmt__erfcf(float x) {
  const float a = shmt__magnitudef(x), c = shmt__at_mostf(a, 10.2f);
  const float square = c * c;
#ifdef __FMA__
  const float lost = __builtin_fmaf(c, c, -square);
#else
  const float high = shmt__float_of_bits(shmt__bits_of_float(c) & 0xfffff000u), low = c - high;
  const float lost = ((high * high - square) + 2.0f * high * low) + low * low;
#endif
  const double d = (double)c;
  double p = 4.63099492e-2, q = 8.20820182e-2;
  p = SHMT_MADD(p, d, 0.283207454);
  p = SHMT_MADD(p, d, 0.83664554);
  p = SHMT_MADD(p, d, 1.32956189);
  p = SHMT_MADD(p, d, 1.00001844);
  q = SHMT_MADD(q, d, 0.50198208);
  q = SHMT_MADD(q, d, 1.52376874);
  q = SHMT_MADD(q, d, 2.60964021);
  q = SHMT_MADD(q, d, 2.45810587);
  q = SHMT_MADD(q, d, 1.0);
  float shifted, n;
  float e = shmt__exp_coref(-square, &shifted, &n) + 1.0f;
  e = SHMT_MADDF(e, -lost, e) * ((float)p / (float)q);
  const float y = shmt__scaledf(e, shifted);
  const float far = x < 0 ? 2.0f - y : y;
  return a < 0.9f || x != x ? 1.0f - shmt__erf_near(x) : far;
}

/* |x| times the area of the normal distribution beyond |x|, which is 2^P(|x|). The error is about one ulp of x. Results
 * below 1e-34, and that of a NaN, are 0. */
SHMT_VMATH float shmt__tail_productf(float x) {
  const float a = shmt__at_mostf(shmt__magnitudef(x), 12.5f);
  float p = -5.31343592e-9f, q = 1.54697322e-4f;
  p = SHMT_MADDF(p, a, 2.56041695e-7f);
  p = SHMT_MADDF(p, a, -4.83455818e-6f);
  p = SHMT_MADDF(p, a, 4.4638887e-5f);
  p = SHMT_MADDF(p, a, -1.86930497e-4f);
  p = SHMT_MADDF(p, a, -1.574282e-4f);
  p = SHMT_MADDF(p, a, 7.10171329e-3f);
  p = SHMT_MADDF(p, a, -5.25252343e-2f);
  p = SHMT_MADDF(p, a, -0.459198478f);
  p = SHMT_MADDF(p, a, -1.15110642f);
  p = SHMT_MADDF(p, a, -1.0f);
  const float shifted = p + 12582912.0f, r = p - (shifted - 12582912.0f);
  q = SHMT_MADDF(q, r, 1.33908715e-3f);
  q = SHMT_MADDF(q, r, 9.61803086e-3f);
  q = SHMT_MADDF(q, r, 5.55035695e-2f);
  q = SHMT_MADDF(q, r, 0.240226507f);
  q = SHMT_MADDF(q, r, 0.693147182f);
  const float e = SHMT_MADDF(q, r, 1.0f);
  const float y = a * shmt__float_of_bits(shmt__bits_of_float(e) + (shmt__bits_of_float(shifted) << 23));
  return a < 12.5f ? y : 0.0f;
}
/* The same with an error of about 2^-18 of x. */
SHMT_VMATH float shmt__tail_product_coarsef(float x) {
  const float a = shmt__at_mostf(shmt__magnitudef(x), 12.5f);
  float p = 2.32332026e-5f, q = 9.6760371e-3f;
  p = SHMT_MADDF(p, a, -6.80928166e-4f);
  p = SHMT_MADDF(p, a, 7.7946059e-3f);
  p = SHMT_MADDF(p, a, -5.29904365e-2f);
  p = SHMT_MADDF(p, a, -0.459059762f);
  p = SHMT_MADDF(p, a, -1.15111912f);
  p = SHMT_MADDF(p, a, -1.0f);
  const float shifted = p + 12582912.0f, r = p - (shifted - 12582912.0f);
  q = SHMT_MADDF(q, r, 5.59220356e-2f);
  q = SHMT_MADDF(q, r, 0.240221074f);
  q = SHMT_MADDF(q, r, 0.693121034f);
  const float e = SHMT_MADDF(q, r, 1.0f);
  const float y = a * shmt__float_of_bits(shmt__bits_of_float(e) + (shmt__bits_of_float(shifted) << 23));
  return a < 12.5f ? y : 0.0f;
}

/* --- circular --------------------------------------------------------------------------- */

/* For |x| <= SHMT_TRIG_LIMITF. */
SHMT_VMATH float shmt__tanf(float x) {
  float shifted;
  const float r = shmt__reduce_half_pif(x, &shifted), z = r * r;
  float p = 4.41105152e-3f;
  p = SHMT_MADDF(p, z, 3.07450973e-5f);
  p = SHMT_MADDF(p, z, 1.08701512e-2f);
  p = SHMT_MADDF(p, z, 2.127528e-2f);
  p = SHMT_MADDF(p, z, 5.40594719e-2f);
  p = SHMT_MADDF(p, z, 0.133326918f);
  p = SHMT_MADDF(p, z, 0.333333462f);
  const float t = SHMT_MADDF(p * z, r, r);
  return x == 0 ? x : shmt__bits_of_float(shifted) & 1u ? -1.0f / t : t;
}

/* asin of s with s*s = z <= 1/4 */
SHMT_VMATH float shmt__asin_coref(float s, float z) {
  float p = 3.67468037e-2f;
  p = SHMT_MADDF(p, z, 1.50363054e-2f);
  p = SHMT_MADDF(p, z, 3.16326506e-2f);
  p = SHMT_MADDF(p, z, 4.45407107e-2f);
  p = SHMT_MADDF(p, z, 7.50035867e-2f);
  p = SHMT_MADDF(p, z, 0.166666627f);
  return SHMT_MADDF(p * z, s, s);
}

/* atan(t) for 0 <= t <= 1 */
SHMT_VMATH float shmt__atan_core(float t) {
  const float z = t * t;
  float p = -1.88282866e-3f;
  p = SHMT_MADDF(p, z, 1.13207391e-2f);
  p = SHMT_MADDF(p, z, -3.19497176e-2f);
  p = SHMT_MADDF(p, z, 5.8750473e-2f);
  p = SHMT_MADDF(p, z, -8.45104381e-2f);
  p = SHMT_MADDF(p, z, 0.10969013f);
  p = SHMT_MADDF(p, z, -0.142675877f);
  p = SHMT_MADDF(p, z, 0.199988797f);
  p = SHMT_MADDF(p, z, -0.333333105f);
  return SHMT_MADDF(p * z, t, t);
}
SHMT_VMATH float shmt__atanf(float x) {
  const float a = shmt__magnitudef(x), r = shmt__atan_core(a > 1.0f ? 1.0f / a : a);
  const float far = (shmt__half_pi_highf - r) + shmt__half_pi_lowf;
  return shmt__copysignf(a > 1.0f ? far : r, x);
}
SHMT_VMATH float shmt__atan2f(float y, float x) {
  const float ay = shmt__magnitudef(y), ax = shmt__magnitudef(x);
  const float high = ay > ax ? ay : ax, low = ay > ax ? ax : ay;
  /* 0 / 0 has the direction of 0 / 1, and infinity / infinity that of 1 / 1. */
  const float ratio = high == 0 ? low : low == INFINITY ? (high == low ? 1.0f : high) : low / high;
  const float r = shmt__atan_core(ratio);
  const float acute = ay > ax ? (shmt__half_pi_highf - r) + shmt__half_pi_lowf : r;
  const float obtuse = (2.0f * shmt__half_pi_highf - acute) + 2.0f * shmt__half_pi_lowf;
  return shmt__copysignf(shmt__bits_of_float(x) >> 31 ? obtuse : acute, y);
}

/* --- built on log ------------------------------------------------------------------------ */

SHMT_VMATH float shmt__atanhf(float x) {
  const float a = shmt__magnitudef(x), z = x * x;
  float p = 0.171631992f;
  p = SHMT_MADDF(p, z, 2.84288581e-2f);
  p = SHMT_MADDF(p, z, 0.101428062f);
  p = SHMT_MADDF(p, z, 0.109921694f);
  p = SHMT_MADDF(p, z, 0.142925501f);
  p = SHMT_MADDF(p, z, 0.199998289f);
  p = SHMT_MADDF(p, z, 0.333333343f);
  const float far = 0.5f * shmt__logf((1.0f + a) / (1.0f - a));
  return a < 0.5f ? SHMT_MADDF(p * z, x, x) : shmt__copysignf(far, x);
}
SHMT_VMATH float shmt__asinhf(float x) {
  const float a = shmt__magnitudef(x), z = x * x;
  float p = 2.41054635e-4f;
  p = SHMT_MADDF(p, z, -1.58515945e-3f);
  p = SHMT_MADDF(p, z, 4.92058042e-3f);
  p = SHMT_MADDF(p, z, -9.95705649e-3f);
  p = SHMT_MADDF(p, z, 1.56443827e-2f);
  p = SHMT_MADDF(p, z, -2.18826797e-2f);
  p = SHMT_MADDF(p, z, 3.02931853e-2f);
  p = SHMT_MADDF(p, z, -4.46335897e-2f);
  p = SHMT_MADDF(p, z, 7.49995336e-2f);
  p = SHMT_MADDF(p, z, -0.166666657f);
  const float root = __builtin_sqrtf(SHMT_MADDF(a, a, 1.0f));
  const float far = shmt__logf(a > 1e4f ? a : a + root) + (a > 1e4f ? 0.693147181f : 0.0f);
  return shmt__copysignf(a < 1.0f ? SHMT_MADDF(p * z, a, a) : far, x);
}

/* A polynomial in w = -log(1 - x*x). Source of the form: Giles, "Approximating the erfinv function", 2011. */
SHMT_VMATH float shmt__erfinvf(float x) {
#ifdef __FMA__
  const float rest = __builtin_fmaf(-x, x, 1.0f);
#else
  const float rest = (1.0f - x) * (1.0f + x);
#endif
  const float w = -shmt__logf(rest), u = w - 2.5f, v = __builtin_sqrtf(w) - 3.0f;
  float p = -8.58977423e-9f, q = -2.82226374e-5f;
  p = SHMT_MADDF(p, u, 2.31860025e-8f);
  p = SHMT_MADDF(p, u, 4.63374647e-7f);
  p = SHMT_MADDF(p, u, -3.46213596e-6f);
  p = SHMT_MADDF(p, u, -4.95045515e-6f);
  p = SHMT_MADDF(p, u, 2.18342291e-4f);
  p = SHMT_MADDF(p, u, -1.25276379e-3f);
  p = SHMT_MADDF(p, u, -4.17738408e-3f);
  p = SHMT_MADDF(p, u, 0.246640295f);
  p = SHMT_MADDF(p, u, 1.50140941f);
  q = SHMT_MADDF(q, v, 1.59705523e-4f);
  q = SHMT_MADDF(q, v, -2.79766507e-4f);
  q = SHMT_MADDF(q, v, -1.18930759e-4f);
  q = SHMT_MADDF(q, v, 1.476584e-3f);
  q = SHMT_MADDF(q, v, -3.56754684e-3f);
  q = SHMT_MADDF(q, v, 5.68729592e-3f);
  q = SHMT_MADDF(q, v, -7.64270453e-3f);
  q = SHMT_MADDF(q, v, 9.44534224e-3f);
  q = SHMT_MADDF(q, v, 1.00167525f);
  q = SHMT_MADDF(q, v, 2.83297682f);
  const float y = (w < 5.0f ? p : q) * x;
  return rest == 0 ? x * INFINITY : y;
}

/* --- as for doubles ----------------------------------------------------------------------- */

#include "kernels/simd/of_float.h"
#include "kernels/simd/vmath_tail.tmpl.h"

#include "kernels/simd/of_neither.h"

/* --- two numbers ------------------------------------------------------------------------- */

SHMT_VMATH float shmt__hypotf(float a, float b) {
  const double x = (double)a, y = (double)b;
  const float h = (float)__builtin_sqrt(x * x + y * y);
  const bool infinite = shmt__magnitudef(a) == INFINITY || shmt__magnitudef(b) == INFINITY;
  return infinite ? INFINITY : h;
}

/* |a|^b for finite a != 0 and finite b, computed in double as 2^(b log2 a). */
SHMT_VMATH float shmt__pow_core(float a, float b) {
  double k, f, p = -0.071709212991869484;
  shmt__log_parts((double)shmt__magnitudef(a), &k, &f);
  p = SHMT_MADD(p, f, 0.13406486249607524);
  p = SHMT_MADD(p, f, -0.13439375671062748);
  p = SHMT_MADD(p, f, 0.12986736284832295);
  p = SHMT_MADD(p, f, -0.14248093887144181);
  p = SHMT_MADD(p, f, 0.16025756798413965);
  p = SHMT_MADD(p, f, -0.18044051711276674);
  p = SHMT_MADD(p, f, 0.20610518907245834);
  p = SHMT_MADD(p, f, -0.240446246592599);
  p = SHMT_MADD(p, f, 0.28853883843365097);
  p = SHMT_MADD(p, f, -0.36067379642684194);
  p = SHMT_MADD(p, f, 0.48089834844378909);
  p = SHMT_MADD(p, f, -0.72134752031249072);
  p = SHMT_MADD(p, f, 1.4426950408870862);
  const double exponent = (double)b * SHMT_MADD(p, f, k);
  const double c = shmt__vmath_clamp(exponent, -200.0, 200.0);
  const double shifted = c + 6755399441055744.0, r = c - (shifted - 6755399441055744.0);
  double q = 1.5310081143138152e-05;
  q = SHMT_MADD(q, r, 0.00015461450224027109);
  q = SHMT_MADD(q, r, 0.0013333454548154324);
  q = SHMT_MADD(q, r, 0.0096180566612583673);
  q = SHMT_MADD(q, r, 0.05550410928754352);
  q = SHMT_MADD(q, r, 0.24022650922396663);
  q = SHMT_MADD(q, r, 0.69314718055371782);
  return (float)(SHMT_MADD(q, r, 1.0) *
                 shmt__double_of_bits((shmt__bits_of_double(shifted) + 1023u) << 52));
}
SHMT_VMATH float shmt__powf(float a, float b) { return shmt__signed_powerf(shmt__pow_core(a, b), a, b); }

#endif
