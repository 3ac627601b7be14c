/* kernels/pointwise/trigonometry.tmpl.h -- trigonometric and hyperbolic functions, and their inverses. */
#include "kernels/simd/complex.h"
#include "kernels/loops.h"
#include "kernels/simd/piecewise_double.h"
#include "kernels/simd/costly_loops.h"
#include "kernels/simd/vmath_double.h"
#include "kernels/simd/avx512/inverse_trigonometric.h"
#include "kernels/simd/avx512/inverse_hyperbolic.h"
#include "kernels/simd/avx512/trigonometric.h"

#if SHMT_IS_FLOATING
/* OWN(sin) is our function for the compute type, M(sin) that of the C library. */
#define OWN(fn) _Generic((C)0, float: shmt__##fn##f, default: shmt__##fn)
#define M(fn)   _Generic((C)0, float: fn##f, default: fn)

UNARY_AVX512_OR(asin, OWN(asin)(a))
UNARY_AVX512_OR(acos, OWN(acos)(a))
UNARY_AVX512_OR(atan, OWN(atan)(a))
UNARY_COSTLY(sinh, OWN(sinh)(a))
UNARY_COSTLY(cosh, OWN(cosh)(a))
UNARY_AVX512_OR(asinh, OWN(asinh)(a))
UNARY_AVX512_OR(acosh, OWN(acosh)(a))
UNARY_AVX512_OR(atanh, OWN(atanh)(a))

#if SHMT_HAS_AVX512
UNARY_AVX512(sin, SHMT_AVX512_FUNCTION(sin))
UNARY_AVX512(cos, SHMT_AVX512_FUNCTION(cos))
UNARY_AVX512(tan, SHMT_AVX512_FUNCTION(tan))
#else
/* Large angles are computed by the C library, whose argument reduction is exact. */
#define IS_FAR                                                                            \
  !(OWN(magnitude)(a) <= _Generic((C)0, float: SHMT_TRIG_LIMITF, default: SHMT_TRIG_LIMIT))
UNARY_FALLBACK(sin, IS_FAR, OWN(sin)(a), M(sin)(a))
UNARY_FALLBACK(cos, IS_FAR, OWN(cos)(a), M(cos)(a))
UNARY_FALLBACK(tan, IS_FAR, OWN(tan)(a), M(tan)(a))
#undef IS_FAR
#endif

/* sin(pi x) / (pi x) */
static inline C FN(sinc_of)(C a) {
  const C x = a * (C)3.141592653589793;
  return a == 0 ? 1 : M(sin)(x) / x;
}
UNARY_COSTLY(sinc, FN(sinc_of)(a))

#undef OWN
#undef M
#else
#define Z(fn) _Generic((C)0, float _Complex: fn##f, default: fn)
UNARY(sin, Z(csin)(a))
UNARY(cos, Z(ccos)(a))
UNARY(tan, Z(ctan)(a))
UNARY(asin, Z(casin)(a))
UNARY(acos, Z(cacos)(a))
UNARY(atan, Z(catan)(a))
UNARY(sinh, Z(csinh)(a))
UNARY(cosh, Z(ccosh)(a))
UNARY(asinh, Z(casinh)(a))
UNARY(acosh, Z(cacosh)(a))
UNARY(atanh, Z(catanh)(a))
static inline C FN(sinc_of)(C a) {
  const C x = a * (__typeof__(SHMT_CREAL((C)0)))3.141592653589793;
  return a == 0 ? 1 : SHMT_CDIV(Z(csin)(x), x);
}
UNARY(sinc, FN(sinc_of)(a))
#undef Z
#endif
