/* kernels/simd/avx512/rsqrt_hypot.tmpl.h -- roots by Newton's method, and hypot. Floats or doubles. */

/* For y near 1 / sqrt(x): how far x y^2 is from 1. */
SHMT_VECTOR VECTOR VFN(missing)(VECTOR x, VECTOR y) { return VFN(nmadd)(x * y, y, ALL(1.0)); }

/* 1 / sqrt(x), from which one step of Newton's is exact: with a relative error of about 2^-14, doubles 2^-40. */
SHMT_VECTOR VECTOR VFN(rsqrt_near)(VECTOR x) {
  const VECTOR y = MM(rsqrt14)(x);
#if OF_FLOATS
  return y;
#else
  const VECTOR e = VFN(missing)(x, y);
  return VFN(madd)(y * e, VFN(madd)(e, ALL(0.375), ALL(0.5)), y);
#endif
}

/* sqrt(x) for x from 1e-30 (doubles: 1e-200) on, far from overflow; smaller x are replaced by this limit. */
SHMT_VECTOR VECTOR VFN(sqrt_newton)(VECTOR x) {
  const VECTOR c = MM(max)(ALL(FLOAT_OR_DOUBLE(1e-30f, 1e-200)), x), r = VFN(rsqrt_near)(c), y = c * r;
  return VFN(madd)(VFN(nmadd)(y, y, c), r * ALL(0.5), y);
}

/* sqrt(x) for any x up to 1e30 (doubles: 1e200): 0 gives 0, a negative number NaN. */
SHMT_VECTOR VECTOR VFN(sqrt_or_0)(VECTOR x) {
  const VECTOR r = VFN(rsqrt_near)(x), y = x * r;
  const MASK is_some = MM_MASK(cmp)(x, ALL(0.0), _CMP_NEQ_UQ);
  return MM(maskz_fmadd)(is_some, VFN(nmadd)(y, y, x), r * ALL(0.5), y);
}

/* hypot. Scales by the larger one's exponent k, so that no square overflows or underflows. If either argument is NaN,
 * high or low is. */
SHMT_VECTOR VECTOR VFN(hypot)(VECTOR a, VECTOR b) {
  const VECTOR x = VFN(abs)(a), y = VFN(abs)(b), infinity = ALL(INFINITY);
  const VECTOR high = MM(max)(x, y), low = MM(min)(y, x);
  const VECTOR k = MM(max)(ALL(FLOAT_OR_DOUBLE(-150.0f, -1080.0)), MM(getexp)(high)), less = VFN(minus)(k);
  const VECTOR u = MM(scalef)(high, less), v = MM(scalef)(low, less);
  const VECTOR root = VFN(sqrt_newton)(VFN(madd)(u, u, v * v));
  const MASK is_infinite = MM_MASK(cmp)(x, infinity, _CMP_EQ_OQ) | MM_MASK(cmp)(y, infinity, _CMP_EQ_OQ);
  return MM(mask_mov)(MM(scalef)(root, k), is_infinite, infinity);
}
