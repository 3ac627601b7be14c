/* kernels/simd/vmath_double.h -- elementary functions of doubles, without branches.
 *
 * Continues vmath.h, which has exp, log and sigmoid of doubles. tools/accuracy.py measures the errors.
 */
#ifndef SHMT_KERNELS_SIMD_VMATH_DOUBLE_H
#define SHMT_KERNELS_SIMD_VMATH_DOUBLE_H

#include "kernels/simd/vmath_tail.h"

static const double shmt__half_pi_high = 1.5707963267948966, shmt__half_pi_low = 6.123233995736766e-17;

/* c*c - square, where square is c*c rounded */
SHMT_VMATH double shmt__square_error(double c, double square) {
#ifdef __FMA__
  return __builtin_fma(c, c, -square);
#else
  const double high = shmt__double_of_bits(shmt__bits_of_double(c) & 0xfffffffff8000000u);
  const double low = c - high;
  return ((high * high - square) + 2.0 * high * low) + low * low;
#endif
}

/* a*b - product, where product is a*b rounded */
SHMT_VMATH double shmt__product_error(double a, double b, double product) {
#ifdef __FMA__
  return __builtin_fma(a, b, -product);
#else
  const double a_high = shmt__double_of_bits(shmt__bits_of_double(a) & 0xfffffffff8000000u), a_low = a - a_high;
  const double b_high = shmt__double_of_bits(shmt__bits_of_double(b) & 0xfffffffff8000000u), b_low = b - b_high;
  return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
#endif
}

/* --- built on exp ------------------------------------------------------------------------ */

SHMT_VMATH double shmt__exp2(double x) {
  const double c = shmt__vmath_clamp(shmt__unless_below(x, -1075.0, x), -1075.0, 1025.0);
  const double shifted = c + 6755399441055744.0, r = c - (shifted - 6755399441055744.0);
  double p = 4.4566754636398608e-10;
  p = SHMT_MADD(p, r, 7.0725864798520198e-09);
  p = SHMT_MADD(p, r, 1.0178051728089911e-07);
  p = SHMT_MADD(p, r, 1.3215442584937203e-06);
  p = SHMT_MADD(p, r, 1.5252733853280778e-05);
  p = SHMT_MADD(p, r, 0.00015403530441741647);
  p = SHMT_MADD(p, r, 0.0013333558146396004);
  p = SHMT_MADD(p, r, 0.0096181291076068848);
  p = SHMT_MADD(p, r, 0.055504108664821659);
  p = SHMT_MADD(p, r, 0.24022650695910097);
  p = SHMT_MADD(p, r, 0.69314718055994529);
  return x != x ? x : shmt__unless_below(x, -1075.0, shmt__scaled(SHMT_MADD(p, r, 1.0), shifted));
}
SHMT_VMATH double shmt__exp_of_minus(double x) { return shmt__exp(-x); }
SHMT_VMATH double shmt__tanh(double x) {
  double shifted, k;
  const double a = shmt__magnitude(x), c = shmt__at_most(a, 20.0);
  const double e = shmt__exp_core(2.0 * c, &shifted, &k), scale = shmt__power_of_two(shifted);
  const double m = SHMT_MADD(e, scale, scale - 1.0); /* exp(2 c) - 1 */
  return x != x ? x : shmt__copysign(m / (m + 2.0), x);
}
/* exp(a) / 2 for 0 <= a <= 711 */
SHMT_VMATH double shmt__half_exp(double a) {
  double shifted, k;
  const double e = shmt__exp_core(a, &shifted, &k) + 1.0;
  return shmt__double_of_bits(shmt__bits_of_double(e) + (shmt__bits_of_double(shifted) << 52) - 0x30000000000000u) *
         4.0;
}
SHMT_VMATH double shmt__sinh_polynomial(double z) {
  double p = 7.7584485674387896e-13;
  p = SHMT_MADD(p, z, 1.6057271673257264e-10);
  p = SHMT_MADD(p, z, 2.5052122949008753e-08);
  p = SHMT_MADD(p, z, 2.7557319158561351e-06);
  p = SHMT_MADD(p, z, 0.00019841269841425703);
  p = SHMT_MADD(p, z, 0.0083333333333331597);
  return SHMT_MADD(p, z, 0.16666666666666669);
}

/* exp(c*c) erfc(c) for 0 <= c <= 27.3 */
SHMT_VMATH double shmt__erfcx_near(double c) {
  double p = 1.4344042739047644e-05, q = 2.5424153790372492e-05;
  p = SHMT_MADD(p, c, 0.00031563200508146096);
  p = SHMT_MADD(p, c, 0.0034097685623257733);
  p = SHMT_MADD(p, c, 0.023522966202212944);
  p = SHMT_MADD(p, c, 0.1139538186962171);
  p = SHMT_MADD(p, c, 0.40350030276163124);
  p = SHMT_MADD(p, c, 1.0562973332504355);
  p = SHMT_MADD(p, c, 2.0213437092966138);
  p = SHMT_MADD(p, c, 2.7183402013649274);
  p = SHMT_MADD(p, c, 2.3416812498366926);
  p = SHMT_MADD(p, c, 1.0);
  q = SHMT_MADD(q, c, 0.00055944316287662047);
  q = SHMT_MADD(q, c, 0.0060563694958143928);
  q = SHMT_MADD(q, c, 0.041973093614541615);
  q = SHMT_MADD(q, c, 0.20498700130382047);
  q = SHMT_MADD(q, c, 0.73575263224564169);
  q = SHMT_MADD(q, c, 1.9702371289656397);
  q = SHMT_MADD(q, c, 3.9201844554814231);
  q = SHMT_MADD(q, c, 5.6606935010895496);
  q = SHMT_MADD(q, c, 5.6338840843939808);
  q = SHMT_MADD(q, c, 3.4700604169322053);
  q = SHMT_MADD(q, c, 1.0);
  return p / q;
}
SHMT_VMATH double shmt__erfc_of_magnitude(double a) {
  const double c = shmt__at_most(a, 27.3), square = c * c;
  double shifted, k;
  const double e = shmt__exp_core(-square, &shifted, &k) + 1.0;
  return shmt__scaled(SHMT_MADD(e, -shmt__square_error(c, square), e) * shmt__erfcx_near(c), shifted);
}
SHMT_VMATH double shmt__erfc(double x) {
  const double y = shmt__erfc_of_magnitude(shmt__magnitude(x));
  return x != x ? x : x < 0 ? 2.0 - y : y;
}
/* As shmt__tail_productf. */
SHMT_VMATH double shmt__tail_product(double x) {
  const double a = shmt__at_most(shmt__magnitude(x), 40.0);
  return 0.5 * a * shmt__erfc_of_magnitude(a * 0.70710678118654757);
}
SHMT_VMATH double shmt__erf(double x) {
  const double a = shmt__magnitude(x), z = x * x;
  double p = -7.8011888740977512e-10;
  p = SHMT_MADD(p, z, 1.3722976265924504e-08);
  p = SHMT_MADD(p, z, -1.6209175911748696e-07);
  p = SHMT_MADD(p, z, 1.6447517677871873e-06);
  p = SHMT_MADD(p, z, -1.4924744663335489e-05);
  p = SHMT_MADD(p, z, 0.00012055295320494294);
  p = SHMT_MADD(p, z, -0.00085483259896967576);
  p = SHMT_MADD(p, z, 0.0052239776074234677);
  p = SHMT_MADD(p, z, -0.026866170643276219);
  p = SHMT_MADD(p, z, 0.11283791670945253);
  p = SHMT_MADD(p, z, -0.37612638903183548);
  p = SHMT_MADD(p, z, 1.1283791670955126);
  const double far = shmt__copysign(1.0 - shmt__erfc_of_magnitude(a), x);
  return a < 1.0 ? p * x : x != x ? x : far;
}

/* --- circular --------------------------------------------------------------------------- */

/* The largest |x| for which a pi/2 in three parts is exact enough. */
#define SHMT_TRIG_LIMIT 1048576.0

SHMT_VMATH double shmt__reduce_half_pi(double x, double* shifted) {
  *shifted = SHMT_MADD(x, 0.63661977236758134, 6755399441055744.0);
  const double k = *shifted - 6755399441055744.0;
#ifdef __FMA__
  const double r = SHMT_MADD(k, -6.123233995736766e-17, SHMT_MADD(k, -1.5707963267948966, x));
  return SHMT_MADD(k, 1.4973849048591698e-33, r);
#else
  const double r = (x - k * 1.5707963267341256) - k * 6.077100506303966e-11;
  return r - k * 2.0222662487959506e-21;
#endif
}
SHMT_VMATH double shmt__sin_polynomial(double r) {
  const double z = r * r;
  double s = 1.5897931540716066e-10;
  s = SHMT_MADD(s, z, -2.5050781999363942e-08);
  s = SHMT_MADD(s, z, 2.7557313880087821e-06);
  s = SHMT_MADD(s, z, -0.00019841269830491451);
  s = SHMT_MADD(s, z, 0.008333333333323532);
  s = SHMT_MADD(s, z, -0.16666666666666638);
  return SHMT_MADD(s * z, r, r);
}
SHMT_VMATH double shmt__cos_polynomial(double r) {
  const double z = r * r;
  double c = -1.13607260134367e-11;
  c = SHMT_MADD(c, z, 2.0875747367750491e-09);
  c = SHMT_MADD(c, z, -2.7557314559335886e-07);
  c = SHMT_MADD(c, z, 2.4801587290330556e-05);
  c = SHMT_MADD(c, z, -0.0013888888888875766);
  c = SHMT_MADD(c, z, 0.041666666666666609);
  return SHMT_MADD(c * z, z, SHMT_MADD(z, -0.5, 1.0));
}
#include "kernels/simd/of_double.h"
#include "kernels/simd/vmath_sin_cos.tmpl.h"

#include "kernels/simd/of_neither.h"

SHMT_VMATH double shmt__tan(double x) {
  double shifted;
  const double r = shmt__reduce_half_pi(x, &shifted);
  const double s = shmt__sin_polynomial(r), c = shmt__cos_polynomial(r);
  const bool is_odd = shmt__bits_of_double(shifted) & 1u;
  return x == 0 ? x : (is_odd ? -c : s) / (is_odd ? s : c);
}

SHMT_VMATH double shmt__asin_core(double s, double z) {
  double p = 0.030892816831561705;
  p = SHMT_MADD(p, z, -0.014661802758561255);
  p = SHMT_MADD(p, z, 0.018478382459397272);
  p = SHMT_MADD(p, z, 0.0069342031092192152);
  p = SHMT_MADD(p, z, 0.012069266856768386);
  p = SHMT_MADD(p, z, 0.013901525034266787);
  p = SHMT_MADD(p, z, 0.017357928071828881);
  p = SHMT_MADD(p, z, 0.022371886000067787);
  p = SHMT_MADD(p, z, 0.030381953284341508);
  p = SHMT_MADD(p, z, 0.044642856985937548);
  p = SHMT_MADD(p, z, 0.075000000001215456);
  p = SHMT_MADD(p, z, 0.16666666666666458);
  return SHMT_MADD(p * z, s, s);
}
/* atan(low / high) for 0 <= low <= high: from tan(pi/8) on as pi/4 + atan((low - high) / (low + high)). */
SHMT_VMATH double shmt__atan_of_ratio(double low, double high) {
  const bool is_steep = low > 0.41421356237309503 * high;
  const double t = (is_steep ? low - high : low) / (is_steep ? low + high : high), z = t * t;
  double p = -0.018368880885177043;
  p = SHMT_MADD(p, z, 0.038505748377336502);
  p = SHMT_MADD(p, z, -0.050575334425158852);
  p = SHMT_MADD(p, z, 0.058521510905256549);
  p = SHMT_MADD(p, z, -0.066637235493145985);
  p = SHMT_MADD(p, z, 0.076921181272629646);
  p = SHMT_MADD(p, z, -0.090909012361528485);
  p = SHMT_MADD(p, z, 0.11111110913530117);
  p = SHMT_MADD(p, z, -0.14285714283015022);
  p = SHMT_MADD(p, z, 0.19999999999984161);
  p = SHMT_MADD(p, z, -0.33333333333333315);
  const double y = SHMT_MADD(p * z, t, t);
  return is_steep ? 0.5 * shmt__half_pi_high + (y + 0.5 * shmt__half_pi_low) : y;
}
SHMT_VMATH double shmt__atan(double x) {
  const double a = shmt__magnitude(x);
  /* 1 / infinity is computed as 0 / 1, because high + low would be infinite, too. */
  const double low = a > 1.0 ? (a == INFINITY ? 0.0 : 1.0) : a;
  const double r = shmt__atan_of_ratio(low, a > 1.0 ? a : 1.0);
  const double y = a > 1.0 ? (shmt__half_pi_high - r) + shmt__half_pi_low : r;
  return shmt__copysign(y, x);
}
SHMT_VMATH double shmt__atan2(double y, double x) {
  const double ay = shmt__magnitude(y), ax = shmt__magnitude(x);
  double high = ay > ax ? ay : ax, low = ay > ax ? ax : ay;
  /* 0 / 0 has the direction of 0 / 1, and infinity / infinity that of 1 / 1. No sum may overflow. */
  low = low == INFINITY ? 1.0 : high == INFINITY && low == low ? 0.0 : low;
  high = high == 0 || high == INFINITY ? 1.0 : high;
  const double scale = high > 1e300 ? 0.25 : 1.0;
  const double r = shmt__atan_of_ratio(low * scale, high * scale);
  const double acute = ay > ax ? (shmt__half_pi_high - r) + shmt__half_pi_low : r;
  const double obtuse = (2.0 * shmt__half_pi_high - acute) + 2.0 * shmt__half_pi_low;
  return shmt__copysign(shmt__bits_of_double(x) >> 63 ? obtuse : acute, y);
}

/* --- built on log ------------------------------------------------------------------------ */

/* log(x) in a base: scale is 1 / log(base), k_high + k_low is log(2) / log(base). */
SHMT_VMATH double shmt__log_in_base(double x, double scale, double k_high, double k_low) {
  double k, f;
  const double tiny = x < 2.2250738585072014e-308 ? 1.0 : 0.0;
  shmt__log_parts(tiny != 0 ? x * 4503599627370496.0 : x, &k, &f);
  k -= 52.0 * tiny;
  const double y = SHMT_MADD(k, k_high, SHMT_MADD(k, k_low, shmt__log_1p_core(f, 0) * scale));
  const double special = x == 0 ? -INFINITY : x < 0 ? NAN : x;
  return x > 0 && x < INFINITY ? y : special;
}
SHMT_VMATH double shmt__log2(double x) { return shmt__log_in_base(x, 1.4426950408889634, 1.0, 0.0); }
SHMT_VMATH double shmt__log10(double x) {
  return shmt__log_in_base(x, 0.43429448190325182, 0.30102999566315702, 8.241712586023572e-13);
}
/* As shmt__log1pf. */
SHMT_VMATH double shmt__log1p(double x) {
  const double u = 1.0 + x;
  const uint64_t bits = shmt__bits_of_double(u) + (0x3ff0000000000000u - 0x3fe6a09e667f3bcdu);
  const double power = shmt__double_of_bits(0x7fe0000000000000u - (bits & 0x7ff0000000000000u));
  double k, plain;
  shmt__log_parts(u, &k, &plain);
  const double f = u > 1e18 ? plain : SHMT_MADD(x, power, power - 1.0);
  const double y = SHMT_MADD(k, 0.6931467056274414, shmt__log_1p_core(f, k * 4.7493250390316726e-07));
  const double special = u == 0 ? -INFINITY : u < 0 ? NAN : x;
  return u > 0 && u < INFINITY && x != 0 ? y : special;
}
SHMT_VMATH double shmt__atanh(double x) {
  const double a = shmt__magnitude(x);
  return shmt__copysign(0.5 * shmt__log1p(2.0 * a / (1.0 - a)), x);
}
SHMT_VMATH double shmt__asinh(double x) {
  const double a = shmt__magnitude(x), square = a * a;
  const double near = a + square / (1.0 + __builtin_sqrt(square + 1.0));
  const double y = shmt__log1p(a > 1e8 ? a - 1.0 : near) + (a > 1e8 ? 0.69314718055994531 : 0.0);
  return shmt__copysign(y, x);
}
/* --- as for floats ------------------------------------------------------------------------ */

#include "kernels/simd/of_double.h"
#include "kernels/simd/vmath_tail.tmpl.h"

#include "kernels/simd/of_neither.h"

/* --- two numbers ------------------------------------------------------------------------- */

SHMT_VMATH double shmt__hypot(double a, double b) {
  const double x = shmt__magnitude(a), y = shmt__magnitude(b);
  const double high = x > y ? x : y, low = x > y ? y : x, ratio = low / high;
  const double h = high * __builtin_sqrt(SHMT_MADD(ratio, ratio, 1.0));
  return x == INFINITY || y == INFINITY ? INFINITY : low == 0 ? high : h;
}

#endif
