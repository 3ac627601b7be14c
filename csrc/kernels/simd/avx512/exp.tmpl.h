/* kernels/simd/avx512/exp.tmpl.h -- exp and exp2. Floats or doubles. */

/* The step of the multiples whose powers are looked up. */
#define STEP FLOAT_OR_DOUBLE(0x1p-5f, 0x1p-4)

/* A number as power * (1 + rest) * 2^(k rounded down); `at` says where the power stands in its table. */
typedef struct VFN(scaled) {
  VECTOR power, rest, k;
  __m512i at;
} VFN(scaled);

SHMT_VECTOR VECTOR VFN(value)(VFN(scaled) e) { return MM(scalef)(VFN(madd)(e.power, e.rest, e.power), e.k); }

/* exp(r) - 1 for |r| <= log(2) / 64 (doubles: log(2) / 32) */
SHMT_VECTOR VECTOR VFN(short_expm1)(VECTOR r) {
#if OF_FLOATS
  const VECTOR p = VFN(madd)(r, ALL(1.6666715e-01f), ALL(5.0000244e-01f));
#else
  VECTOR p = ALL(0.0013889034348599464);
  p = VFN(madd)(p, r, ALL(0.008333449701253456));
  p = VFN(madd)(p, r, ALL(0.04166666666496045));
  p = VFN(madd)(p, r, ALL(0.1666666666530169));
  p = VFN(madd)(p, r, ALL(0.5));
#endif
  return VFN(madd)(r * r, p, r);
}
/* The number whose exponential is 2^(what was rounded to `shifted`) (1 + rest). */
SHMT_VECTOR VFN(scaled) VFN(scaled_by)(VECTOR shifted, VECTOR rest) {
  const __m512i at = INTEGERS_OF(shifted);
  return (VFN(scaled)){VFN(lookup)(VFN(powers)[0], at), rest, shifted - ROUNDER(STEP), at};
}
SHMT_VECTOR VFN(scaled) VFN(exp_parts)(VECTOR x) {
  const VECTOR rounder = ROUNDER(STEP);
  const VECTOR shifted = VFN(madd)(x, ALL(FLOAT_OR_DOUBLE(1.44269504f, 1.4426950408889634)), rounder);
  const VECTOR k = shifted - rounder;
  const VECTOR near = VFN(nmadd)(k, ALL(FLOAT_OR_DOUBLE(0.693147182f, 0.69314718055994531)), x);
  const VECTOR r = VFN(nmadd)(k, ALL(FLOAT_OR_DOUBLE(-1.90465430e-9f, 2.3190468138462996e-17)), near);
  return VFN(scaled_by)(shifted, VFN(short_expm1)(r));
}
/* exp(-c*c), without the rounding error of the square, for c up to 10.2 (doubles: 27.3) */
SHMT_VECTOR VFN(scaled) VFN(exp_of_square)(VECTOR c) {
  const VECTOR rounder = ROUNDER(STEP);
  const VECTOR shifted = VFN(madd)(c * c, ALL(FLOAT_OR_DOUBLE(-1.44269504f, -1.4426950408889634)), rounder);
  const VECTOR k = shifted - rounder;
  /* The product is exact. */
  const VECTOR near = MM(fnmsub)(c, c, k * ALL(FLOAT_OR_DOUBLE(0.693359375f, 0.6931467056274414)));
  const VECTOR r = VFN(nmadd)(k, ALL(FLOAT_OR_DOUBLE(-2.12194440e-4f, 4.7493250390316726e-07)), near);
  return VFN(scaled_by)(shifted, VFN(short_expm1)(r));
}

/* Where exp or exp2 is 0, it is not computed: the scaling instruction takes a hundred times as long for subnormal
 * results, and who masks scores has many of them. */
SHMT_VECTOR MASK VFN(not_below)(VECTOR x, ELEMENT least) { return MM_MASK(cmp)(x, ALL(least), _CMP_NLT_UQ); }

SHMT_VECTOR VECTOR VFN(exp)(VECTOR x) {
  const ELEMENT least = FLOAT_OR_DOUBLE(-104.0f, -746.0), most = FLOAT_OR_DOUBLE(90.0f, 710.0);
  const MASK some = VFN(not_below)(x, least);
  const VECTOR c = VFN(within)(MM(maskz_mov)(some, x), least, most);
  return MM(maskz_mov)(some, VFN(value)(VFN(exp_parts)(c)));
}
/* 2^r - 1 for |r| <= 1/64 (doubles: 1/32) */
SHMT_VECTOR VECTOR VFN(short_exp2m1)(VECTOR r) {
#if OF_FLOATS
  VECTOR p = ALL(5.550435e-02f);
  p = VFN(madd)(p, r, ALL(2.4022827e-01f));
  p = VFN(madd)(p, r, ALL(6.931472e-01f));
#else
  VECTOR p = ALL(0.00015403723980749256);
  p = VFN(madd)(p, r, ALL(0.0013333781576784268));
  p = VFN(madd)(p, r, ALL(0.009618129106919537));
  p = VFN(madd)(p, r, ALL(0.0555041086566393));
  p = VFN(madd)(p, r, ALL(0.24022650695910075));
  p = VFN(madd)(p, r, ALL(0.6931471805599457));
#endif
  return p * r;
}
SHMT_VECTOR VECTOR VFN(exp2)(VECTOR x) {
  const ELEMENT least = FLOAT_OR_DOUBLE(-150.0f, -1075.0), most = FLOAT_OR_DOUBLE(129.0f, 1025.0);
  const MASK some = VFN(not_below)(x, least);
  const VECTOR c = VFN(within)(MM(maskz_mov)(some, x), least, most);
  const VECTOR rounder = ROUNDER(STEP), shifted = c + rounder, r = c - (shifted - rounder);
  return MM(maskz_mov)(some, VFN(value)(VFN(scaled_by)(shifted, VFN(short_exp2m1)(r))));
}
#undef STEP
