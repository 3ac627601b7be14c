/* kernels/simd/avx512/inverse_trigonometric.tmpl.h -- asin, acos, atan and atan2. Floats or doubles. */

/* pi/2 rounded, and what is left of it */
#define HALF_PI      ALL(FLOAT_OR_DOUBLE(1.57079637f, 1.5707963267948966))
#define HALF_PI_REST ALL(FLOAT_OR_DOUBLE(-4.37113883e-8f, 6.123233995736766e-17))

/* The series of atan(r), without its first term r, divided by r r r; z is r r. */
SHMT_VECTOR VECTOR VFN(atan_series)(VECTOR z) {
#if OF_FLOATS
  return VFN(madd)(z, ALL(1.999524e-01f), ALL(-3.3333334e-01f));
#else
  VECTOR p = ALL(-0.09066912884333873);
  p = VFN(madd)(p, z, ALL(0.11111084879978127));
  p = VFN(madd)(p, z, ALL(-0.14285714274006903));
  p = VFN(madd)(p, z, ALL(0.19999999999998172));
  return VFN(madd)(p, z, ALL(-0.3333333333333333));
#endif
}
/* atan(low / high) for 0 <= low <= high, both finite, high not 0, as two parts whose first is looked up. */
SHMT_VECTOR VECTOR VFN(atan_of_ratio)(VECTOR low, VECTOR high, VECTOR* at_least) {
  const VECTOR q = low * MM(rcp14)(high);
  const __m512i at = INTEGERS_OF(VFN(madd)(q, ALL(COLUMNS - 1), ROUNDER(1.0f)));
  const VECTOR t = VFN(lookup)(VFN(angles)[0], at);
  const VECTOR r = VFN(nmadd)(t, high, low) / VFN(madd)(t, low, high), z = r * r;
  const VECTOR p = VFN(atan_series)(z);
  *at_least = VFN(lookup)(VFN(angles)[1], at);
  return VFN(madd)(z * p, r, r);
}
/* From 1 on, atan by the reciprocal. x is limited to a number whose angle already rounds to pi/2. */
SHMT_VECTOR VECTOR VFN(atan)(VECTOR x) {
  const VECTOR a = VFN(at_most)(VFN(abs)(x), FLOAT_OR_DOUBLE(1e30f, 1e200)), one = ALL(1.0);
  const MASK is_steep = MM_MASK(cmp)(a, one, _CMP_GT_OQ);
  VECTOR near, rest = VFN(atan_of_ratio)(MM(min)(one, a), MM(max)(one, a), &near);
  near = MM(mask_sub)(near, is_steep, HALF_PI, near);
  return VFN(signed)(MM(mask_sub)(near + rest, is_steep, near, rest), x);
}

/* Scales both by the larger one's exponent k, so that infinity becomes 1 and a finite number beside it 0. 0 / 0 has the
 * direction of 0 / 1. If either argument is NaN, high or low is. */
SHMT_VECTOR VECTOR VFN(atan2)(VECTOR y, VECTOR x) {
  const VECTOR ay = VFN(abs)(y), ax = VFN(abs)(x), one = ALL(1.0);
  const MASK is_steep = MM_MASK(cmp)(ay, ax, _CMP_GT_OQ);
  const MASK is_back = VFN(is_signed)(x);
  VECTOR high = MM(max)(ax, ay), low = MM(min)(ay, ax);
  const VECTOR less = VFN(within)(VFN(minus)(MM(getexp)(high)), FLOAT_OR_DOUBLE(-300.0f, -2200.0),
                                  FLOAT_OR_DOUBLE(150.0f, 1080.0));
  const MASK is_far = MM_MASK(cmp)(high, ALL(INFINITY), _CMP_EQ_OQ);
  const MASK are_far = MM_MASK(cmp)(low, ALL(INFINITY), _CMP_EQ_OQ);
  high = MM(mask_mov)(MM(max)(ALL(0.5), MM(scalef)(high, less)), is_far, one);
  low = MM(mask_mov)(MM(scalef)(low, less), are_far, one);
  VECTOR near, rest = VFN(atan_of_ratio)(low, high, &near);
  near = MM(mask_sub)(near, is_steep, HALF_PI, near);
  near = MM(mask_sub)(near, is_back, ALL(FLOAT_OR_DOUBLE(3.14159274f, 3.1415926535897931)), near);
  return VFN(signed)(MM(mask_sub)(near + rest, is_steep ^ is_back, near, rest), y);
}

/* The polynomials of vmath_tail.h and vmath_double.h: asin(s) is s + s z p, with z = s s. */
SHMT_VECTOR VECTOR VFN(asin_polynomial)(VECTOR z) {
#if OF_FLOATS
  VECTOR p = ALL(3.67468037e-2f);
  p = VFN(madd)(p, z, ALL(1.50363054e-2f));
  p = VFN(madd)(p, z, ALL(3.16326506e-2f));
  p = VFN(madd)(p, z, ALL(4.45407107e-2f));
  p = VFN(madd)(p, z, ALL(7.50035867e-2f));
  return VFN(madd)(p, z, ALL(0.166666627f));
#else
  VECTOR p = ALL(0.030892816831561705);
  p = VFN(madd)(p, z, ALL(-0.014661802758561255));
  p = VFN(madd)(p, z, ALL(0.018478382459397272));
  p = VFN(madd)(p, z, ALL(0.0069342031092192152));
  p = VFN(madd)(p, z, ALL(0.012069266856768386));
  p = VFN(madd)(p, z, ALL(0.013901525034266787));
  p = VFN(madd)(p, z, ALL(0.017357928071828881));
  p = VFN(madd)(p, z, ALL(0.022371886000067787));
  p = VFN(madd)(p, z, ALL(0.030381953284341508));
  p = VFN(madd)(p, z, ALL(0.044642856985937548));
  p = VFN(madd)(p, z, ALL(0.075000000001215456));
  return VFN(madd)(p, z, ALL(0.16666666666666458));
#endif
}
/* asin(s) for s from 0 to 1/2, where s is |x| up to 1/2 and sqrt((1 - |x|) / 2) from there on, which is NaN beyond
 * 1. */
SHMT_VECTOR VECTOR VFN(asin_part)(VECTOR x, MASK* is_near) {
  const VECTOR a = VFN(abs)(x), half = ALL(0.5), rest = VFN(nmadd)(a, half, half);
  *is_near = MM_MASK(cmp)(a, half, _CMP_LE_OQ);
  const VECTOR s = MM(mask_mov)(VFN(sqrt_or_0)(rest), *is_near, a);
  const VECTOR z = MM(mask_mul)(rest, *is_near, a, a), p = VFN(asin_polynomial)(z);
  return VFN(madd)(p * z, s, s);
}
SHMT_VECTOR VECTOR VFN(asin)(VECTOR x) {
  MASK is_near;
  const VECTOR y = VFN(asin_part)(x, &is_near), far = VFN(nmadd)(y, ALL(2.0), HALF_PI);
  return VFN(signed)(MM(mask_mov)(far + HALF_PI_REST, is_near, y), x);
}
/* acos as n quarter turns minus m times asin_part's result: near 0, n = 1 and m has x's sign; else n = 0, m = -2 for
 * positive x, and n = 2, m = 2 for negative x. */
SHMT_VECTOR VECTOR VFN(acos)(VECTOR x) {
  MASK is_near;
  const VECTOR y = VFN(asin_part)(x, &is_near), one = ALL(1.0), sign = VFN(signed)(one, x);
  const VECTOR half_pis = MM(mask_mov)(one - sign, is_near, one);
  const VECTOR parts = MM(mask_mov)(sign * ALL(-2.0), is_near, sign);
  const VECTOR less = MM(fmsub)(y, parts, half_pis * HALF_PI_REST);
  return MM(fmsub)(half_pis, HALF_PI, less);
}
#undef HALF_PI
#undef HALF_PI_REST
