/* kernels/simd/avx512/inverse_hyperbolic.tmpl.h -- asinh, acosh, atanh. Floats or doubles. */

/* log1p(2 |x| / (1 - |x|)) / 2 */
SHMT_VECTOR VECTOR VFN(atanh)(VECTOR x) {
  const VECTOR a = VFN(abs)(x), y = VFN(log1p)((a + a) / (ALL(1.0) - a));
  return VFN(signed)(y * ALL(0.5), x);
}

/* Beyond it, x x + 1 is x x, and 2 x has the logarithm that is wanted. */
#define FAR FLOAT_OR_DOUBLE(1e4f, 1e8)

/* log(1 + near), or for a large x the logarithm of 2 x */
SHMT_VECTOR VECTOR VFN(log1p_or_far)(VECTOR near, VECTOR x) {
  const MASK is_far = MM_MASK(cmp)(x, ALL(FAR), _CMP_GT_OQ);
  const VECTOR y = VFN(log1p)(MM(mask_sub)(near, is_far, x, ALL(1.0)));
  return MM(mask_add)(y, is_far, y, ALL(FLOAT_OR_DOUBLE(0.693147181f, 0.69314718055994531)));
}
/* a + sqrt(a a + 1) less 1 is a + a a / (1 + sqrt(a a + 1)). */
SHMT_VECTOR VECTOR VFN(asinh)(VECTOR x) {
  const VECTOR a = VFN(abs)(x), near = VFN(at_most)(a, FAR), one = ALL(1.0);
  const VECTOR square = near * near, more = square / (one + VFN(sqrt_newton)(square + one));
  return VFN(signed)(VFN(log1p_or_far)(near + more, a), x);
}
SHMT_VECTOR VECTOR VFN(acosh)(VECTOR x) {
  const VECTOR one = ALL(1.0), t = VFN(at_most)(x, FAR) - one;
  const VECTOR y = VFN(log1p_or_far)(t + VFN(sqrt_or_0)(VFN(madd)(t, t, t + t)), x);
  return MM(mask_mov)(y, MM_MASK(cmp)(x, one, _CMP_LT_OQ), ALL(NAN));
}
#undef FAR
