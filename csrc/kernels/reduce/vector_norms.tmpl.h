/* kernels/reduce/vector_norms.tmpl.h -- vector norms of order 1, 2 and infinity. */
#include "kernels/reduce/magnitudes.tmpl.h"

#define FOLD_NAME    norm_1
#define FOLD_MAP     MAGNITUDE(x)
#define FOLD_LANE    R
#define FOLD_RESULT  STORED
#define FOLD_FINISH  PUT(s)
#include "kernels/reduce/fold.tmpl.h"

#define FOLD_NAME    norm_2
#define FOLD_MAP     SQUARE(x)
#define FOLD_LANE    R
#define FOLD_RESULT  STORED
#define FOLD_FINISH  PUT(sqrt(s))
#include "kernels/reduce/fold.tmpl.h"

static inline R FN(norm_higher)(R a, R b) {
  const R m = a > b ? a : b;
  return a != a ? a : m;
}
#define FOLD_NAME    norm_inf
#define FOLD_MAP     MAGNITUDE(x)
#define FOLD_LANE    R
#define FOLD_COMBINE FN(norm_higher)(a, b)
#define FOLD_STATE   R
#define FOLD_JOIN    FN(norm_higher)(s, a)
#define FOLD_MERGE   FN(norm_higher)(s, t)
#define FOLD_RESULT  STORED
#define FOLD_FINISH  PUT(s)
#include "kernels/reduce/fold.tmpl.h"

#undef R
#undef MAGNITUDE
#undef SQUARE
#undef PUT
#undef STORED
