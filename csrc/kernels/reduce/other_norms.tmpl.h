/* kernels/reduce/other_norms.tmpl.h -- the rarer vector norms: of order 0, minus infinity, and any other number. */
#include "kernels/reduce/magnitudes.tmpl.h"

#define POWER(x, p) _Generic((R)0, float: powf, default: pow)(x, (R)(p))

#define FOLD_NAME    norm_0
#define FOLD_MAP     MAGNITUDE(x) != 0 ? 1 : 0
#define FOLD_LANE    R
#define FOLD_RESULT  STORED
#define FOLD_FINISH  PUT(s)
#include "kernels/reduce/fold.tmpl.h"

static inline R FN(norm_lower)(R a, R b) {
  const R m = a < b ? a : b;
  return a != a ? a : m;
}
#define FOLD_NAME    norm_neg_inf
#define FOLD_MAP     MAGNITUDE(x)
#define FOLD_LANE    R
#define FOLD_FIRST   (R)INFINITY
#define FOLD_COMBINE FN(norm_lower)(a, b)
#define FOLD_STATE   R
#define FOLD_JOIN    FN(norm_lower)(s, a)
#define FOLD_MERGE   FN(norm_lower)(s, t)
#define FOLD_RESULT  STORED
#define FOLD_FINISH  PUT(s)
#include "kernels/reduce/fold.tmpl.h"

/* ctx: the exponent, a double. */
#define FOLD_NAME    norm_p
#define FOLD_MAP     POWER(MAGNITUDE(x), *(const double*)ctx)
#define FOLD_LANE    R
#define FOLD_RESULT  STORED
#define FOLD_FINISH  PUT(pow(s, 1 / *(const double*)run->ctx))
#include "kernels/reduce/fold.tmpl.h"

#undef R
#undef MAGNITUDE
#undef SQUARE
#undef POWER
#undef PUT
#undef STORED
