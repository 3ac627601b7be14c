/* kernels/reduce/sums.tmpl.h -- sum, mean and nansum. */
#include "kernels/reduce/reduce_loops.h"

/* sum; with a ctx it is the mean. */
#if SHMT_IS_FLOATING || SHMT_IS_COMPLEX
#if SHMT_IS_COMPLEX
#define WIDE double _Complex
#else
#define WIDE double
#endif
/* When the result is rounded to a shorter type, multiplying by the reciprocal is exact enough. */
#define MEAN (sizeof(C) < sizeof(WIDE) ? s * (1.0 / (double)run->count) : s / (double)run->count)
FOLD(sum, C, 0, x, a + b, WIDE, 0, s + a, s + t, T, SHMT_STORE((C)(run->ctx ? MEAN : s)))
#undef MEAN
#undef WIDE
#else
/* A lane takes at most FOLD_ROWS elements, so the sum of integers of up to 16 bits fits into 32. The state wraps. */
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

#if SHMT_IS_FLOATING
FOLD(nansum, C, 0, x != x ? 0 : x, a + b, double, 0, s + a, s + t, T, SHMT_STORE((C)s))
#endif
