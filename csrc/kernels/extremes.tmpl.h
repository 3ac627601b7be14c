/* kernels/extremes.tmpl.h -- the greatest and the least of many elements. */
#include "kernels/fold.h"

#if SHMT_IS_FLOATING
#define LOWEST  (-(C)INFINITY)
#define HIGHEST ((C)INFINITY)
#else
#define LOWEST  ((C)(SHMT_IS_SIGNED ? (C)((SHMT_WIDE(1)) << (8 * sizeof(C) - 1)) : 0))
#define HIGHEST ((C)~LOWEST)
#endif
/* A NaN wins and stays. */
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
  const C m = a > b ? a : b; /* in two steps: so gcc vectorises a chain of them */
  return IS_NAN(a) ? a : m;
}
static inline C FN(lower)(C a, C b) {
  const C m = a < b ? a : b;
  return IS_NAN(a) ? a : m;
}
FOLD(amax, C, LOWEST, x, FN(higher)(a, b), C, LOWEST, FN(higher)(s, a), FN(higher)(s, t), T,
     SHMT_STORE(s))
FOLD(amin, C, HIGHEST, x, FN(lower)(a, b), C, HIGHEST, FN(lower)(s, a), FN(lower)(s, t), T,
     SHMT_STORE(s))
#endif
#undef IS_NAN
#undef LOWEST
#undef HIGHEST
