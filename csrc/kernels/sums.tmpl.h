/* kernels/sums.tmpl.h -- sums and products of many elements. */
#include "kernels/complex.h"
#include "kernels/fold.h"

#if SHMT_IS_COMPLEX
#define WIDE double _Complex
#elif SHMT_IS_FLOATING
#define WIDE double
#else
#define WIDE uint64_t /* wraps */
#endif

#if SHMT_IS_FLOATING || SHMT_IS_COMPLEX
#define SUM_LANE      C
#define SUM_RESULT    T
#define SUM_FINISH(s) SHMT_STORE((C)(s))
#else
#define SUM_LANE      uint64_t
#define SUM_RESULT    int64_t
#define SUM_FINISH(s) ((int64_t)(s))
#endif

/* sum: a mean when it has a ctx. */
#if SHMT_IS_FLOATING || SHMT_IS_COMPLEX
/* A quotient that is rounded to a shorter type may be a product with the reciprocal. */
#define MEAN (sizeof(C) < sizeof(WIDE) ? s * (1.0 / (double)run->count) : s / (double)run->count)
FOLD(sum, C, 0, x, a + b, WIDE, 0, s + a, s + t, T, SHMT_STORE((C)(run->ctx ? MEAN : s)))
#undef MEAN
#else
/* A lane takes at most FOLD_ROWS elements, so that 32 bits hold the sums of narrow ones. */
#define NARROW(x)             \
  _Generic((C)0,              \
      bool: (int32_t)(x),     \
      uint8_t: (int32_t)(x),  \
      int8_t: (int32_t)(x),   \
      int16_t: (int32_t)(x),  \
      uint16_t: (int32_t)(x), \
      default: (uint64_t)(int64_t)(x))
FOLD(sum, __typeof__(NARROW(0)), 0, NARROW(x), a + b, uint64_t, 0, s + (uint64_t)(int64_t)a, s + t,
     int64_t, (int64_t)s)
#undef NARROW
#endif

#if SHMT_IS_COMPLEX
FOLD(prod, C, 1, x, SHMT_CMUL(a, b), WIDE, 1, SHMT_CMUL(s, (WIDE)a), SHMT_CMUL(s, t), T, (T)s)
#else
FOLD(prod, SUM_LANE, 1, (SUM_LANE)x, a * b, WIDE, 1, s*(WIDE)a, s* t, SUM_RESULT, SUM_FINISH(s))
#endif
#if SHMT_IS_FLOATING
FOLD(nansum, C, 0, x != x ? 0 : x, a + b, WIDE, 0, s + a, s + t, T, SHMT_STORE((C)s))
#endif

#undef WIDE
#undef SUM_LANE
#undef SUM_RESULT
#undef SUM_FINISH
