/* kernels/reduce/other_norms.tmpl.h -- the rarer vector norms: of order 0, minus infinity, and any other number. */
#include "kernels/reduce/magnitudes.tmpl.h"

#define POWER(x, p) _Generic((R)0, float: powf, default: pow)(x, (R)(p))

FOLD(norm_0, R, 0, MAGNITUDE(x) != 0 ? 1 : 0, a + b, double, 0, s + a, s + t, STORED, PUT(s))
static inline R FN(norm_lower)(R a, R b) {
  const R m = a < b ? a : b;
  return a != a ? a : m;
}
FOLD(norm_neg_inf, R, (R)INFINITY, MAGNITUDE(x), FN(norm_lower)(a, b), R, (R)INFINITY,
     FN(norm_lower)(s, a), FN(norm_lower)(s, t), STORED, PUT(s))
/* ctx: the exponent, a double. */
FOLD(norm_p, R, 0, POWER(MAGNITUDE(x), *(const double*)ctx), a + b, double, 0, s + a, s + t, STORED,
     PUT(pow(s, 1 / *(const double*)run->ctx)))

#undef R
#undef MAGNITUDE
#undef SQUARE
#undef POWER
#undef PUT
#undef STORED
