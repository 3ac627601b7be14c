/* kernels/pointwise/binary.tmpl.h -- binary arithmetic, out[i] = f(a[i], b[i]): add, mul, div, maximum, remainder, ...
 *
 * Included once per dtype with T, C, DT, SHMT_LOAD, SHMT_STORE, SHMT_IS_... and SHMT_LOOP defined
 * (docs/architecture.md, "Kernels"). */
#include "kernels/simd/complex.h"
#include "kernels/loops.h"
#include "kernels/simd/costly_loops.h"

#if SHMT_IS_BAREBONES_UNSIGNED
BINARY(mul, (C)(SHMT_WRAPPING(a) * SHMT_WRAPPING(b)))
#else

/* The ctx of add and sub is alpha. */
#if SHMT_IS_BOOL
BINARY_WITH(add, const C alpha = SHMT_CTX_SCALAR(0) != 0, a | (alpha & b))
BINARY(mul, a & b)
BINARY(maximum, a | b)
BINARY(minimum, a & b)
BINARY(fmax, a | b)
BINARY(fmin, a & b)
#elif SHMT_IS_INTEGRAL
BINARY_WITH(add, const C alpha = (C)SHMT_CTX_SCALAR(0),
            (C)(SHMT_WRAPPING(a) + SHMT_WRAPPING(alpha) * SHMT_WRAPPING(b)))
BINARY_WITH(sub, const C alpha = (C)SHMT_CTX_SCALAR(0),
            (C)(SHMT_WRAPPING(a) - SHMT_WRAPPING(alpha) * SHMT_WRAPPING(b)))
BINARY(mul, (C)(SHMT_WRAPPING(a) * SHMT_WRAPPING(b)))
BINARY(maximum, a > b ? a : b)
BINARY(minimum, a < b ? a : b)
BINARY(fmax, a > b ? a : b)
BINARY(fmin, a < b ? a : b)
#elif SHMT_IS_FLOATING
BINARY_WITH(add, const C alpha = (C)SHMT_CTX_SCALAR(0), a + alpha * b)
BINARY_WITH(sub, const C alpha = (C)SHMT_CTX_SCALAR(0), a - alpha * b)
BINARY(mul, a * b)
BINARY(div, a / b)
/* If either operand is NaN, the result is NaN. */
BINARY(maximum, a != a ? a : (a > b || b != b ? (b != b ? b : a) : b))
BINARY(minimum, a != a ? a : (a < b || b != b ? (b != b ? b : a) : b))
/* If one operand is NaN, the result is the other. */
BINARY(fmax, a != a ? b : (a < b ? b : a))
BINARY(fmin, a != a ? b : (a > b ? b : a))
#else
/* alpha == 1 is a case of its own: infinity times (1 + 0i) would give a NaN. */
#define LET_ALPHA                        \
  const C alpha = (C)SHMT_CTX_SCALAR(0); \
  const bool is_one = alpha == 1
BINARY_WITH(add, LET_ALPHA, is_one ? a + b : a + SHMT_CMUL(alpha, b))
BINARY_WITH(sub, LET_ALPHA, is_one ? a - b : a - SHMT_CMUL(alpha, b))
#undef LET_ALPHA
BINARY(mul, SHMT_CMUL(a, b))
#if !SHMT_IS_LIMITED
BINARY(div, SHMT_CDIV(a, b))
#endif
#endif

/* Rounded division. An integer divisor of zero must not trap: it is reported through ctx, an int. */
#if SHMT_IS_INTEGRAL
static inline C FN(checked)(C divisor, const void* ctx) {
  /* relaxed: a flag that several threads may raise, read when all are done. */
  if (SHMT_UNLIKELY(divisor == 0)) __atomic_store_n((int*)ctx, 1, __ATOMIC_RELAXED);
  return divisor;
}
static inline C FN(quotient)(C a, C b) {
  if (b == 0) return 0;
#if SHMT_IS_SIGNED
  if (b == -1) return (C)(0 - SHMT_WRAPPING(a)); /* the smallest integer has no negative: it wraps */
#endif
  return (C)(a / b);
}
static inline C FN(floor_quotient)(C a, C b) {
  C q = FN(quotient)(a, b);
#if SHMT_IS_SIGNED
  if (b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0)) q = (C)(q - 1);
#endif
  return q;
}
static inline C FN(floor_remainder)(C a, C b) {
#if SHMT_IS_SIGNED
  if (b == 0 || b == -1) return 0;
  const C r = (C)(a % b);
  return r != 0 && (r < 0) != (b < 0) ? (C)(r + b) : r;
#else
  return b == 0 ? 0 : (C)(a % b);
#endif
}
static inline C FN(trunc_remainder)(C a, C b) {
#if SHMT_IS_SIGNED
  if (b == -1) return 0;
#endif
  return b == 0 ? 0 : (C)(a % b);
}
#if defined(__SSE4_1__)
/* There is no vector instruction for integer division. Integers below 2^51 are exact in double, and a quotient that is
 * not an integer is further from one than its rounding error. Added to 1.5 * 2^52 they are the last bits of a
 * double. */
#define EXACT 0x1p51
#define SHIFT 0x1.8p52
static inline double FN(to_double)(C a) {
  double shifted;

  if (sizeof(C) < sizeof(int64_t)) return (double)a;
  const uint64_t bits = (uint64_t)a + 0x4338000000000000; /* those of SHIFT */
  memcpy(&shifted, &bits, sizeof shifted);
  return shifted - SHIFT;
}
static inline C FN(to_integer)(double whole) {
  const double shifted = whole + SHIFT;
  uint64_t bits;

  if (sizeof(C) < sizeof(int64_t)) return (C)(int32_t)whole;
  memcpy(&bits, &shifted, sizeof bits);
  return (C)(bits - 0x4338000000000000);
}
#define IS_LARGE(a) (sizeof(C) == sizeof(int64_t) && ((uint64_t)(a) + (uint64_t)EXACT) >> 52 != 0)
#define IS_FAR      ((b == 0) | (SHMT_IS_SIGNED && b == (C)-1) | IS_LARGE(a) | IS_LARGE(b))
#define NEAR(ROUND) ROUND(FN(to_double)(a) / FN(to_double)(b))
#define REST(ROUND) (FN(to_double)(a) - NEAR(ROUND) * FN(to_double)(b))
#define ROUNDED(NAME, NEAR, SLOW) BINARY_FALLBACK(NAME, IS_FAR, FN(to_integer)(NEAR), SLOW)
#else
#define ROUNDED(NAME, NEAR, SLOW) BINARY(NAME, SLOW)
#endif
ROUNDED(div_trunc, NEAR(trunc), FN(quotient)(a, FN(checked)(b, ctx)))
ROUNDED(div_floor, NEAR(floor), FN(floor_quotient)(a, FN(checked)(b, ctx)))
ROUNDED(remainder, REST(floor), FN(floor_remainder)(a, FN(checked)(b, ctx)))
ROUNDED(fmod, REST(trunc), FN(trunc_remainder)(a, FN(checked)(b, ctx)))
#undef EXACT
#undef SHIFT
#undef IS_LARGE
#undef IS_FAR
#undef NEAR
#undef REST
#undef ROUNDED
#elif SHMT_IS_FLOATING
#define FMOD(a, b)     _Generic((a), float: fmodf, default: fmod)(a, b)
#define FLOOR(a)       _Generic((a), float: floorf, default: floor)(a)
#define TRUNC(a)       _Generic((a), float: truncf, default: trunc)(a)
#define COPYSIGN(a, b) _Generic((a), float: copysignf, default: copysign)(a, b)
/* Python's floor division: uses the exact remainder, so that 1 // 0.1 is 9. */
static inline C FN(floor_quotient)(C a, C b) {
  if (b == 0) return a / b;
  const C mod = FMOD(a, b);
  C q = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) q -= 1;
  if (q == 0) return COPYSIGN((C)0, a / b);
  const C f = FLOOR(q);
  return q - f > (C)0.5 ? f + 1 : f;
}
/* fmod by one division, for quotients that are not too large. For floats it is exact in double when the quotient has up
 * to 28 bits: division and product lose no digit. For doubles it is exact when product and difference are rounded once
 * (FMA) and the quotient has up to 52 bits; a truncated quotient that is one off is corrected. */
static inline C FN(near_remainder)(C a, C b) {
  const double x = fabs((double)a), y = fabs((double)b), whole = trunc(x / y);
#ifdef __FMA__
  const double r = __builtin_fma(-whole, y, x), up = r < 0 ? r + y : r, mod = up >= y ? up - y : up;
#else
  const double mod = x - whole * y;
#endif
  return COPYSIGN((C)mod, a);
}
#ifdef __FMA__
#define NEAR (sizeof(C) == sizeof(float) ? 0x1p28 : 0x1p52)
#else
#define NEAR (sizeof(C) == sizeof(float) ? 0x1p28 : 0.0)
#endif
#define IS_FAR (!(fabs((double)a / (double)b) < NEAR) | !(b - b == 0))
static inline C FN(near_quotient)(C a, C b) {
  const C mod = FN(near_remainder)(a, b), whole = (a - mod) / b;
  const C q = whole - (C)((mod != 0) & ((b < 0) != (mod < 0)) ? 1 : 0), f = FLOOR(q);
  const C y = q - f > (C)0.5 ? f + 1 : f;
  return q == 0 ? COPYSIGN((C)0, a / b) : y;
}
/* The remainder with the sign of the divisor. */
static inline C FN(with_sign_of)(C mod, C b) { return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod; }
/* The quotient is rounded to the dtype first, as in torch. */
BINARY_IN_T(div_trunc, TRUNC((C)SHMT_LOAD(SHMT_STORE(a / b))))
BINARY_FALLBACK(div_floor, IS_FAR, FN(near_quotient)(a, b), FN(floor_quotient)(a, b))
BINARY_FALLBACK(remainder, IS_FAR, FN(with_sign_of)(FN(near_remainder)(a, b), b), FN(with_sign_of)(FMOD(a, b), b))
BINARY_FALLBACK(fmod, IS_FAR, FN(near_remainder)(a, b), FMOD(a, b))
#undef IS_FAR
#undef NEAR
#undef FMOD
#undef FLOOR
#undef TRUNC
#undef COPYSIGN
#endif

#if !SHMT_IS_COMPLEX
BINARY(heaviside, a == 0 ? b : (C)(a > 0))
#endif

#endif /* SHMT_IS_BAREBONES_UNSIGNED */
