/* kernels/simd/avx512/erf_tanh.tmpl.h -- polynomials with looked-up coefficients, and erfc. Floats or doubles. */

/* Evaluates polynomials of n coefficients: the first is given, the others are in the columns `at` of the table. */
SHMT_VECTOR VECTOR VFN(polynomials)(VECTOR first, const ELEMENT (*table)[COLUMNS], int n, __m512i at, VECTOR d) {
  VECTOR p = VFN(lookup)(table[n - 1], at);
#pragma GCC unroll 16
  for (int k = n - 2; k > 0; k--) p = VFN(madd)(p, d, VFN(lookup)(table[k], at));
  return VFN(madd)(p, d, first);
}

/* Parts of an octave: 8, doubles 4. PART: the bits of a number that tell the part, and those before; MIDDLE: the next
 * bit. */
#define PART_SHIFT FLOAT_OR_DOUBLE(20, 50)
#define PART       FLOAT_OR_DOUBLE(-0x100000, -0x4000000000000)
#define MIDDLE     FLOAT_OR_DOUBLE(0x80000, 0x2000000000000)

/* The middle of the part that u is in. */
SHMT_VECTOR VECTOR VFN(middle)(__m512i u) {
  return OF_INTEGERS(MM_INTEGER(ternarylogic)(u, MM_INTEGER(set1)(PART), MM_INTEGER(set1)(MIDDLE), 0xea));
}
/* Evaluates the polynomials of the parts of octaves that u is in; d is u's distance from the middle. */
SHMT_VECTOR VECTOR VFN(in_octaves)(const ELEMENT (*table)[COLUMNS], int n, __m512i u, VECTOR d) {
  const __m512i at = MM_INTEGER(srli)(u, PART_SHIFT);
  return VFN(polynomials)(VFN(lookup)(table[0], at), table, n, at, d);
}
#undef PART_SHIFT
#undef PART
#undef MIDDLE

/* exp(-c*c) times a polynomial near exp(c*c) erfc(c), c = |x|. Its octaves are those of c + 1, doubles c + 2. */
SHMT_VECTOR VECTOR VFN(erfc)(VECTOR x) {
  const VECTOR c = VFN(at_most)(VFN(abs)(x), FLOAT_OR_DOUBLE(10.1f, 27.3)), more = ALL(FLOAT_OR_DOUBLE(1.0f, 2.0));
  const __m512i u = INTEGERS_OF(c + more);
  const VECTOR scaled = VFN(in_octaves)(FLOAT_OR_DOUBLE(shmt__avx512_erfcxf_octaves, shmt__avx512_erfcx_octaves),
                                        FLOAT_OR_DOUBLE(6, 14), u, c - (VFN(middle)(u) - more));
  const VFN(scaled) e = VFN(exp_of_square)(c);
  const VECTOR y = MM(scalef)(VFN(madd)(e.power, e.rest, e.power) * scaled, e.k);
  return MM(mask_sub)(y, VFN(is_signed)(x), ALL(2.0), y);
}
