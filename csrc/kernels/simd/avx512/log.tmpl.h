/* kernels/simd/avx512/log.tmpl.h -- logarithms, and functions made of log(1 + exp(-a)). Floats or doubles. */

SHMT_VECTOR VECTOR VFN(mantissa)(VECTOR x) { return MM(getmant)(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan); }
/* The column of m's reciprocal in the tables. */
SHMT_VECTOR __m512i VFN(log_column)(VECTOR m) { return INTEGERS_OF(m + ROUNDER(FLOAT_OR_DOUBLE(0x1p-5f, 0x1p-4))); }
/* log1p(r) times `scale` for |r| <= 1/48 (doubles: 1/24), with `rest` added among the small terms */
SHMT_VECTOR VECTOR VFN(scaled_log1p)(VECTOR r, ELEMENT scale, VECTOR rest) {
#if OF_FLOATS
  VECTOR p = ALL(-2.5005427e-01f * scale);
  p = VFN(madd)(p, r, ALL(3.3339846e-01f * scale));
  p = VFN(madd)(p, r, ALL(-5.0e-01f * scale));
#else
  VECTOR p = ALL(-0.10032624883989222 * scale);
  p = VFN(madd)(p, r, ALL(0.11146700874018471 * scale));
  p = VFN(madd)(p, r, ALL(-0.1249995748981349 * scale));
  p = VFN(madd)(p, r, ALL(0.14285667912711614 * scale));
  p = VFN(madd)(p, r, ALL(-0.16666666687173523 * scale));
  p = VFN(madd)(p, r, ALL(0.20000000022370187 * scale));
  p = VFN(madd)(p, r, ALL(-0.2499999999999733 * scale));
  p = VFN(madd)(p, r, ALL(0.3333333333333042 * scale));
  p = VFN(madd)(p, r, ALL(-0.5 * scale));
#endif
  return VFN(madd)(r, ALL(scale), VFN(madd)(r * r, p, rest));
}
SHMT_VECTOR VECTOR VFN(short_log1p)(VECTOR r) { return VFN(scaled_log1p)(r, 1, ALL(0.0)); }

/* (k log(2) + at + log1p(r)) * scale. log(2) in the base is high + low; low is not negative, so that an infinite k
 * gives no infinity of the other sign. */
SHMT_VECTOR VECTOR VFN(log_sum)(VECTOR k, VECTOR at, VECTOR r, ELEMENT scale, ELEMENT high, ELEMENT low) {
  VECTOR rest = ALL(0.0);
  if (low != 0) rest = k * ALL(low);
  return VFN(madd)(k, ALL(high), at) + VFN(scaled_log1p)(r, scale, rest);
}
SHMT_VECTOR VECTOR VFN(log_in_base)(VECTOR x, const ELEMENT (*table)[COLUMNS], ELEMENT scale, ELEMENT high,
                                    ELEMENT low) {
  const VECTOR m = VFN(mantissa)(x), k = MM(getexp)(x) - MM(getexp)(m);
  const __m512i at = VFN(log_column)(m);
  const VECTOR r = MM(fmsub)(m, VFN(lookup)(table[0], at), ALL(1.0));
  return VFN(log_sum)(k, VFN(lookup)(table[1], at), r, scale, high, low);
}
#define LOG_2_HIGH FLOAT_OR_DOUBLE(0.693147123f, 0.69314718055994531)
#define LOG_2_LOW  FLOAT_OR_DOUBLE(5.76999888e-08f, 2.3190468138462996e-17)
SHMT_VECTOR VECTOR VFN(log)(VECTOR x) { return VFN(log_in_base)(x, VFN(logs), 1, LOG_2_HIGH, LOG_2_LOW); }
SHMT_VECTOR VECTOR VFN(log2)(VECTOR x) {
  return VFN(log_in_base)(x, VFN(logs2), FLOAT_OR_DOUBLE(1.44269504f, 1.4426950408889634), 1, 0);
}
SHMT_VECTOR VECTOR VFN(log10)(VECTOR x) {
  return VFN(log_in_base)(x, VFN(logs10), FLOAT_OR_DOUBLE(0.434294492f, 0.43429448190325182),
                          FLOAT_OR_DOUBLE(0.30102998f, 0.30102999566398114),
                          FLOAT_OR_DOUBLE(1.54813335e-08f, 5.270742310347266e-17));
}

/* log(1 + x): the rounding error of 1 + x is added to r. */
SHMT_VECTOR VECTOR VFN(log1p)(VECTOR x) {
  const VECTOR one = ALL(1.0), u = one + x, lost = x - (u - one);
  const VECTOR m = VFN(mantissa)(u), k = MM(getexp)(u) - MM(getexp)(m);
  const __m512i at = VFN(log_column)(m);
  const VECTOR c = VFN(lookup)(VFN(logs)[0], at), less = VFN(minus)(k);
  /* Where k is infinite (1 + x is 0 or infinity), there is no rounding error to add. */
  const MASK usual = MM_MASK(cmp)(VFN(abs)(k), ALL(INFINITY), _CMP_NEQ_UQ);
  const VECTOR r = VFN(madd)(MM(maskz_scalef)(usual, lost, less), c, MM(fmsub)(m, c, one));
  return VFN(signed)(VFN(log_sum)(k, VFN(lookup)(VFN(logs)[1], at), r, 1, LOG_2_HIGH, LOG_2_LOW), x);
}
#undef LOG_2_HIGH
#undef LOG_2_LOW

/* log(1 + x) for 0 <= x <= 1; a NaN passes. 1 + x is never computed: (1 + x) c - 1 is x c + (c - 1). */
SHMT_VECTOR VECTOR VFN(log1p_unit)(VECTOR x) {
  const __m512i at = INTEGERS_OF(VFN(madd)(x, ALL(COLUMNS - 1), ROUNDER(1.0f)));
  const VECTOR c = VFN(lookup)(VFN(unit_logs)[0], at);
  const VECTOR r = VFN(madd)(x, c, c - ALL(1.0));
  return VFN(lookup)(VFN(unit_logs)[1], at) + VFN(short_log1p)(r);
}
/* log(1 + exp(-a)) for a >= 0. Just above a power of two, the float exponential is coarser than the logarithm: the
 * rounding error of its looked-up power is added. */
SHMT_VECTOR VECTOR VFN(log1p_exp)(VECTOR a) {
  const VECTOR x = VFN(minus)(a);
  const MASK some = VFN(not_below)(x, FLOAT_OR_DOUBLE(-104.0f, -746.0));
  VFN(scaled) e = VFN(exp_parts)(MM(maskz_mov)(some, x));
#if OF_FLOATS
  e.rest = e.rest + VFN(lookup)(VFN(half_powers)[1], e.at);
#endif
  return VFN(log1p_unit)(MM(maskz_mov)(some, VFN(value)(e)));
}
SHMT_VECTOR VECTOR VFN(log_sigmoid)(VECTOR x) { return MM(min)(ALL(0.0), x) - VFN(log1p_exp)(VFN(abs)(x)); }
SHMT_VECTOR VECTOR VFN(softplus)(VECTOR a, ELEMENT beta, ELEMENT at, ELEMENT one_by_beta) {
  const VECTOR x = a * ALL(beta);
  const VECTOR y = MM(max)(ALL(0.0), x) + VFN(log1p_exp)(VFN(abs)(x));
  return MM(mask_mov)(y * ALL(one_by_beta), MM_MASK(cmp)(x, ALL(at), _CMP_GT_OQ), a);
}
/* logaddexp's |a - b|: equal infinities have distance 0, and a NaN in either argument gives a NaN distance. */
SHMT_VECTOR VECTOR VFN(logaddexp)(VECTOR a, VECTOR b) {
  const VECTOR away = MM(maskz_sub)(MM_MASK(cmp)(a, b, _CMP_NEQ_UQ), a, b);
  return MM(max)(a, b) + VFN(log1p_exp)(VFN(abs)(away));
}
