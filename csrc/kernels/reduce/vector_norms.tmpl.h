/* kernels/reduce/vector_norms.tmpl.h -- vector norms of order 1, 2 and infinity. */
#include "kernels/reduce/magnitudes.tmpl.h"

FOLD(norm_1, R, 0, MAGNITUDE(x), a + b, double, 0, s + a, s + t, STORED, PUT(s))
FOLD(norm_2, R, 0, SQUARE(x), a + b, double, 0, s + a, s + t, STORED, PUT(sqrt(s)))
static inline R FN(norm_higher)(R a, R b) {
  const R m = a > b ? a : b;
  return a != a ? a : m;
}
FOLD(norm_inf, R, 0, MAGNITUDE(x), FN(norm_higher)(a, b), R, 0, FN(norm_higher)(s, a),
     FN(norm_higher)(s, t), STORED, PUT(s))

#undef R
#undef MAGNITUDE
#undef SQUARE
#undef PUT
#undef STORED
