/* kernels/row_lanes.tmpl.h -- loads, stores and sums contiguous rows in vectors. One dtype.
 *
 * The templates of softmax and normalization include it. A vector is one register: longer ones, the compiler keeps in
 * memory. 16-bit floats are computed in float and rounded once at the end.
 */
#include "kernels/simd/half_runs.h"
#include "kernels/template.h"

enum { FN(lanes) = SHMT_VECTOR_BYTES / sizeof(C) };
#define EACH_LANE for (int k = 0; k < FN(lanes); k++)

/* Sums and maxima are kept in a vector, which stays in registers from one step to the next. */
typedef C FN(vector) __attribute__((vector_size(FN(lanes) * sizeof(C))));
typedef __typeof__((FN(vector)){0} > (FN(vector)){0}) FN(mask);
/* Vectors are passed by reference: by value, the calling convention would depend on the instruction set. */
#define INLINE static inline __attribute__((always_inline))

/* Loads n elements, fewer than a vector has; the other lanes become `fill`. */
INLINE void FN(load_rest)(FN(vector)* out, const T* x, int64_t n, C fill) {
  C v[FN(lanes)];
#if SHMT_ISA_LEVEL >= 1 /* the compiler uses masked loads and stores */
  const int count = (int)n;
  EACH_LANE v[k] = k < count ? SHMT_LOAD(x[k]) : fill;
#else
  EACH_LANE v[k] = fill;
  for (int64_t k = 0; k < (n & (FN(lanes) - 1)); k++) v[k] = SHMT_LOAD(x[k]);
#endif
  __builtin_memcpy(out, v, sizeof v);
}

INLINE void FN(load_full)(FN(vector)* out, const T* x) {
  C v[FN(lanes)];
  if (SHMT_HAS_F16C && SHMT_IS_FLOAT16)
    shmt__widen_float16(SHMT_AS_FLOATS(v), SHMT_AS_FLOAT16(x), FN(lanes));
  else
    EACH_LANE v[k] = SHMT_LOAD(x[k]);
  __builtin_memcpy(out, v, sizeof v);
}

INLINE void FN(store_full)(T* out, const FN(vector)* v) {
  C a[FN(lanes)];
  __builtin_memcpy(a, v, sizeof a);
  if (SHMT_HAS_F16C && SHMT_IS_FLOAT16)
    shmt__narrow_float16(SHMT_AS_FLOAT16(out), SHMT_AS_FLOATS(a), FN(lanes));
  else
    EACH_LANE out[k] = SHMT_STORE(a[k]);
}

/* JOIN(a, b) of all lanes, as a tree: in sequence, each step would wait for the one before. */
#define LANE(v, k)          (v)[(k) & (FN(lanes) - 1)]
#define OF_16(JOIN, v, k)   (FN(lanes) > 8 ? JOIN(LANE(v, k), LANE(v, (k) + 8)) : LANE(v, k))
#define OF_8(JOIN, v, k)    (FN(lanes) > 4 ? JOIN(OF_16(JOIN, v, k), OF_16(JOIN, v, (k) + 4)) : OF_16(JOIN, v, k))
#define OF_4(JOIN, v, k)    (FN(lanes) > 2 ? JOIN(OF_8(JOIN, v, k), OF_8(JOIN, v, (k) + 2)) : OF_8(JOIN, v, k))
#define ALL_LANES(JOIN, v)  JOIN(OF_4(JOIN, v, 0), OF_4(JOIN, v, 1))
#define PLUS(a, b)          ((a) + (b))

INLINE C FN(lanes_sum)(const FN(vector)* sums) {
  const FN(vector) v = *sums;
  return ALL_LANES(PLUS, v);
}

INLINE void FN(store_rest)(T* out, const FN(vector)* v, int64_t n) {
  C a[FN(lanes)];
  __builtin_memcpy(a, v, sizeof a);
  for (int64_t k = 0; k < (n & (FN(lanes) - 1)); k++) out[k] = SHMT_STORE(a[k]);
}

/* Keeps the first n lanes of v and sets the others to 0. */
INLINE void FN(only_lanes)(FN(vector)* v, int64_t n) {
  FN(mask) keep;
  EACH_LANE keep[k] = k < (int)n ? -1 : 0;
  *v = (FN(vector))((FN(mask))*v & keep);
}

/* Keeps the lanes of v from `first` on and sets those before to 0. */
INLINE void FN(from_lane)(FN(vector)* v, int64_t first) {
  FN(mask) keep;
  EACH_LANE keep[k] = k >= (int)first ? -1 : 0;
  *v = (FN(vector))((FN(mask))*v & keep);
}

/* Defines a function that sums f(x[i], y[i]) over a row. STEPS computes f in place in v (from x), with w (from y);
 * STORE says whether f goes to out, too. The last vector overlaps the one before and only its new lanes count. It is
 * loaded before anything is stored, because out may be x. Rows shorter than a vector are filled up. */
#define ROW_SUM(NAME, STEPS, STORE)                                                             \
  static inline C FN(NAME)(const T* x, const T* y, T* out, C shift, int64_t n) {                \
    FN(vector) sum = {0}, v, w, last_v, last_w;                                                 \
    const int64_t last = n - FN(lanes);                                                         \
    int64_t i = 0;                                                                              \
    (void)out, (void)shift, (void)w, (void)last_w;                                              \
    if (last >= 0) {                                                                            \
      FN(load_full)(&last_v, x + last);                                                         \
      FN(load_full)(&last_w, y + last);                                                         \
    }                                                                                           \
    for (; i <= last; i += FN(lanes)) {                                                         \
      FN(load_full)(&v, x + i);                                                                 \
      FN(load_full)(&w, y + i);                                                                 \
      STEPS;                                                                                    \
      if (STORE) FN(store_full)(out + i, &v);                                                   \
      sum += v;                                                                                 \
    }                                                                                           \
    if (i < n && last >= 0) {                                                                   \
      v = last_v;                                                                               \
      w = last_w;                                                                               \
      STEPS;                                                                                    \
      if (STORE) FN(store_full)(out + last, &v);                                                \
      FN(from_lane)(&v, i - last);                                                              \
      sum += v;                                                                                 \
    } else if (i < n) {                                                                         \
      FN(load_rest)(&v, x, n, shift);                                                           \
      FN(load_rest)(&w, y, n, shift);                                                           \
      STEPS;                                                                                    \
      FN(only_lanes)(&v, n);                                                                    \
      if (STORE) FN(store_rest)(out, &v, n);                                                    \
      sum = v;                                                                                  \
    }                                                                                           \
    return FN(lanes_sum)(&sum);                                                                 \
  }
