/* kernels/simd/vmath_sin_cos.tmpl.h -- sin and cos of angles that reduce_half_pi reduces. Float or double. */

/* shift: quarter turns that are added to x */
SHMT_VMATH REAL VM(sin_or_cos)(REAL x, BITS shift) {
  REAL shifted;
  const REAL r = VM(reduce_half_pi)(x, &shifted);
  const BITS quadrant = BITS_OF(shifted) + shift;
  const REAL y = quadrant & 1u ? VM(cos_polynomial)(r) : VM(sin_polynomial)(r);
  return OF_BITS(BITS_OF(y) ^ ((quadrant & 2u) << (8 * sizeof(BITS) - 2)));
}
SHMT_VMATH REAL VM(sin)(REAL x) { return x == 0 ? x : VM(sin_or_cos)(x, 0); }
SHMT_VMATH REAL VM(cos)(REAL x) { return VM(sin_or_cos)(x, 1); }
