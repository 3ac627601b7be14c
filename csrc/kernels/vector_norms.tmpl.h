/* kernels/vector_norms.tmpl.h -- norms: reductions of floating-point elements to a real number. */
#include "kernels/fold.h"

#if SHMT_IS_COMPLEX
#define R            __typeof__(SHMT_CREAL((C)0))
#define MAGNITUDE(x) _Generic((C)0, float _Complex: cabsf, default: cabs)(x)
#define SQUARE(x)    (SHMT_CREAL(x) * SHMT_CREAL(x) + SHMT_CIMAG(x) * SHMT_CIMAG(x))
#define PUT(x)       SHMT_STORE_REAL((R)(x))
#define STORED       SHMT_REAL
#else
#define R            C
#define MAGNITUDE(x) _Generic((C)0, float: fabsf, default: fabs)(x)
#define SQUARE(x)    ((x) * (x))
#define PUT(x)       SHMT_STORE((C)(x))
#define STORED       T
#endif
#define POWER(x, p) _Generic((R)0, float: powf, default: pow)(x, (R)(p))

FOLD(norm_0, R, 0, MAGNITUDE(x) != 0 ? 1 : 0, a + b, double, 0, s + a, s + t, STORED, PUT(s))
FOLD(norm_1, R, 0, MAGNITUDE(x), a + b, double, 0, s + a, s + t, STORED, PUT(s))
FOLD(norm_2, R, 0, SQUARE(x), a + b, double, 0, s + a, s + t, STORED, PUT(sqrt(s)))
static inline R FN(norm_higher)(R a, R b) {
  const R m = a > b ? a : b;
  return a != a ? a : m;
}
static inline R FN(norm_lower)(R a, R b) {
  const R m = a < b ? a : b;
  return a != a ? a : m;
}
FOLD(norm_inf, R, 0, MAGNITUDE(x), FN(norm_higher)(a, b), R, 0, FN(norm_higher)(s, a),
     FN(norm_higher)(s, t), STORED, PUT(s))
FOLD(norm_neg_inf, R, (R)INFINITY, MAGNITUDE(x), FN(norm_lower)(a, b), R, (R)INFINITY,
     FN(norm_lower)(s, a), FN(norm_lower)(s, t), STORED, PUT(s))
/* ctx: the exponent, a double. */
FOLD(norm_p, R, 0, POWER(MAGNITUDE(x), *(const double*)ctx), a + b, double, 0, s + a, s + t, STORED,
     PUT(pow(s, 1 / *(const double*)run->ctx)))

#undef R
#undef MAGNITUDE
#undef SQUARE
#undef PUT
#undef STORED
#undef POWER
