/* kernels/simd/vmath_bits.tmpl.h -- signs, limits and powers of two by the bits of numbers. Float or double. */

#define SIGN_BIT ((BITS)1 << (8 * sizeof(BITS) - 1))

SHMT_VMATH REAL VM(magnitude)(REAL x) { return OF_BITS(BITS_OF(x) & ~SIGN_BIT); }
SHMT_VMATH REAL VM(copysign)(REAL magnitude, REAL sign) {
  return OF_BITS((BITS_OF(magnitude) & ~SIGN_BIT) | (BITS_OF(sign) & SIGN_BIT));
}
/* x limited to [low, high], low < 0 < high; a NaN becomes one of the limits. Compares the bits as integers, which have
 * minimum and maximum instructions; two comparisons of floats take eight instructions. */
SHMT_VMATH REAL VM(vmath_clamp)(REAL x, REAL low, REAL high) {
  const BITS bits = BITS_OF(x), lowest = BITS_OF(low);
  const INTEGER above = (INTEGER)(bits < lowest ? bits : lowest), highest = (INTEGER)BITS_OF(high);
  return OF_BITS((BITS)(above < highest ? above : highest));
}
/* y, or 0 where x is below `least`; a NaN is not. For arguments and results where a function is 0: an instruction whose
 * result is subnormal takes a hundred times as long, and who masks scores has many of them. */
SHMT_VMATH REAL VM(unless_below)(REAL x, REAL least, REAL y) {
  return OF_BITS(BITS_OF(y) & ((BITS)(x < least) - 1));
}
/* 2^n with the n in the low bits of n_shifted, for numbers n whose power is normal. */
SHMT_VMATH REAL VM(power_of_two)(REAL n_shifted) {
  return OF_BITS((BITS_OF(n_shifted) + (ONE_BITS >> MANTISSA_BITS)) << MANTISSA_BITS);
}
/* e 2^n with the n in the low bits of n_shifted, for e near 1 and |n| <= 250 (doubles: 2000). Scales in two steps,
 * because 2^n itself may not be a normal number: the first half of n is added to e's exponent. */
SHMT_VMATH REAL VM(scaled)(REAL e, REAL n_shifted) {
  const BITS n = BITS_OF(n_shifted), half = n >> 1;
  const REAL first = OF_BITS(BITS_OF(e) + (half << MANTISSA_BITS));
  return first * OF_BITS(((n - half) << MANTISSA_BITS) + ONE_BITS);
}
#undef SIGN_BIT
