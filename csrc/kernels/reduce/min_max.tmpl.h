/* kernels/reduce/min_max.tmpl.h -- amax and amin. */
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_FLOATING
#define LOWEST  (-(C)INFINITY)
#define HIGHEST ((C)INFINITY)
#else
#define LOWEST  ((C)(SHMT_IS_SIGNED ? (C)((SHMT_WRAPPING(1)) << (8 * sizeof(C) - 1)) : 0))
#define HIGHEST ((C)~LOWEST)
#endif
/* NaN is larger and smaller than everything: a NaN in any element gives NaN. */
#if SHMT_IS_FLOATING
#define IS_NAN(x) ((x) != (x))
#else
#define IS_NAN(x) 0
#endif
#if SHMT_IS_BOOL
#define FOLD_NAME    amax
#define FOLD_LANE    uint8_t
#define FOLD_COMBINE a | b
#define FOLD_STATE   uint8_t
#define FOLD_JOIN    s | a
#define FOLD_MERGE   s | t
#define FOLD_FINISH  s
#include "kernels/reduce/fold.tmpl.h"

#define FOLD_NAME    amin
#define FOLD_LANE    uint8_t
#define FOLD_FIRST   1
#define FOLD_COMBINE a & b
#define FOLD_STATE   uint8_t
#define FOLD_JOIN    s & a
#define FOLD_MERGE   s & t
#define FOLD_FINISH  s
#include "kernels/reduce/fold.tmpl.h"
#else
static inline C FN(higher)(C a, C b) {
  const C m = a > b ? a : b; /* in two statements, which gcc vectorises */
  return IS_NAN(a) ? a : m;
}
static inline C FN(lower)(C a, C b) {
  const C m = a < b ? a : b;
  return IS_NAN(a) ? a : m;
}
/* The extremum of a lane and four elements. Tests two elements for NaN at once. A NaN in `a` stays, because no
 * comparison with it is true. */
#if SHMT_IS_FLOATING
#define OR_NAN(extreme) (__builtin_isunordered(w, x) | __builtin_isunordered(y, z) ? (C)NAN : (extreme))
#else
#define OR_NAN(extreme) (extreme)
#endif
#define FURTHEST(NAME, BEYOND)                                       \
  static inline C FN(NAME)(C a, C w, C x, C y, C z) {                \
    const C m = w BEYOND x ? w : x, n = y BEYOND z ? y : z;          \
    const C k = m BEYOND n ? m : n;                                  \
    const C extreme = k BEYOND a ? k : a;                            \
    return OR_NAN(extreme);                                          \
  }
FURTHEST(highest, >)
FURTHEST(lowest, <)
#define FOLD_NAME    amax
#define FOLD_FIRST   LOWEST
#define FOLD_COMBINE FN(higher)(a, b)
#define FOLD_FOUR    FN(highest)(a, w, x, y, z)
#define FOLD_STATE   C
#define FOLD_JOIN    FN(higher)(s, a)
#define FOLD_MERGE   FN(higher)(s, t)
#define FOLD_FINISH  SHMT_STORE(s)
#include "kernels/reduce/fold.tmpl.h"

#define FOLD_NAME    amin
#define FOLD_FIRST   HIGHEST
#define FOLD_COMBINE FN(lower)(a, b)
#define FOLD_FOUR    FN(lowest)(a, w, x, y, z)
#define FOLD_STATE   C
#define FOLD_JOIN    FN(lower)(s, a)
#define FOLD_MERGE   FN(lower)(s, t)
#define FOLD_FINISH  SHMT_STORE(s)
#include "kernels/reduce/fold.tmpl.h"
#undef FURTHEST
#undef OR_NAN
#endif
#undef IS_NAN
#undef LOWEST
#undef HIGHEST
