/* kernels/simd/avx512/trigonometric.tmpl.h -- sin, cos and tan. Floats or doubles. */

#define QUARTER (COLUMNS / 4) /* columns of a quarter turn in the table of sines */

/* The reduction of |x|: the multiple's column in the table, r, sin(r) - r and cos(r) - 1. */
typedef struct VFN(reduced) {
  __m512i at;
  VECTOR r, sine, cosine;
} VFN(reduced);

/* Subtracts the nearest multiple of a part of pi/2 from a; the multiple's number stands in the low bits of *at. */
SHMT_VECTOR VECTOR VFN(from_multiple)(VECTOR a, ELEMENT parts, __m512i* at) {
  const VECTOR rounder = ROUNDER(1.0f);
  const VECTOR shifted = VFN(madd)(a, ALL(FLOAT_OR_DOUBLE(0.63661977f, 0.63661977236758134) * parts), rounder);
  const VECTOR k = shifted - rounder;
  const VECTOR near = VFN(nmadd)(k, ALL(FLOAT_OR_DOUBLE(1.57079637f, 1.5707963267948966) / parts), a);
  const VECTOR nearer = VFN(nmadd)(k, ALL(FLOAT_OR_DOUBLE(-4.37113883e-8f, 6.123233995736766e-17) / parts), near);
  *at = INTEGERS_OF(shifted);
  return VFN(madd)(k, ALL(FLOAT_OR_DOUBLE(1.71512451e-15f, 1.4973849048591698e-33) / parts), nearer);
}
SHMT_VECTOR VFN(reduced) VFN(reduce)(VECTOR a) {
  VFN(reduced) t;
  t.r = VFN(from_multiple)(a, QUARTER, &t.at);
  const VECTOR z = t.r * t.r;
#if OF_FLOATS
  const VECTOR s = VFN(madd)(z, ALL(8.331421e-03f), ALL(-1.6666667e-01f));
  const VECTOR c = VFN(madd)(z, ALL(4.1653283e-02f), ALL(-4.9999997e-01f));
#else
  VECTOR s = ALL(-2.5036634837116425e-08), c = ALL(-2.753720453432431e-07);
  s = VFN(madd)(s, z, ALL(2.7557314004635457e-06));
  s = VFN(madd)(s, z, ALL(-0.0001984126984055122));
  s = VFN(madd)(s, z, ALL(0.008333333333333299));
  s = VFN(madd)(s, z, ALL(-0.16666666666666666));
  c = VFN(madd)(c, z, ALL(2.4801580516842383e-05));
  c = VFN(madd)(c, z, ALL(-0.0013888888887954745));
  c = VFN(madd)(c, z, ALL(0.04166666666666621));
  c = VFN(madd)(c, z, ALL(-0.5));
#endif
  t.sine = z * t.r * s, t.cosine = z * c;
  return t;
}
/* The angle's sine, from the sine and cosine of the multiple in column `at`. Adds the smallest terms first. */
SHMT_VECTOR VECTOR VFN(sine_at)(VFN(reduced) a, __m512i at, VECTOR cosine) {
  const VECTOR sine = VFN(lookup)(VFN(sines)[0], at), lack = VFN(lookup)(VFN(sines)[1], at);
  const VECTOR small = VFN(madd)(sine, a.cosine, VFN(madd)(cosine, a.sine, lack));
  return VFN(madd)(cosine, a.r, small) + sine;
}
SHMT_VECTOR __m512i VFN(quarter_on)(__m512i at) { return MM_INTEGER(add)(at, MM_INTEGER(set1)(QUARTER)); }
SHMT_VECTOR VECTOR VFN(sine)(VFN(reduced) a) {
  return VFN(sine_at)(a, a.at, VFN(lookup)(VFN(sines)[0], VFN(quarter_on)(a.at)));
}
SHMT_VECTOR VECTOR VFN(cosine)(VFN(reduced) a) {
  const VECTOR sine = VFN(lookup)(VFN(sines)[0], a.at);
  return VFN(sine_at)(a, VFN(quarter_on)(a.at), -sine);
}

/* Replaces the results of large angles by those of `fn`, a function of the C library. */
static __attribute__((noinline, cold, unused)) VECTOR VFN(by)(VECTOR y, VECTOR x, uint32_t which,
                                                              ELEMENT (*fn)(ELEMENT)) {
  for (int i = 0; i < COLUMNS / 2; i++)
    if (which >> i & 1) y[i] = fn(x[i]);
  return y;
}
SHMT_VECTOR VECTOR VFN(unless_far)(VECTOR y, VECTOR x, ELEMENT (*fn)(ELEMENT)) {
  const VECTOR limit = ALL(FLOAT_OR_DOUBLE(SHMT_TRIG_LIMITF, SHMT_TRIG_LIMIT));
  const uint32_t is_far = MM_MASK(cmp)(VFN(abs)(x), limit, _CMP_NLE_UQ);
  return __builtin_expect(is_far != 0, 0) ? VFN(by)(y, x, is_far, fn) : y;
}

SHMT_VECTOR VECTOR VFN(sin)(VECTOR x) {
  const VFN(reduced) a = VFN(reduce)(VFN(abs)(x));
  return VFN(unless_far)(VFN(sign_flipped)(VFN(sine)(a), x), x, FLOAT_OR_DOUBLE(sinf, sin));
}
SHMT_VECTOR VECTOR VFN(cos)(VECTOR x) {
  const VFN(reduced) a = VFN(reduce)(VFN(abs)(x));
  return VFN(unless_far)(VFN(cosine)(a), x, FLOAT_OR_DOUBLE(cosf, cos));
}

/* tan(r) for the rest r of an angle */
SHMT_VECTOR VECTOR VFN(tan_of_rest)(VECTOR r) {
  const VECTOR z = r * r;
#if OF_FLOATS
  const VECTOR p = VFN(madd)(z, ALL(1.3346349e-01f), ALL(3.3333328e-01f));
#else
  VECTOR p = ALL(0.0036345334233867372);
  p = VFN(madd)(p, z, ALL(0.0088627746344159));
  p = VFN(madd)(p, z, ALL(0.021869490842098323));
  p = VFN(madd)(p, z, ALL(0.053968253963041876));
  p = VFN(madd)(p, z, ALL(0.13333333333333763));
  p = VFN(madd)(p, z, ALL(0.3333333333333333));
#endif
  return VFN(madd)(z * r, p, r);
}
/* tan. It has the period pi, so the table covers half a turn. With t = tan(r) and the multiple's sine and cosine, the
 * result is (sine + cosine t) / (cosine - sine t). */
SHMT_VECTOR VECTOR VFN(tan)(VECTOR x) {
  __m512i at;
  const VECTOR t = VFN(tan_of_rest)(VFN(from_multiple)(VFN(abs)(x), COLUMNS / 2, &at));
  const VECTOR sine = VFN(lookup)(VFN(half_angle)[0], at), cosine = VFN(lookup)(VFN(half_angle)[2], at);
  const VECTOR high = VFN(madd)(cosine, t, VFN(lookup)(VFN(half_angle)[1], at)) + sine;
  const VECTOR low = VFN(nmadd)(sine, t, VFN(lookup)(VFN(half_angle)[3], at)) + cosine;
  return VFN(unless_far)(VFN(sign_flipped)(high / low, x), x, FLOAT_OR_DOUBLE(tanf, tan));
}
#undef QUARTER
