/* kernels/simd/vmath.h -- elementary functions without branches, so that loops over them vectorise. All levels.
 *
 * Names that end in f are for float. What is calculated alike for floats and doubles is in templates, vmath_*.tmpl.h:
 * of_float.h. Polynomials were fitted at Chebyshev nodes in extended precision. Errors are about
 * 1 ulp (exp, log) or 2 ulp (tanh, sigmoid, erf, log1p, expm1). To round to an integer, functions add and subtract 1.5
 * * 2^(mantissa bits), which needs no instruction beyond SSE2; the integer then stands in the low bits of the sum. MADD
 * is a fused multiply-add only where the hardware has one: elsewhere fmaf would be a call for each element.
 */
#ifndef SHMT_KERNELS_SIMD_VMATH_H
#define SHMT_KERNELS_SIMD_VMATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __FMA__
#define SHMT_MADDF(a, b, c) __builtin_fmaf(a, b, c)
#define SHMT_MADD(a, b, c)  __builtin_fma(a, b, c)
#else
#define SHMT_MADDF(a, b, c) ((a) * (b) + (c))
#define SHMT_MADD(a, b, c)  ((a) * (b) + (c))
#endif

/* Functions are always inlined: at -O2 the compiler would call long ones, and loops over them would not vectorise. */
#define SHMT_VMATH static inline __attribute__((always_inline))

static inline float shmt__float_of_bits(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v = {.u = u};
  return v.f;
}
static inline uint32_t shmt__bits_of_float(float f) {
  union {
    float f;
    uint32_t u;
  } v = {.f = f};
  return v.u;
}
static inline double shmt__double_of_bits(uint64_t u) {
  union {
    uint64_t u;
    double f;
  } v = {.u = u};
  return v.f;
}
static inline uint64_t shmt__bits_of_double(double f) {
  union {
    double f;
    uint64_t u;
  } v = {.f = f};
  return v.u;
}

/* yes ? a : b as bit operations, where the compiler would otherwise branch. */
SHMT_VMATH float shmt__choosef(int yes, float a, float b) {
  const uint32_t mask = (uint32_t) - (yes != 0);
  return shmt__float_of_bits((shmt__bits_of_float(a) & mask) | (shmt__bits_of_float(b) & ~mask));
}

#include "kernels/simd/of_float.h"
#include "kernels/simd/vmath_bits.tmpl.h"

#include "kernels/simd/of_double.h"
#include "kernels/simd/vmath_bits.tmpl.h"

#include "kernels/simd/of_neither.h"

/* x, which is positive or NaN, limited to high. */
SHMT_VMATH float shmt__at_mostf(float x, float high) {
  const uint32_t bits = shmt__bits_of_float(x), highest = shmt__bits_of_float(high);
  return shmt__float_of_bits(bits < highest ? bits : highest);
}
SHMT_VMATH double shmt__at_most(double x, double high) {
  const int64_t bits = (int64_t)shmt__bits_of_double(x), highest = (int64_t)shmt__bits_of_double(high);
  return shmt__double_of_bits((uint64_t)(bits < highest ? bits : highest));
}

/* --- exp ------------------------------------------------------------------------------- */

/* Writes x = n ln2 + r and returns exp(r) - 1. *n is a float with the integer n in its low bits. */
SHMT_VMATH float shmt__exp_coref(float x, float* n_shifted, float* n) {
  const float shifted = SHMT_MADDF(x, 1.44269504f, 12582912.0f);
  const float k = shifted - 12582912.0f;
  const float r = SHMT_MADDF(k, 2.1219444e-4f, SHMT_MADDF(k, -0.693359375f, x));
  float p = 1.3926927e-3f;
  p = SHMT_MADDF(p, r, 8.3637740e-3f);
  p = SHMT_MADDF(p, r, 4.1666549e-2f);
  p = SHMT_MADDF(p, r, 1.6666573e-1f);
  p = SHMT_MADDF(p, r, 0.5f);
  *n_shifted = shifted;
  *n = k;
  return SHMT_MADDF(p, r * r, r);
}
SHMT_VMATH double shmt__exp_core(double x, double* n_shifted, double* n) {
  const double shifted = SHMT_MADD(x, 1.4426950408889634, 6755399441055744.0);
  const double k = shifted - 6755399441055744.0;
  const double r = SHMT_MADD(k, -4.7493250390316726e-07, SHMT_MADD(k, -0.6931467056274414, x));
  double p = 2.0915442297780116e-09;
  p = SHMT_MADD(p, r, 2.5106274733573296e-08);
  p = SHMT_MADD(p, r, 2.75572718102198e-07);
  p = SHMT_MADD(p, r, 2.755725283351691e-06);
  p = SHMT_MADD(p, r, 2.4801587327007187e-05);
  p = SHMT_MADD(p, r, 1.9841269876864356e-04);
  p = SHMT_MADD(p, r, 1.3888888888883327e-03);
  p = SHMT_MADD(p, r, 8.333333333325544e-03);
  p = SHMT_MADD(p, r, 4.166666666666667e-02);
  p = SHMT_MADD(p, r, 1.666666666666667e-01);
  p = SHMT_MADD(p, r, 0.5);
  *n_shifted = shifted;
  *n = k;
  return SHMT_MADD(p, r * r, r);
}

#include "kernels/simd/of_float.h"
#include "kernels/simd/vmath_exp.tmpl.h"

#include "kernels/simd/of_double.h"
#include "kernels/simd/vmath_exp.tmpl.h"

#include "kernels/simd/of_neither.h"

/* exp(-x) for callers that ignore results below 2^-124 and need no NaN. */
SHMT_VMATH float shmt__exp_of_minusf(float x) {
  float shifted, n;
  const float c = shmt__vmath_clampf(x, -89.0f, 86.0f);
  const float e = shmt__exp_coref(-c, &shifted, &n) + 1.0f;
  /* n reaches 128, and 2^128 is not a float: one factor of 2 is multiplied separately. */
  return shmt__float_of_bits(shmt__bits_of_float(e) + (shmt__bits_of_float(shifted) << 23) - 0x800000u) * 2.0f;
}

/* --- log ------------------------------------------------------------------------------- */

/* log(1 + m) - m + m*m/2 for sqrt(1/2) <= 1 + m < sqrt(2) */
SHMT_VMATH float shmt__log_polynomial(float m) {
  float p = 6.9716118e-2f;
  p = SHMT_MADDF(p, m, -0.11479734f);
  p = SHMT_MADDF(p, m, 0.11685420f);
  p = SHMT_MADDF(p, m, -0.12425687f);
  p = SHMT_MADDF(p, m, 0.14249058f);
  p = SHMT_MADDF(p, m, -0.16667803f);
  p = SHMT_MADDF(p, m, 0.20000716f);
  p = SHMT_MADDF(p, m, -0.24999997f);
  p = SHMT_MADDF(p, m, 0.33333331f);
  return p * m * (m * m);
}
/* For normal x > 0: x = 2^k (1 + f). Returns log(1 + f) - f + f*f/2. */
SHMT_VMATH float shmt__log_core(float x, float* k, float* f) {
  const uint32_t bits = shmt__bits_of_float(x) + (0x3f800000u - 0x3f3504f3u);

  *k = (float)((int32_t)(bits >> 23) - 127);
  *f = shmt__float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  return shmt__log_polynomial(*f);
}
/* log(x) * scale + k * (log2 in that base, in two parts) for every x. */
SHMT_VMATH float shmt__log_in_basef(float x, float scale, float high, float low) {
  float k, f;
  const float tiny = x < 1.17549435e-38f ? 1.0f : 0.0f;
  const float normal = tiny != 0 ? x * 8388608.0f : x;
  const float t = shmt__log_core(normal, &k, &f);
  k -= 23.0f * tiny;
  const float small = SHMT_MADDF(f * f, -0.5f, t) + f;
  const float y = SHMT_MADDF(k, high, SHMT_MADDF(k, low, small * scale));
  const float special = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return x > 0 && x < INFINITY ? y : special;
}
SHMT_VMATH float shmt__logf(float x) {
  float k, f;
  const float tiny = x < 1.17549435e-38f ? 1.0f : 0.0f;
  const float normal = tiny != 0 ? x * 8388608.0f : x;
  const float t = shmt__log_core(normal, &k, &f);
  k -= 23.0f * tiny;
  const float y =
      SHMT_MADDF(k, 0.693359375f, f + SHMT_MADDF(f * f, -0.5f, SHMT_MADDF(k, -2.1219444e-4f, t)));
  const float special = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return x > 0 && x < INFINITY ? y : special;
}
SHMT_VMATH float shmt__log2f(float x) { return shmt__log_in_basef(x, 1.44269504f, 1.0f, 0.0f); }
SHMT_VMATH float shmt__log10f(float x) {
  return shmt__log_in_basef(x, 0.43429448f, 0.301025391f, 4.60503811e-6f);
}
/* Writes 1 + x = 2^k (1 + f) and computes f from x itself, so that a small x loses no digits. */
SHMT_VMATH float shmt__log1pf(float x) {
  const float u = 1.0f + x;
  const uint32_t bits = shmt__bits_of_float(u) + (0x3f800000u - 0x3f3504f3u);
  const float power = shmt__float_of_bits(0x7f000000u - (bits & 0x7f800000u)); /* 2^-k */
  const float plain = shmt__float_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float f = u > 1e9f ? plain : SHMT_MADDF(x, power, power - 1.0f);
  const float k = (float)((int32_t)(bits >> 23) - 127);
  const float t = shmt__log_polynomial(f);
  const float y =
      SHMT_MADDF(k, 0.693359375f, f + SHMT_MADDF(f * f, -0.5f, SHMT_MADDF(k, -2.1219444e-4f, t)));
  const float special = u == 0 ? -INFINITY : u < 0 ? NAN : x;
  return u > 0 && u < INFINITY && x != 0 ? y : special;
}

/* log(1 + x) for 0 <= x <= 1; a NaN passes. */
SHMT_VMATH float shmt__log1p_unitf(float x) {
  const float k = x > 0.41421356f ? 1.0f : 0.0f, f = k != 0 ? SHMT_MADDF(x, 0.5f, -0.5f) : x;
  const float t = shmt__log_polynomial(f);
  return SHMT_MADDF(k, 0.693359375f, f + SHMT_MADDF(f * f, -0.5f, SHMT_MADDF(k, -2.1219444e-4f, t)));
}

/* x = 2^k (1 + f) for normal x > 0 */
static inline __attribute__((always_inline)) void shmt__log_parts(double x, double* k, double* f) {
  const uint64_t bits = shmt__bits_of_double(x) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  *f = shmt__double_of_bits((bits & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  /* The exponent as a double without a 64-bit conversion: put into the low bits of 2^52. */
  *k = shmt__double_of_bits((bits >> 52) | 0x4330000000000000u) - 4503599627370496.0 - 1023.0;
}
/* log(1 + f) + more, with `more` added among the small terms */
SHMT_VMATH double shmt__log_1p_core(double f, double more) {
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  double p = 0.14616449685043406;
  p = SHMT_MADD(p, z, 0.15331721600556042);
  p = SHMT_MADD(p, z, 0.18182889125261723);
  p = SHMT_MADD(p, z, 0.2222221113479508);
  p = SHMT_MADD(p, z, 0.28571428625975487);
  p = SHMT_MADD(p, z, 0.39999999999899505);
  p = SHMT_MADD(p, z, 0.666666666666667);
  return f - (half - (s * (half + z * p) + more));
}
/* As shmt__log1p_unitf. */
SHMT_VMATH double shmt__log1p_unit(double x) {
  const double k = x > 0.41421356237309503 ? 1.0 : 0.0, f = k != 0 ? SHMT_MADD(x, 0.5, -0.5) : x;
  return SHMT_MADD(k, 0.6931467056274414, shmt__log_1p_core(f, k * 4.7493250390316726e-07));
}
SHMT_VMATH double shmt__log(double x) {
  double k, f;
  const double tiny = x < 2.2250738585072014e-308 ? 1.0 : 0.0;
  shmt__log_parts(tiny != 0 ? x * 4503599627370496.0 : x, &k, &f);
  k -= 52.0 * tiny;
  const double y = SHMT_MADD(k, 0.6931467056274414, shmt__log_1p_core(f, k * 4.7493250390316726e-07));
  const double special = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return x > 0 && x < INFINITY ? y : special;
}

/* --- built on exp ------------------------------------------------------------------------ */

SHMT_VMATH float shmt__tanhf(float x) {
  const float a = shmt__float_of_bits(shmt__bits_of_float(x) & 0x7fffffffu), z = x * x;
  const float c = shmt__at_mostf(a, 10.0f);
  float shifted, n;
  const float e = shmt__exp_coref(2.0f * c, &shifted, &n), scale = shmt__power_of_twof(shifted);
  const float m = SHMT_MADDF(e, scale, scale - 1.0f); /* exp(2 c) - 1 */
  float p = -5.89060318e-3f;
  p = SHMT_MADDF(p, z, 2.08004341e-2f);
  p = SHMT_MADDF(p, z, -5.37881441e-2f);
  p = SHMT_MADDF(p, z, 0.133320197f);
  p = SHMT_MADDF(p, z, -0.333333045f);
  const float near = SHMT_MADDF(p * z, a, a), far = m / (m + 2.0f);
  return x != x ? x : shmt__copysignf(a < 0.6f ? near : far, x);
}
/* Results below 2^-127 are 0. 1 + exp(-x) is rounded once. It is computed divided by 2, so that n = 128 does not
 * overflow; the rounding error of the sum is added to the term that is not a power of two. */
SHMT_VMATH float shmt__sigmoidf(float x) {
  float shifted, n;
  const float e = shmt__exp_coref(-shmt__vmath_clampf(x, -89.0f, 86.0f), &shifted, &n);
  const float scale = shmt__float_of_bits((shmt__bits_of_float(shifted) << 23) + 0x3f000000u);
  const float sum = scale + 0.5f, lost = 0.5f - (sum - scale);
  const float y = 1.0f / ((SHMT_MADDF(e, scale, lost) + sum) * 2.0f);
  return x != x ? x : y;
}
SHMT_VMATH double shmt__sigmoid(double x) { return 1.0 / (1.0 + shmt__exp(-x)); }

/* Near 0 a polynomial in x*x; further out 1 - exp(p), where the polynomial p is log(erfc). Always inlined: in a longer
 * expression the compiler would call it, and the loop would not vectorise. */
SHMT_VMATH float shmt__erf_near(float x) {
  const float z = x * x;
  float p = 8.351897e-5f;
  p = SHMT_MADDF(p, z, -8.1387925e-4f);
  p = SHMT_MADDF(p, z, 5.2007297e-3f);
  p = SHMT_MADDF(p, z, -2.6859285e-2f);
  p = SHMT_MADDF(p, z, 0.11283694f);
  p = SHMT_MADDF(p, z, -0.37612635f);
  p = SHMT_MADDF(p, z, 0.12837917f);
  return SHMT_MADDF(p, x, x);
}
SHMT_VMATH float shmt__erff(float x) {
  const float a = shmt__float_of_bits(shmt__bits_of_float(x) & 0x7fffffffu);
  const float t = shmt__at_mostf(a, 4.0f);
  float q = -5.1485674e-8f;
  q = SHMT_MADDF(q, t, 2.7547028e-6f);
  q = SHMT_MADDF(q, t, -5.6546691e-5f);
  q = SHMT_MADDF(q, t, 6.5253634e-4f);
  q = SHMT_MADDF(q, t, -4.9438779e-3f);
  q = SHMT_MADDF(q, t, 2.6813354e-2f);
  q = SHMT_MADDF(q, t, -0.11061599f);
  q = SHMT_MADDF(q, t, -0.63137388f);
  q = SHMT_MADDF(q, t, -1.1304467f);
  q = SHMT_MADDF(q, t, 3.6289933e-4f);
  float shifted, n; /* q > -16: one factor is enough */
  const float e = shmt__exp_coref(q, &shifted, &n) + 1.0f;
  const float far = shmt__copysignf(1.0f - e * shmt__power_of_twof(shifted), x);
  return shmt__choosef(a < 0.92f || x != x, shmt__erf_near(x), far);
}
/* erf as x P(x*x) / Q(x*x), and 1 from 3.93 on. The error is about 5 ulp: for results that are rounded to a shorter
 * type or added to larger terms. */
SHMT_VMATH float shmt__erf_coarsef(float x) {
  const float c = shmt__vmath_clampf(x, -3.93f, 3.93f), z = c * c;
  float p = -1.285818446e-8f, q = 6.250126313e-5f;
  p = SHMT_MADDF(p, z, 4.620100307e-6f);
  p = SHMT_MADDF(p, z, 3.771690998e-4f);
  p = SHMT_MADDF(p, z, 3.840296663e-3f);
  p = SHMT_MADDF(p, z, 5.425477018e-2f);
  p = SHMT_MADDF(p, z, 0.1851476396f);
  p = SHMT_MADDF(p, z, 1.128379169f);
  q = SHMT_MADDF(q, z, 1.302412335e-3f);
  q = SHMT_MADDF(q, z, 1.543485195e-2f);
  q = SHMT_MADDF(q, z, 0.1138869624f);
  q = SHMT_MADDF(q, z, 0.4974162307f);
  q = SHMT_MADDF(q, z, 1.0f);
  const float y = c * p / q;
  return x != x ? x : shmt__vmath_clampf(y, -1.0f, 1.0f);
}

/* --- circular --------------------------------------------------------------------------- */

/* The largest |x| for which a pi/2 in three parts is exact enough. Beyond it, callers use the C library. */
#define SHMT_TRIG_LIMITF 8192.0f

/* Subtracts the nearest multiple of pi/2 from x; the multiple's number stands in the low bits of *shifted. Products
 * with the first parts of pi/2 are exact, because they are fused or because the parts are short. */
SHMT_VMATH float shmt__reduce_half_pif(float x, float* shifted) {
  *shifted = SHMT_MADDF(x, 0.63661977f, 12582912.0f);
  const float k = *shifted - 12582912.0f;
#ifdef __FMA__
  const float r = SHMT_MADDF(k, 4.37113883e-8f, SHMT_MADDF(k, -1.57079637f, x));
  return SHMT_MADDF(k, 1.71512451e-15f, r);
#else
  const float r = ((x - k * 1.5703125f) - k * 4.83751297e-4f) - k * 7.54953362e-8f;
  return r - k * 2.56334407e-12f;
#endif
}

SHMT_VMATH float shmt__sin_polynomialf(float r) {
  const float z = r * r;
  float s = 2.7249926e-6f;
  s = SHMT_MADDF(s, z, -1.9840087e-4f);
  s = SHMT_MADDF(s, z, 8.3333319e-3f);
  s = SHMT_MADDF(s, z, -0.16666667f);
  return SHMT_MADDF(s * z, r, r);
}
SHMT_VMATH float shmt__cos_polynomialf(float r) {
  const float z = r * r;
  float c = 2.4547942e-5f;
  c = SHMT_MADDF(c, z, -1.3888302e-3f);
  c = SHMT_MADDF(c, z, 4.1666664e-2f);
  return SHMT_MADDF(c * z, z, SHMT_MADDF(z, -0.5f, 1.0f));
}

#include "kernels/simd/of_float.h"
#include "kernels/simd/vmath_sin_cos.tmpl.h"

#include "kernels/simd/of_neither.h"

#endif
