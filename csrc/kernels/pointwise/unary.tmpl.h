/* kernels/pointwise/unary.tmpl.h -- cheap unary functions: neg, abs, sign, rounding, reciprocal, square, clamp, ... */
#include "kernels/simd/complex.h"
#include "kernels/loops.h"
#include "kernels/simd/vmath_double.h"

#define M(fn) _Generic((C)0, float: fn##f, default: fn)

#if SHMT_IS_BOOL
UNARY(sign, a)
UNARY(sgn, a)
UNARY_AS(angle, float, , SHMT_NOTHING, ((void)a, 0.0f))
#elif SHMT_IS_INTEGRAL
#if SHMT_IS_BAREBONES_UNSIGNED
UNARY_AS(angle, float, , SHMT_NOTHING, ((void)a, 0.0f))
#else
UNARY(neg, (C)(0 - SHMT_WRAPPING(a)))
#if SHMT_IS_SIGNED
UNARY(abs, (C)(a < 0 ? 0 - SHMT_WRAPPING(a) : SHMT_WRAPPING(a)))
UNARY(sign, (C)((a > 0) - (a < 0)))
UNARY(sgn, (C)((a > 0) - (a < 0)))
UNARY_AS(angle, float, , SHMT_NOTHING, a < 0 ? 3.14159265f : 0.0f)
#else
UNARY(abs, a)
UNARY(sign, (C)(a > 0))
UNARY(sgn, (C)(a > 0))
UNARY_AS(angle, float, , SHMT_NOTHING, ((void)a, 0.0f))
#endif
UNARY(square, (C)(SHMT_WRAPPING(a) * SHMT_WRAPPING(a)))
#endif
UNARY(ceil, a)
UNARY(floor, a)
UNARY(trunc, a)
UNARY(round, a)
#elif SHMT_IS_FLOATING
#if SHMT_IS_HALF
/* neg and abs of 16-bit floats change only the sign bit. */
#define SIGN_LOOP(NAME, EXPR)                                                                       \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {     \
    const int64_t so = strides[0], sa = strides[1];                                                 \
    (void)ctx;                                                                                      \
    if (so == 2 && sa == 2) {                                                                       \
      SHMT_IVDEP for (int64_t i = 0; i < n; i++)                                                    \
        SHMT_AT(uint16_t, data[0], 2, i) = (uint16_t)(SHMT_AT(const uint16_t, data[1], 2, i) EXPR); \
      return;                                                                                       \
    }                                                                                               \
    for (int64_t i = 0; i < n; i++)                                                                 \
      SHMT_AT(uint16_t, data[0], so, i) = (uint16_t)(SHMT_AT(const uint16_t, data[1], sa, i) EXPR); \
  }
SIGN_LOOP(neg, ^ 0x8000)
SIGN_LOOP(abs, &0x7fff)
#undef SIGN_LOOP
#else
UNARY(neg, -a)
UNARY(abs, M(fabs)(a))
#endif
UNARY(sign, (C)((a > 0) - (a < 0)))
UNARY(sgn, (C)((a > 0) - (a < 0)))
UNARY(angle, a != a ? a : a < 0 ? (C)3.141592653589793 : 0)
UNARY(square, a * a)
UNARY(cube, a * a * a)
UNARY(ceil, M(ceil)(a))
UNARY(floor, M(floor)(a))
UNARY(trunc, M(trunc)(a))
UNARY(round, M(rint)(a))
UNARY(frac, a - M(trunc)(a))
/* data: mantissa, exponent (int32), a. */
void SHMT_LOOP(frexp)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  (void)ctx;
  for (int64_t i = 0; i < n; i++) {
    const C a = SHMT_LOAD(SHMT_AT(const T, data[2], strides[2], i));
    int exponent = 0;
    SHMT_AT(T, data[0], strides[0], i) = SHMT_STORE(M(frexp)(a, &exponent));
    /* The exponent of infinities and NaN, which C leaves unspecified, is 0. */
    SHMT_AT(int32_t, data[1], strides[1], i) = a - a == 0 ? exponent : 0;
  }
}
UNARY(reciprocal, 1 / a)
UNARY(deg2rad, a*(C)0.017453292519943295)
UNARY(rad2deg, a*(C)57.29577951308232)
/* ctx: 10^|decimals|, and whether to divide by it first (negative decimals). */
UNARY_WITH(round_decimals, const C ten = (C)SHMT_CTX_SCALAR(0);
           const bool divide = SHMT_CTX_SCALAR(1) != 0,
           divide ? M(rint)(a / ten) * ten : M(rint)(a * ten) / ten)
/* ctx: what NaN, +inf and -inf become. */
UNARY_WITH(nan_to_num, const C nan = (C)SHMT_CTX_SCALAR(0); const C high = (C)SHMT_CTX_SCALAR(1);
           const C low = (C)SHMT_CTX_SCALAR(2), a != a              ? nan
                                            : a == (C)INFINITY  ? high
                                            : a == -(C)INFINITY ? low
                                                                : a)
#else
#define RE(x) SHMT_CREAL(x)
#define IM(x) SHMT_CIMAG(x)
#define R     __typeof__(SHMT_CREAL((C)0))
#define Z(fn) _Generic((C)0, float _Complex: fn##f, default: fn)
static inline C FN(complex_of)(R re, R im) {
  C z;
  ((R*)&z)[0] = re;
  ((R*)&z)[1] = im;
  return z;
}
static inline C FN(unit)(C a) {
  /* The squares of floats do not overflow in double. */
  const double re = (double)RE(a), im = (double)IM(a), r = sizeof(R) < sizeof re ? sqrt(re * re + im * im) : cabs(a);
  return FN(complex_of)((R)(r == 0 ? 0 : re / r), (R)(r == 0 ? 0 : im / r));
}
UNARY(neg, -a)
UNARY_AS(abs, SHMT_REAL, SHMT_STORE_REAL, SHMT_NOTHING, Z(cabs)(a))
UNARY(sgn, FN(unit)(a))
UNARY(_conj_complex, FN(complex_of)(RE(a), -IM(a)))
#if !SHMT_IS_LIMITED
UNARY_AS(angle, R, , SHMT_NOTHING, _Generic((R)0, float: shmt__atan2f, default: shmt__atan2)(IM(a), RE(a)))
UNARY(square, SHMT_CMUL(a, a))
/* The same result as SHMT_CDIV(1, a). No branches. */
static inline __attribute__((always_inline)) C FN(reciprocal_of)(C a) {
  const R re = RE(a), im = IM(a);
  const bool is_steep = (re < 0 ? -re : re) < (im < 0 ? -im : im);
  const R high = is_steep ? im : re, low = is_steep ? re : im, ratio = low / high, scale = 1 / (high + low * ratio);
  const R real = is_steep ? ratio : 1, imaginary = is_steep ? -1 : 0 - ratio;
  return __builtin_complex((R)((high == 0) & (low == 0) ? (R)INFINITY : real * scale), (R)(imaginary * scale));
}
UNARY(reciprocal, FN(reciprocal_of)(a))
static inline R FN(finite)(R x, R nan, R high, R low) {
  return x != x ? nan : x == (R)INFINITY ? high : x == -(R)INFINITY ? low : x;
}
UNARY_WITH(nan_to_num, const R nan = (R)SHMT_CREAL(SHMT_CTX_SCALAR(0));
           const R high = (R)SHMT_CREAL(SHMT_CTX_SCALAR(1));
           const R low = (R)SHMT_CREAL(SHMT_CTX_SCALAR(2)),
           FN(complex_of)(FN(finite)(RE(a), nan, high, low), FN(finite)(IM(a), nan, high, low)))
#endif
#undef RE
#undef IM
#undef R
#undef Z
#endif
#if !SHMT_IS_COMPLEX && !SHMT_IS_BAREBONES_UNSIGNED
/* clamp by scalars. ctx: low, high, which fit the dtype. A NaN stays; a limit that is NaN gives NaN everywhere. */
static inline C FN(clamped)(C a, C low, C high) {
  const C up = a < low ? low : a;
  return up > high ? high : up;
}
UNARY_WITH(clamp, const C low = (C)SHMT_CTX_SCALAR(0);
           const C high = (C)SHMT_CTX_SCALAR(1); const bool lower = low == low;
           const bool both = lower && high == high,
           both ? FN(clamped)(a, low, high) : lower ? high : low)
UNARY_WITH(clamp_low, const C low = (C)SHMT_CTX_SCALAR(0);
           const bool some = low == low, !some || a < low ? low : a)
UNARY_WITH(clamp_high, const C high = (C)SHMT_CTX_SCALAR(0);
           const bool some = high == high, !some || a > high ? high : a)
#endif
#undef M
