/* kernels/softmax/row_exponentials.tmpl.h -- the maximum of a row, and its sum of exponentials. For softmax.tmpl.h. */
#include "kernels/simd/exp_log.h"
#include "kernels/row_lanes.tmpl.h"

INLINE void FN(vector_exp)(FN(vector)* v) {
  C a[FN(lanes)];
  __builtin_memcpy(a, v, sizeof a);
  EACH_LANE a[k] = SHMT_EXP(a[k]);
  __builtin_memcpy(v, a, sizeof a);
}

INLINE void FN(vector_max)(FN(vector)* best, const FN(vector)* v) {
  const FN(mask) greater = *best > *v;
  *best = (FN(vector))(((FN(mask))*best & greater) | ((FN(mask))*v & ~greater));
}

#define MAX(a, b) ((a) > (b) ? (a) : (b))
static inline C FN(row_max)(const T* x, int64_t n) {
  FN(vector) best, v;

  if (n < FN(lanes)) {
    C top = -(C)INFINITY;
    for (int64_t i = 0; i < n; i++) top = MAX(top, SHMT_LOAD(x[i]));
    return top;
  }
  FN(load_full)(&best, x);
  for (int64_t i = FN(lanes); i + FN(lanes) <= n; i += FN(lanes)) {
    FN(load_full)(&v, x + i);
    FN(vector_max)(&best, &v);
  }
  FN(load_full)(&v, x + n - FN(lanes));
  FN(vector_max)(&best, &v);
  C m[8];
  for (int k = 0; k < 8; k++) m[k] = MAX(best[k], best[k + 8]);
  for (int k = 0; k < 4; k++) m[k] = MAX(m[k], m[k + 4]);
  m[0] = MAX(m[0], m[2]);
  m[1] = MAX(m[1], m[3]);
  return MAX(m[0], m[1]);
}
#undef MAX

/* Numbers whose exponential is no normal number become minus infinity. NaN stays. */
INLINE void FN(cut_subnormal)(FN(vector)* v) {
  C a[FN(lanes)];
  __builtin_memcpy(a, v, sizeof a);
  EACH_LANE a[k] = a[k] < SHMT_LEAST_NORMAL_EXPONENT(C) ? -(C)INFINITY : a[k];
  __builtin_memcpy(v, a, sizeof a);
}

#define SHIFTED_EXP v -= shift, FN(vector_exp)(&v)
ROW_SUM(sum_exp, SHIFTED_EXP, 0)
ROW_SUM(store_exp, SHIFTED_EXP, 1)
#undef SHIFTED_EXP
ROW_SUM(store_weights, (v -= shift, FN(cut_subnormal)(&v), FN(vector_exp)(&v)), 1)
