/* kernels/simd/avx512/vector.tmpl.h -- limits, signs, comparisons and table lookups of vectors. Floats or doubles. */

/* a b + c, and c - a b, rounded once */
SHMT_VECTOR VECTOR VFN(madd)(VECTOR a, VECTOR b, VECTOR c) { return MM(fmadd)(a, b, c); }
SHMT_VECTOR VECTOR VFN(nmadd)(VECTOR a, VECTOR b, VECTOR c) { return MM(fnmadd)(a, b, c); }

/* x limited to high, or to [low, high]. A NaN passes, because the instructions return their second operand for it. */
SHMT_VECTOR VECTOR VFN(at_most)(VECTOR x, ELEMENT high) { return MM(min)(ALL(high), x); }
SHMT_VECTOR VECTOR VFN(within)(VECTOR x, ELEMENT low, ELEMENT high) {
  return MM(max)(ALL(low), VFN(at_most)(x, high));
}

SHMT_VECTOR VECTOR VFN(abs)(VECTOR x) { return MM(abs)(x); }
SHMT_VECTOR VECTOR VFN(minus)(VECTOR x) { return MM(xor)(x, ALL(-0.0)); }
/* Only the sign bits. */
SHMT_VECTOR __m512i VFN(sign_bits)(void) { return INTEGERS_OF(ALL(-0.0)); }
/* y, which is not negative, with the sign of x */
SHMT_VECTOR VECTOR VFN(signed)(VECTOR y, VECTOR x) {
  return OF_INTEGERS(MM_INTEGER(ternarylogic)(INTEGERS_OF(y), INTEGERS_OF(x), VFN(sign_bits)(), 0xd8));
}
/* y with its sign flipped where x is negative */
SHMT_VECTOR VECTOR VFN(sign_flipped)(VECTOR y, VECTOR x) {
  return OF_INTEGERS(MM_INTEGER(ternarylogic)(INTEGERS_OF(y), INTEGERS_OF(x), VFN(sign_bits)(), 0x78));
}
/* Where the sign bit is set, that of -0 too. */
SHMT_VECTOR MASK VFN(is_signed)(VECTOR x) {
  return FLOAT_OR_DOUBLE(_mm512_movepi32_mask, _mm512_movepi64_mask)(INTEGERS_OF(x));
}

/* Looks up the columns of a table's row that the low bits of `at` number. */
SHMT_VECTOR VECTOR VFN(lookup)(const ELEMENT* row, __m512i at) {
  return MM(permutex2var)(MM(loadu)(row), at, MM(loadu)(row + COLUMNS / 2));
}
