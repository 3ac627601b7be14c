/* kernels/simd/vmath_tail.tmpl.h -- sinh, cosh, asin, acos, acosh, and the sign of powers. Float or double. */

/* The largest |x| whose half_exp is finite. */
#define MOST FLOAT_OR_DOUBLE(89.5f, 711.0)
SHMT_VMATH REAL VM(sinh)(REAL x) {
  const REAL a = VM(magnitude)(x), z = x * x, h = VM(half_exp)(VM(at_most)(a, MOST));
  const REAL near = MADD(VM(sinh_polynomial)(z) * z, x, x);
  const REAL far = VM(copysign)(h - FLOAT_OR_DOUBLE(0.25f, 0.25) / h, x);
  return a < 1 ? near : x != x ? x : far;
}
SHMT_VMATH REAL VM(cosh)(REAL x) {
  const REAL h = VM(half_exp)(VM(at_most)(VM(magnitude)(x), MOST));
  return x != x ? x : h + FLOAT_OR_DOUBLE(0.25f, 0.25) / h;
}
#undef MOST

/* Beyond 1/2 by asin(sqrt((1 - |x|) / 2)). */
#define HALF FLOAT_OR_DOUBLE(0.5f, 0.5)
SHMT_VMATH REAL VM(asin)(REAL x) {
  const REAL a = VM(magnitude)(x), z = a > HALF ? MADD(a, -HALF, HALF) : a * a;
  const REAL p = VM(asin_core)(a > HALF ? SQRT(z) : a, z);
  const REAL far = MADD(-2, p, VM(half_pi_high)) + VM(half_pi_low);
  return VM(copysign)(a > HALF ? far : p, x);
}
SHMT_VMATH REAL VM(acos)(REAL x) {
  const REAL a = VM(magnitude)(x), z = a > HALF ? MADD(a, -HALF, HALF) : a * a;
  const REAL p = VM(asin_core)(a > HALF ? SQRT(z) : a, z);
  const REAL near = VM(half_pi_high) - (VM(copysign)(p, x) - VM(half_pi_low));
  const REAL left = 2 * ((VM(half_pi_high) - p) + VM(half_pi_low));
  return a > HALF ? (x < 0 ? left : 2 * p) : near;
}

/* Beyond it, x x - 1 is x x, and 2 x has the logarithm that is wanted. */
#define FAR FLOAT_OR_DOUBLE(1e4f, 1e8)
SHMT_VMATH REAL VM(acosh)(REAL x) {
  const REAL t = x - 1, near = t + SQRT(t * (t + 2));
  const REAL y = VM(log1p)(x > FAR ? t : near) + (x > FAR ? FLOAT_OR_DOUBLE(0.693147181f, 0.69314718055994531) : 0);
  return x < 1 ? (REAL)NAN : y;
}
#undef FAR

/* |a|^b with the sign of a^b; NaN where a is negative and b no whole number */
SHMT_VMATH REAL VM(signed_power)(REAL y, REAL a, REAL b) {
  const REAL whole = TRUNC(b), half = b * HALF;
  const bool is_whole = whole == b, is_odd = is_whole && TRUNC(half) != half;
  return a < 0 ? (is_odd ? -y : is_whole ? y : (REAL)NAN) : y;
}
#undef HALF
