/* kernels/simd/avx512/trigonometric.h -- sin, cos and tan of 512-bit vectors.
 *
 * x is rounded to a multiple of a 16th (doubles) or a 32nd (floats) of a turn. The multiple's sine and cosine (which is
 * the sine a quarter turn on) are looked up; two short polynomials are enough for the rest r. The rounding error of the
 * looked-up sine is added, so that results smaller than it are as exact. Large angles are reduced by the C library.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_TRIGONOMETRIC_H
#define SHMT_KERNELS_SIMD_AVX512_TRIGONOMETRIC_H

#include "kernels/simd/vmath_double.h"
#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/tables.h"

#if SHMT_HAS_AVX512
/* The reduction of |x|: the multiple's column in the table, r, sin(r) - r and cos(r) - 1. */
typedef struct shmt__avx512_reducedf {
  __m512i at;
  shmt__f512 r, sine, cosine;
} shmt__avx512_reducedf;
typedef struct shmt__avx512_reduced {
  __m512i at;
  shmt__d512 r, sine, cosine;
} shmt__avx512_reduced;

/* Subtracts the nearest multiple of a part of pi/2 from a; the multiple's number stands in the low bits of *at. */
SHMT_VECTOR shmt__f512 shmt__avx512_from_multiplef(shmt__f512 a, float parts, __m512i* at) {
  const shmt__f512 rounder = shmt__avx512_f(SHMT_ROUNDERF(1.0f));
  const shmt__f512 shifted = shmt__maddf(a, shmt__avx512_f(0.63661977f * parts), rounder), k = shifted - rounder;
  const shmt__f512 near = shmt__nmaddf(k, shmt__avx512_f(1.57079637f / parts), a);
  const shmt__f512 nearer = shmt__maddf(k, shmt__avx512_f(4.37113883e-8f / parts), near);
  *at = _mm512_castps_si512(shifted);
  return shmt__maddf(k, shmt__avx512_f(1.71512451e-15f / parts), nearer);
}
SHMT_VECTOR shmt__d512 shmt__avx512_from_multiple(shmt__d512 a, double parts, __m512i* at) {
  const shmt__d512 rounder = shmt__avx512_d(SHMT_ROUNDER(1.0));
  const shmt__d512 shifted = shmt__madd(a, shmt__avx512_d(0.63661977236758134 * parts), rounder), k = shifted - rounder;
  const shmt__d512 near = shmt__nmadd(k, shmt__avx512_d(1.5707963267948966 / parts), a);
  const shmt__d512 nearer = shmt__nmadd(k, shmt__avx512_d(6.123233995736766e-17 / parts), near);
  *at = _mm512_castpd_si512(shifted);
  return shmt__madd(k, shmt__avx512_d(1.4973849048591698e-33 / parts), nearer);
}
SHMT_VECTOR shmt__avx512_reducedf shmt__avx512_reducef(shmt__f512 a) {
  shmt__avx512_reducedf t;
  t.r = shmt__avx512_from_multiplef(a, 8, &t.at);
  const shmt__f512 z = t.r * t.r;
  const shmt__f512 s = shmt__maddf(z, shmt__avx512_f(8.331421e-03f), shmt__avx512_f(-1.6666667e-01f));
  const shmt__f512 c = shmt__maddf(z, shmt__avx512_f(4.1653283e-02f), shmt__avx512_f(-4.9999997e-01f));
  t.sine = z * t.r * s, t.cosine = z * c;
  return t;
}
SHMT_VECTOR shmt__avx512_reduced shmt__avx512_reduce(shmt__d512 a) {
  shmt__avx512_reduced t;
  t.r = shmt__avx512_from_multiple(a, 4, &t.at);
  const shmt__d512 z = t.r * t.r;
  shmt__d512 s = shmt__avx512_d(-2.5036634837116425e-08), c = shmt__avx512_d(-2.753720453432431e-07);
  s = shmt__madd(s, z, shmt__avx512_d(2.7557314004635457e-06));
  s = shmt__madd(s, z, shmt__avx512_d(-0.0001984126984055122));
  s = shmt__madd(s, z, shmt__avx512_d(0.008333333333333299));
  s = shmt__madd(s, z, shmt__avx512_d(-0.16666666666666666));
  c = shmt__madd(c, z, shmt__avx512_d(2.4801580516842383e-05));
  c = shmt__madd(c, z, shmt__avx512_d(-0.0013888888887954745));
  c = shmt__madd(c, z, shmt__avx512_d(0.04166666666666621));
  c = shmt__madd(c, z, shmt__avx512_d(-0.5));
  t.sine = z * t.r * s, t.cosine = z * c;
  return t;
}
/* The angle's sine, from the sine and cosine of the multiple in column `at`. Adds the smallest terms first. */
SHMT_VECTOR shmt__f512 shmt__avx512_sine_atf(shmt__avx512_reducedf a, __m512i at, shmt__f512 cosine) {
  const shmt__f512 sine = shmt__lookupf(shmt__avx512_sinesf[0], at), lack = shmt__lookupf(shmt__avx512_sinesf[1], at);
  const shmt__f512 small = shmt__maddf(sine, a.cosine, shmt__maddf(cosine, a.sine, lack));
  return shmt__maddf(cosine, a.r, small) + sine;
}
SHMT_VECTOR shmt__d512 shmt__avx512_sine_at(shmt__avx512_reduced a, __m512i at, shmt__d512 cosine) {
  const shmt__d512 sine = shmt__lookup(shmt__avx512_sines[0], at), lack = shmt__lookup(shmt__avx512_sines[1], at);
  const shmt__d512 small = shmt__madd(sine, a.cosine, shmt__madd(cosine, a.sine, lack));
  return shmt__madd(cosine, a.r, small) + sine;
}
SHMT_VECTOR __m512i shmt__avx512_quarter_onf(__m512i at) { return _mm512_add_epi32(at, _mm512_set1_epi32(8)); }
SHMT_VECTOR __m512i shmt__avx512_quarter_on(__m512i at) { return _mm512_add_epi64(at, _mm512_set1_epi64(4)); }
SHMT_VECTOR shmt__f512 shmt__avx512_sinef(shmt__avx512_reducedf a) {
  return shmt__avx512_sine_atf(a, a.at, shmt__lookupf(shmt__avx512_sinesf[0], shmt__avx512_quarter_onf(a.at)));
}
SHMT_VECTOR shmt__d512 shmt__avx512_sine(shmt__avx512_reduced a) {
  return shmt__avx512_sine_at(a, a.at, shmt__lookup(shmt__avx512_sines[0], shmt__avx512_quarter_on(a.at)));
}
SHMT_VECTOR shmt__f512 shmt__avx512_cosinef(shmt__avx512_reducedf a) {
  const shmt__f512 sine = shmt__lookupf(shmt__avx512_sinesf[0], a.at);
  return shmt__avx512_sine_atf(a, shmt__avx512_quarter_onf(a.at), -sine);
}
SHMT_VECTOR shmt__d512 shmt__avx512_cosine(shmt__avx512_reduced a) {
  const shmt__d512 sine = shmt__lookup(shmt__avx512_sines[0], a.at);
  return shmt__avx512_sine_at(a, shmt__avx512_quarter_on(a.at), -sine);
}

/* Replaces the results of large angles by those of `fn`, a function of the C library. */
static __attribute__((noinline, cold, unused)) shmt__f512 shmt__avx512_byf(shmt__f512 y, shmt__f512 x, uint32_t which,
                                                                            float (*fn)(float)) {
  for (int i = 0; i < 16; i++)
    if (which >> i & 1) y[i] = fn(x[i]);
  return y;
}
static __attribute__((noinline, cold, unused)) shmt__d512 shmt__avx512_by(shmt__d512 y, shmt__d512 x, uint32_t which,
                                                                           double (*fn)(double)) {
  for (int i = 0; i < 8; i++)
    if (which >> i & 1) y[i] = fn(x[i]);
  return y;
}
SHMT_VECTOR shmt__f512 shmt__avx512_unless_farf(shmt__f512 y, shmt__f512 x, float (*fn)(float)) {
  const uint32_t is_far = _mm512_cmp_ps_mask(shmt__avx512_absf(x), shmt__avx512_f(SHMT_TRIG_LIMIT), _CMP_NLE_UQ);
  return __builtin_expect(is_far != 0, 0) ? shmt__avx512_byf(y, x, is_far, fn) : y;
}
SHMT_VECTOR shmt__d512 shmt__avx512_unless_far(shmt__d512 y, shmt__d512 x, double (*fn)(double)) {
  const uint32_t is_far = _mm512_cmp_pd_mask(shmt__avx512_abs(x), shmt__avx512_d(SHMT_TRIG_LIMIT_DOUBLE), _CMP_NLE_UQ);
  return __builtin_expect(is_far != 0, 0) ? shmt__avx512_by(y, x, is_far, fn) : y;
}

/* y with its sign flipped where x is negative. */
SHMT_VECTOR shmt__f512 shmt__avx512_sign_flippedf(shmt__f512 y, shmt__f512 x) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(y), _mm512_castps_si512(x), sign, 0x78));
}
SHMT_VECTOR shmt__d512 shmt__avx512_sign_flipped(shmt__d512 y, shmt__d512 x) {
  const __m512i sign = _mm512_set1_epi64(INT64_MIN);
  return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(_mm512_castpd_si512(y), _mm512_castpd_si512(x), sign, 0x78));
}
SHMT_VECTOR shmt__f512 shmt__avx512_sinf(shmt__f512 x) {
  const shmt__avx512_reducedf a = shmt__avx512_reducef(shmt__avx512_absf(x));
  return shmt__avx512_unless_farf(shmt__avx512_sign_flippedf(shmt__avx512_sinef(a), x), x, sinf);
}
SHMT_VECTOR shmt__f512 shmt__avx512_cosf(shmt__f512 x) {
  const shmt__avx512_reducedf a = shmt__avx512_reducef(shmt__avx512_absf(x));
  return shmt__avx512_unless_farf(shmt__avx512_cosinef(a), x, cosf);
}
SHMT_VECTOR shmt__d512 shmt__avx512_sin(shmt__d512 x) {
  const shmt__avx512_reduced a = shmt__avx512_reduce(shmt__avx512_abs(x));
  return shmt__avx512_unless_far(shmt__avx512_sign_flipped(shmt__avx512_sine(a), x), x, sin);
}
SHMT_VECTOR shmt__d512 shmt__avx512_cos(shmt__d512 x) {
  const shmt__avx512_reduced a = shmt__avx512_reduce(shmt__avx512_abs(x));
  return shmt__avx512_unless_far(shmt__avx512_cosine(a), x, cos);
}

/* tan. It has the period pi, so the table covers half a turn. With t = tan(r) and the multiple's sine and cosine, the
 * result is (sine + cosine t) / (cosine - sine t). */
SHMT_VECTOR shmt__f512 shmt__avx512_tanf(shmt__f512 x) {
  __m512i at;
  const shmt__f512 r = shmt__avx512_from_multiplef(shmt__avx512_absf(x), 16, &at), z = r * r;
  const shmt__f512 p = shmt__maddf(z, shmt__avx512_f(1.3346349e-01f), shmt__avx512_f(3.3333328e-01f)),
                   t = shmt__maddf(z * r, p, r);
  const shmt__f512 sine = shmt__lookupf(shmt__avx512_half_anglef[0], at),
                   cosine = shmt__lookupf(shmt__avx512_half_anglef[2], at);
  const shmt__f512 high = shmt__maddf(cosine, t, shmt__lookupf(shmt__avx512_half_anglef[1], at)) + sine;
  const shmt__f512 low = shmt__nmaddf(sine, t, shmt__lookupf(shmt__avx512_half_anglef[3], at)) + cosine;
  return shmt__avx512_unless_farf(shmt__avx512_sign_flippedf(high / low, x), x, tanf);
}
SHMT_VECTOR shmt__d512 shmt__avx512_tan(shmt__d512 x) {
  __m512i at;
  const shmt__d512 r = shmt__avx512_from_multiple(shmt__avx512_abs(x), 8, &at), z = r * r;
  shmt__d512 p = shmt__avx512_d(0.0036345334233867372);
  p = shmt__madd(p, z, shmt__avx512_d(0.0088627746344159));
  p = shmt__madd(p, z, shmt__avx512_d(0.021869490842098323));
  p = shmt__madd(p, z, shmt__avx512_d(0.053968253963041876));
  p = shmt__madd(p, z, shmt__avx512_d(0.13333333333333763));
  p = shmt__madd(p, z, shmt__avx512_d(0.3333333333333333));
  const shmt__d512 t = shmt__madd(z * r, p, r);
  const shmt__d512 sine = shmt__lookup(shmt__avx512_half_angle[0], at),
                   cosine = shmt__lookup(shmt__avx512_half_angle[2], at);
  const shmt__d512 high = shmt__madd(cosine, t, shmt__lookup(shmt__avx512_half_angle[1], at)) + sine;
  const shmt__d512 low = shmt__nmadd(sine, t, shmt__lookup(shmt__avx512_half_angle[3], at)) + cosine;
  return shmt__avx512_unless_far(shmt__avx512_sign_flipped(high / low, x), x, tan);
}

#endif
#endif
