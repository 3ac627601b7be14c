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
#define FOLD_NAME    sum
#define FOLD_STATE   WIDE
#define FOLD_FINISH  SHMT_STORE((C)(run->ctx ? MEAN : s))
#include "kernels/reduce/fold.tmpl.h"
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
#define FOLD_NAME    sum
#define FOLD_MAP     NARROW(x)
#define FOLD_LANE    __typeof__(NARROW(0))
#define FOLD_STATE   uint64_t
#define FOLD_JOIN    s + (uint64_t)(int64_t)a
#define FOLD_RESULT  int64_t
#define FOLD_FINISH  (int64_t)s
#include "kernels/reduce/fold.tmpl.h"
#undef NARROW
#endif

#if SHMT_IS_FLOATING
#define FOLD_NAME    nansum
#define FOLD_MAP     x != x ? 0 : x
#include "kernels/reduce/fold.tmpl.h"
#endif
