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
FOLD(amax, uint8_t, 0, x, a | b, uint8_t, 0, s | a, s | t, T, s)
FOLD(amin, uint8_t, 1, x, a & b, uint8_t, 1, s & a, s & t, T, s)
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
FOLD_FOUR(amax, FN(highest)(a, w, x, y, z), C, LOWEST, x, FN(higher)(a, b), C, LOWEST, FN(higher)(s, a),
          FN(higher)(s, t), T, SHMT_STORE(s))
FOLD_FOUR(amin, FN(lowest)(a, w, x, y, z), C, HIGHEST, x, FN(lower)(a, b), C, HIGHEST, FN(lower)(s, a),
          FN(lower)(s, t), T, SHMT_STORE(s))
#undef FURTHEST
#undef OR_NAN
#endif
#undef IS_NAN
#undef LOWEST
#undef HIGHEST
