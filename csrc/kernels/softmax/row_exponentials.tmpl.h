/* kernels/softmax/row_exponentials.tmpl.h -- the maximum of a row, and its sum of exponentials. For softmax.tmpl.h. */
#include "kernels/simd/exp_log.h"
#include "kernels/row_lanes.tmpl.h"

/* Of numbers that are not positive, or NaN. */
INLINE void FN(vector_exp)(FN(vector)* v) {
  C a[FN(lanes)];
  __builtin_memcpy(a, v, sizeof a);
  EACH_LANE a[k] = SHMT_EXP_IN_RANGE(a[k]);
  __builtin_memcpy(v, a, sizeof a);
}

static inline C FN(larger)(C a, C b) { return a > b ? a : b; }

INLINE void FN(vector_max)(FN(vector)* best, const FN(vector)* v) {
  const FN(mask) greater = *best > *v;
  *best = (FN(vector))(((FN(mask))*best & greater) | ((FN(mask))*v & ~greater));
}

/* The largest element, minus infinity of none; any number where one is NaN. Four maxima do not wait for each other. */
static inline C FN(row_max)(const T* x, int64_t n) {
  FN(vector) best, second, third, fourth, v;
  int64_t i = FN(lanes);

#define TAKE(MAXIMUM, AT) FN(load_full)(&v, x + (AT)), FN(vector_max)(&(MAXIMUM), &v)
  if (n < FN(lanes)) {
    C top = -(C)INFINITY;
    for (int64_t k = 0; k < n; k++) top = FN(larger)(top, SHMT_LOAD(x[k]));
    return top;
  }
  FN(load_full)(&best, x);
  if (n >= 8 * FN(lanes)) {
    second = third = fourth = best;
    for (; i + 4 * FN(lanes) <= n; i += 4 * FN(lanes)) {
      TAKE(best, i);
      TAKE(second, i + FN(lanes));
      TAKE(third, i + 2 * FN(lanes));
      TAKE(fourth, i + 3 * FN(lanes));
    }
    FN(vector_max)(&best, &second);
    FN(vector_max)(&third, &fourth);
    FN(vector_max)(&best, &third);
  }
  for (; i + FN(lanes) <= n; i += FN(lanes)) TAKE(best, i);
  TAKE(best, n - FN(lanes));
#undef TAKE
  return ALL_LANES(FN(larger), best);
}

#define SHIFTED_EXP v -= shift, FN(vector_exp)(&v)
ROW_SUM(sum_exp, SHIFTED_EXP, 0)
ROW_SUM(store_exp, SHIFTED_EXP, 1)
#undef SHIFTED_EXP
