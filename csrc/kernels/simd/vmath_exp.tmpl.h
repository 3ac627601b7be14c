/* kernels/simd/vmath_exp.tmpl.h -- exp and expm1. Float or double. */

SHMT_VMATH REAL VM(exp)(REAL x) {
  /* Beyond these limits the result is 0 or infinity. */
  const REAL least = FLOAT_OR_DOUBLE(-104.0f, -746.0), most = FLOAT_OR_DOUBLE(89.0f, 710.0);
  const INTEGER bits = (INTEGER)BITS_OF(VM(unless_below)(x, least, x)), highest = (INTEGER)BITS_OF(most);
  REAL shifted, n;
  const REAL c = OF_BITS((BITS)(bits < highest ? bits : highest)); /* compared as in vmath_clamp */
  const REAL e = VM(exp_core)(c, &shifted, &n) + 1, y = VM(scaled)(e, shifted);
  return x != x ? x : VM(unless_below)(x, least, y);
}
/* exp(x) for x up to 88 (doubles: 709), in half the instructions. 0 where the result is no normal number. */
SHMT_VMATH REAL VM(exp_in_range)(REAL x) {
  const REAL least = FLOAT_OR_DOUBLE(-87.33654f, -708.3964185322641);
  REAL shifted, n;
  const REAL p = VM(exp_core)(VM(unless_below)(x, least, x), &shifted, &n), scale = VM(power_of_two)(shifted);
  return VM(unless_below)(x, least, MADD(p, scale, scale));
}
SHMT_VMATH REAL VM(expm1)(REAL x) {
  REAL shifted, n;
  const REAL c = VM(vmath_clamp)(x, FLOAT_OR_DOUBLE(-20.0f, -40.0), FLOAT_OR_DOUBLE(89.0f, 710.0));
  const REAL e = VM(exp_core)(c, &shifted, &n), half = FLOAT_OR_DOUBLE(0.5f, 0.5);
  /* n reaches 128 (doubles: 1024) only where the result is near the largest number, and that power is none: one factor
   * of 2 is multiplied separately. */
  const REAL scale = OF_BITS((BITS_OF(shifted) << MANTISSA_BITS) + BITS_OF(half));
  const REAL y = MADD(e, scale, scale - half) * 2;
  return x != x || x == 0 ? x : y;
}
