/* kernels/pointwise/binary_math.tmpl.h -- binary functions that cost more: pow, atan2, hypot, logaddexp, gcd, lcm,
 * ... */
#include "kernels/simd/complex.h"
#include "kernels/loops.h"
#include "kernels/simd/piecewise_double.h"
#include "kernels/simd/costly_loops.h"
#include "kernels/simd/vmath_gamma.h"
#include "kernels/simd/avx512/inverse_trigonometric.h"
#include "kernels/simd/avx512/log.h"
#include "kernels/simd/avx512/rsqrt_hypot.h"

#include <string.h>

#if SHMT_IS_INTEGRAL
/* Integer power, which wraps. With a negative exponent only 1 and -1 give anything but 0, as in torch. */
static inline C FN(power)(C a, C b) {
  __typeof__(SHMT_WRAPPING(a)) base = SHMT_WRAPPING(a), result = 1;

#if SHMT_IS_SIGNED
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? (C)-1 : 1) : 0;
#endif
  for (uint64_t e = (uint64_t)b; e; e >>= 1) {
    if (e & 1) result *= base;
    base *= base;
  }
  return (C)result;
}
static inline C FN(divisor)(C a, C b) {
#if SHMT_IS_SIGNED
  __typeof__(SHMT_WRAPPING(a)) x = a < 0 ? 0 - SHMT_WRAPPING(a) : SHMT_WRAPPING(a),
                           y = b < 0 ? 0 - SHMT_WRAPPING(b) : SHMT_WRAPPING(b);
#else
  __typeof__(SHMT_WRAPPING(a)) x = a, y = b;
#endif
  while (y) {
    __typeof__(x) r = x % y;
    x = y;
    y = r;
  }
  return (C)x;
}
static inline C FN(multiple)(C a, C b) {
  const C g = FN(divisor)(a, b);
  if (g == 0) return 0;
#if SHMT_IS_SIGNED
  if (g == (C)-1) return 0;
#endif
  const __typeof__(SHMT_WRAPPING(a)) product = SHMT_WRAPPING((C)(a / g)) * SHMT_WRAPPING(b);
#if SHMT_IS_SIGNED
  /* Takes the absolute value before the product is truncated to C's bits. */
  const bool negative = product >> (sizeof product * 8 - 1);
  return (C)(negative ? 0 - product : product);
#else
  return (C)product;
#endif
}
BINARY(pow, FN(power)(a, b))
BINARY(gcd, FN(divisor)(a, b))
BINARY(lcm, FN(multiple)(a, b))
#elif SHMT_IS_COMPLEX
#define CPOW(a, b) _Generic((a), float _Complex: cpowf, default: cpow)(a, b)
static inline C FN(power)(C a, C b) {
  if (SHMT_CREAL(b) == 0 && SHMT_CIMAG(b) == 0) return 1;
  if (SHMT_CREAL(a) == 0 && SHMT_CIMAG(a) == 0 && SHMT_CREAL(b) > 0) return 0;
  return CPOW(a, b);
}
BINARY(pow, FN(power)(a, b))
#undef CPOW
/* Computed in double, because log(1 + z) has no exact form for complex64. */
static inline C FN(log_add_exp)(C a, C b) {
  const double _Complex x = a, y = b;
  const bool swap = creal(x) < creal(y);
  const double _Complex high = swap ? y : x, low = swap ? x : y;
  if (creal(low) == -INFINITY && creal(high) == -INFINITY) return (C)-INFINITY;
  if (isinf(creal(high)) && creal(low) == creal(high))
    return cimag(low) == cimag(high) ? (C)high : (C)clog(cexp(low) + cexp(high));
  const double _Complex z = cexp(low - high);
  const double re = creal(z), im = cimag(z), away = re * (re + 2) + im * im; /* |1 + z|^2 - 1 */
  return (C)(high + CMPLX(fabs(away) < 0.5 ? log1p(away) / 2 : log(hypot(1 + re, im)),
                          atan2(im, 1 + re)));
}
BINARY(logaddexp, FN(log_add_exp)(a, b))
#else
#define M(fn)   _Generic((C)0, float: fn##f, default: fn)
#define OWN(fn) _Generic((C)0, float: shmt__##fn##f, default: shmt__##fn)
/* Two equal infinities give that infinity; a NaN gives NaN. */
SHMT_VMATH C FN(log_add_exp)(C a, C b) {
  const C high = a > b ? a : b, away = OWN(magnitude)(a - b);
  const C y = high + OWN(log1p_unit)(OWN(exp)(-away));
  return a != a || b != b ? a + b : a == b && OWN(magnitude)(a) == (C)INFINITY ? a : y;
}
SHMT_VMATH C FN(log_add_exp2)(C a, C b) {
  const C high = a > b ? a : b, away = OWN(magnitude)(a - b);
  const C y = high + OWN(log1p_unit)(OWN(exp2)(-away)) * (C)1.4426950408889634;
  return a != a || b != b ? a + b : a == b && OWN(magnitude)(a) == (C)INFINITY ? a : y;
}
#define IS_FINITE(x) (OWN(magnitude)(x) < (C)INFINITY)
#define TINY         _Generic((C)0, float: 0.0f, default: 2.2250738585072014e-308)
#define HUGE_POWER   _Generic((C)0, float: INFINITY, default: 1e300)
#if SHMT_HAS_AVX512 && !SHMT_IS_DOUBLE
BINARY_AVX512(pow, shmt__avx512_powf)
#else
BINARY_FALLBACK(pow, !(OWN(magnitude)(a) > TINY) | !IS_FINITE(a) | !(OWN(magnitude)(b) < HUGE_POWER), OWN(pow)(a, b),
            M(pow)(a, b))
#endif
BINARY_AVX512_OR(atan2, OWN(atan2)(a, b))
BINARY_AVX512_OR(hypot, OWN(hypot)(a, b))
BINARY_AVX512_OR(logaddexp, FN(log_add_exp)(a, b))
BINARY_COSTLY(logaddexp2, FN(log_add_exp2)(a, b))
BINARY_COSTLY(xlogy, b != b ? b : a == 0 ? 0 : a * OWN(log)(b))
BINARY(copysign, M(copysign)(a, b))
/* nextafter: the bits of neighbouring numbers of one sign are neighbouring integers. */
#define BITS __typeof__(_Generic((T*)0, float*: (uint32_t)0, double*: (uint64_t)0, default: (uint16_t)0))
static inline C FN(next_of)(C a, C b) {
  T t = SHMT_STORE(a);
  BITS bits;
  memcpy(&bits, &t, sizeof bits);
  const BITS stepped = (BITS)((a > 0) == (b > a) ? bits + 1 : bits - 1);
  const BITS first = (BITS)((b > 0 ? 0 : (BITS)1 << (8 * sizeof bits - 1)) + 1);
  bits = a == 0 ? first : stepped;
  memcpy(&t, &bits, sizeof bits);
  return a != a || b != b ? a + b : a == b ? b : SHMT_LOAD(t);
}
#undef BITS
BINARY_IN_T(nextafter, FN(next_of)(a, b))
#undef M
#undef OWN
#undef TINY
#undef HUGE_POWER
#undef IS_FINITE
#endif
