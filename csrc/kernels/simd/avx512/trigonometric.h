/* kernels/simd/avx512/trigonometric.h -- sine, cosine and tangent of 512-bit vectors.
 *
 * x is near some multiple of a 16th (doubles) or a 32nd (floats) of a turn, whose sine and cosine, a quarter turn on, are
 * looked up; of what is left, r, two short polynomials do. What a looked-up sine lacks is added, so that a result
 * is not worse where it is smaller than that. Large angles need the C library's reduction.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_TRIGONOMETRIC_H
#define SHMT_KERNELS_SIMD_AVX512_TRIGONOMETRIC_H

#include "kernels/simd/vmath_double.h"
#include "kernels/simd/avx512/avx512.h"
#include "kernels/simd/avx512/tables.h"

#if SHMT_HAS_WIDE
/* Of |x|: where the multiple stands in the table, r, sin(r) - r and cos(r) - 1. */
typedef struct shmt__wide_reducedf {
  __m512i at;
  shmt__wf r, sine, cosine;
} shmt__wide_reducedf;
typedef struct shmt__wide_reduced {
  __m512i at;
  shmt__wd r, sine, cosine;
} shmt__wide_reduced;

/* a less the nearest multiple of a part of pi/2, whose number stands in the low bits of *at. */
SHMT_VECTOR shmt__wf shmt__wide_from_multiplef(shmt__wf a, float parts, __m512i* at) {
  const shmt__wf rounder = shmt__wide_f(SHMT_ROUNDERF(1.0f));
  const shmt__wf shifted = shmt__maddf(a, shmt__wide_f(0.63661977f * parts), rounder), k = shifted - rounder;
  const shmt__wf near = shmt__nmaddf(k, shmt__wide_f(1.57079637f / parts), a);
  const shmt__wf nearer = shmt__maddf(k, shmt__wide_f(4.37113883e-8f / parts), near);
  *at = _mm512_castps_si512(shifted);
  return shmt__maddf(k, shmt__wide_f(1.71512451e-15f / parts), nearer);
}
SHMT_VECTOR shmt__wd shmt__wide_from_multiple(shmt__wd a, double parts, __m512i* at) {
  const shmt__wd rounder = shmt__wide_d(SHMT_ROUNDER(1.0));
  const shmt__wd shifted = shmt__madd(a, shmt__wide_d(0.63661977236758134 * parts), rounder), k = shifted - rounder;
  const shmt__wd near = shmt__nmadd(k, shmt__wide_d(1.5707963267948966 / parts), a);
  const shmt__wd nearer = shmt__nmadd(k, shmt__wide_d(6.123233995736766e-17 / parts), near);
  *at = _mm512_castpd_si512(shifted);
  return shmt__madd(k, shmt__wide_d(1.4973849048591698e-33 / parts), nearer);
}
SHMT_VECTOR shmt__wide_reducedf shmt__wide_reducef(shmt__wf a) {
  shmt__wide_reducedf t;
  t.r = shmt__wide_from_multiplef(a, 8, &t.at);
  const shmt__wf z = t.r * t.r;
  const shmt__wf s = shmt__maddf(z, shmt__wide_f(8.331421e-03f), shmt__wide_f(-1.6666667e-01f));
  const shmt__wf c = shmt__maddf(z, shmt__wide_f(4.1653283e-02f), shmt__wide_f(-4.9999997e-01f));
  t.sine = z * t.r * s, t.cosine = z * c;
  return t;
}
SHMT_VECTOR shmt__wide_reduced shmt__wide_reduce(shmt__wd a) {
  shmt__wide_reduced t;
  t.r = shmt__wide_from_multiple(a, 4, &t.at);
  const shmt__wd z = t.r * t.r;
  shmt__wd s = shmt__wide_d(-2.5036634837116425e-08), c = shmt__wide_d(-2.753720453432431e-07);
  s = shmt__madd(s, z, shmt__wide_d(2.7557314004635457e-06));
  s = shmt__madd(s, z, shmt__wide_d(-0.0001984126984055122));
  s = shmt__madd(s, z, shmt__wide_d(0.008333333333333299));
  s = shmt__madd(s, z, shmt__wide_d(-0.16666666666666666));
  c = shmt__madd(c, z, shmt__wide_d(2.4801580516842383e-05));
  c = shmt__madd(c, z, shmt__wide_d(-0.0013888888887954745));
  c = shmt__madd(c, z, shmt__wide_d(0.04166666666666621));
  c = shmt__madd(c, z, shmt__wide_d(-0.5));
  t.sine = z * t.r * s, t.cosine = z * c;
  return t;
}
/* The angle's sine, by the sine of the multiple at `at` and its cosine; the smallest terms first. */
SHMT_VECTOR shmt__wf shmt__wide_sine_atf(shmt__wide_reducedf a, __m512i at, shmt__wf cosine) {
  const shmt__wf sine = shmt__lookupf(shmt__wide_sinesf[0], at), lack = shmt__lookupf(shmt__wide_sinesf[1], at);
  const shmt__wf small = shmt__maddf(sine, a.cosine, shmt__maddf(cosine, a.sine, lack));
  return shmt__maddf(cosine, a.r, small) + sine;
}
SHMT_VECTOR shmt__wd shmt__wide_sine_at(shmt__wide_reduced a, __m512i at, shmt__wd cosine) {
  const shmt__wd sine = shmt__lookup(shmt__wide_sines[0], at), lack = shmt__lookup(shmt__wide_sines[1], at);
  const shmt__wd small = shmt__madd(sine, a.cosine, shmt__madd(cosine, a.sine, lack));
  return shmt__madd(cosine, a.r, small) + sine;
}
SHMT_VECTOR __m512i shmt__wide_quarter_onf(__m512i at) { return _mm512_add_epi32(at, _mm512_set1_epi32(8)); }
SHMT_VECTOR __m512i shmt__wide_quarter_on(__m512i at) { return _mm512_add_epi64(at, _mm512_set1_epi64(4)); }
SHMT_VECTOR shmt__wf shmt__wide_sinef(shmt__wide_reducedf a) {
  return shmt__wide_sine_atf(a, a.at, shmt__lookupf(shmt__wide_sinesf[0], shmt__wide_quarter_onf(a.at)));
}
SHMT_VECTOR shmt__wd shmt__wide_sine(shmt__wide_reduced a) {
  return shmt__wide_sine_at(a, a.at, shmt__lookup(shmt__wide_sines[0], shmt__wide_quarter_on(a.at)));
}
SHMT_VECTOR shmt__wf shmt__wide_cosinef(shmt__wide_reducedf a) {
  const shmt__wf sine = shmt__lookupf(shmt__wide_sinesf[0], a.at);
  return shmt__wide_sine_atf(a, shmt__wide_quarter_onf(a.at), -sine);
}
SHMT_VECTOR shmt__wd shmt__wide_cosine(shmt__wide_reduced a) {
  const shmt__wd sine = shmt__lookup(shmt__wide_sines[0], a.at);
  return shmt__wide_sine_at(a, shmt__wide_quarter_on(a.at), -sine);
}

/* Results of which some are `fn`'s, of the C library. */
static __attribute__((noinline, cold, unused)) shmt__wf shmt__wide_byf(shmt__wf y, shmt__wf x, uint32_t which,
                                                                            float (*fn)(float)) {
  for (int i = 0; i < 16; i++)
    if (which >> i & 1) y[i] = fn(x[i]);
  return y;
}
static __attribute__((noinline, cold, unused)) shmt__wd shmt__wide_by(shmt__wd y, shmt__wd x, uint32_t which,
                                                                           double (*fn)(double)) {
  for (int i = 0; i < 8; i++)
    if (which >> i & 1) y[i] = fn(x[i]);
  return y;
}
SHMT_VECTOR shmt__wf shmt__wide_unless_farf(shmt__wf y, shmt__wf x, float (*fn)(float)) {
  const uint32_t is_far = _mm512_cmp_ps_mask(shmt__wide_absf(x), shmt__wide_f(SHMT_TRIG_LIMIT), _CMP_NLE_UQ);
  return __builtin_expect(is_far != 0, 0) ? shmt__wide_byf(y, x, is_far, fn) : y;
}
SHMT_VECTOR shmt__wd shmt__wide_unless_far(shmt__wd y, shmt__wd x, double (*fn)(double)) {
  const uint32_t is_far = _mm512_cmp_pd_mask(shmt__wide_abs(x), shmt__wide_d(SHMT_TRIG_LIMIT_DOUBLE), _CMP_NLE_UQ);
  return __builtin_expect(is_far != 0, 0) ? shmt__wide_by(y, x, is_far, fn) : y;
}

/* y, its sign changed where x has one. */
SHMT_VECTOR shmt__wf shmt__wide_sign_flippedf(shmt__wf y, shmt__wf x) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(y), _mm512_castps_si512(x), sign, 0x78));
}
SHMT_VECTOR shmt__wd shmt__wide_sign_flipped(shmt__wd y, shmt__wd x) {
  const __m512i sign = _mm512_set1_epi64(INT64_MIN);
  return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(_mm512_castpd_si512(y), _mm512_castpd_si512(x), sign, 0x78));
}
SHMT_VECTOR shmt__wf shmt__wide_sinf(shmt__wf x) {
  const shmt__wide_reducedf a = shmt__wide_reducef(shmt__wide_absf(x));
  return shmt__wide_unless_farf(shmt__wide_sign_flippedf(shmt__wide_sinef(a), x), x, sinf);
}
SHMT_VECTOR shmt__wf shmt__wide_cosf(shmt__wf x) {
  const shmt__wide_reducedf a = shmt__wide_reducef(shmt__wide_absf(x));
  return shmt__wide_unless_farf(shmt__wide_cosinef(a), x, cosf);
}
SHMT_VECTOR shmt__wd shmt__wide_sin(shmt__wd x) {
  const shmt__wide_reduced a = shmt__wide_reduce(shmt__wide_abs(x));
  return shmt__wide_unless_far(shmt__wide_sign_flipped(shmt__wide_sine(a), x), x, sin);
}
SHMT_VECTOR shmt__wd shmt__wide_cos(shmt__wd x) {
  const shmt__wide_reduced a = shmt__wide_reduce(shmt__wide_abs(x));
  return shmt__wide_unless_far(shmt__wide_cosine(a), x, cos);
}

/* Of half as large a part of a turn, as tan(r + pi) is tan(r): t = tan(r), and sine and cosine of the multiple give
 * (sine + cosine t) / (cosine - sine t). */
SHMT_VECTOR shmt__wf shmt__wide_tanf(shmt__wf x) {
  __m512i at;
  const shmt__wf r = shmt__wide_from_multiplef(shmt__wide_absf(x), 16, &at), z = r * r;
  const shmt__wf p = shmt__maddf(z, shmt__wide_f(1.3346349e-01f), shmt__wide_f(3.3333328e-01f)), t = shmt__maddf(z * r, p, r);
  const shmt__wf sine = shmt__lookupf(shmt__wide_half_anglef[0], at), cosine = shmt__lookupf(shmt__wide_half_anglef[2], at);
  const shmt__wf high = shmt__maddf(cosine, t, shmt__lookupf(shmt__wide_half_anglef[1], at)) + sine;
  const shmt__wf low = shmt__nmaddf(sine, t, shmt__lookupf(shmt__wide_half_anglef[3], at)) + cosine;
  return shmt__wide_unless_farf(shmt__wide_sign_flippedf(high / low, x), x, tanf);
}
SHMT_VECTOR shmt__wd shmt__wide_tan(shmt__wd x) {
  __m512i at;
  const shmt__wd r = shmt__wide_from_multiple(shmt__wide_abs(x), 8, &at), z = r * r;
  shmt__wd p = shmt__wide_d(0.0036345334233867372);
  p = shmt__madd(p, z, shmt__wide_d(0.0088627746344159));
  p = shmt__madd(p, z, shmt__wide_d(0.021869490842098323));
  p = shmt__madd(p, z, shmt__wide_d(0.053968253963041876));
  p = shmt__madd(p, z, shmt__wide_d(0.13333333333333763));
  p = shmt__madd(p, z, shmt__wide_d(0.3333333333333333));
  const shmt__wd t = shmt__madd(z * r, p, r);
  const shmt__wd sine = shmt__lookup(shmt__wide_half_angle[0], at), cosine = shmt__lookup(shmt__wide_half_angle[2], at);
  const shmt__wd high = shmt__madd(cosine, t, shmt__lookup(shmt__wide_half_angle[1], at)) + sine;
  const shmt__wd low = shmt__nmadd(sine, t, shmt__lookup(shmt__wide_half_angle[3], at)) + cosine;
  return shmt__wide_unless_far(shmt__wide_sign_flipped(high / low, x), x, tan);
}

#endif
#endif
