/* kernels/softmax.tmpl.h -- softmax and log-softmax, forward and backward, one dtype.
 *
 * Tensors are [outer, dim, inner], dense. ..._rows: inner is 1; n rows, each strides[k] bytes after the last,
 * of ctx->length elements. ..._columns: one outer block; n columns side by side, whose elements are ctx->step bytes
 * apart, so that columns are summed in vectors. Sums are kept in 16 lanes, which the compiler turns into vectors.
 * 16-bit floats are calculated in float, never rounded in between.
 */
#include "kernels/loops.h"
#include "kernels/shapes.h"
#include "kernels/vmath.h"

#ifndef SHMT_EXP
#define SHMT_EXP(x) _Generic((x), float: shmt__expf, default: shmt__exp)(x)
#define SHMT_LOG(x) _Generic((x), float: logf, default: log)(x)
#endif

enum { FN(lanes) = 16, FN(columns) = 64 };
#define EACH_LANE for (int k = 0; k < FN(lanes); k++)

/* Sums and maxima are kept in one of these, which stays in registers from one step to the next. */
typedef C FN(vector) __attribute__((vector_size(FN(lanes) * sizeof(C))));
typedef __typeof__((FN(vector)){0} > (FN(vector)){0}) FN(mask);
/* Vectors go by reference: by value the layout of a call would depend on the instruction set. */
#define INLINE static inline __attribute__((always_inline))

/* n elements, less than fill a vector; fill in the place of those that are missing. */
INLINE void FN(load_rest)(FN(vector)* out, const T* x, int64_t n, C fill) {
  C v[FN(lanes)];
  EACH_LANE v[k] = fill;
  for (int64_t k = 0; k < (n & (FN(lanes) - 1)); k++) v[k] = SHMT_LOAD(x[k]);
  __builtin_memcpy(out, v, sizeof v);
}

INLINE void FN(load_full)(FN(vector)* out, const T* x) {
  C v[FN(lanes)];
  EACH_LANE v[k] = SHMT_LOAD(x[k]);
  __builtin_memcpy(out, v, sizeof v);
}

INLINE void FN(vector_exp)(FN(vector)* v) {
  C a[FN(lanes)];
  __builtin_memcpy(a, v, sizeof a);
  EACH_LANE a[k] = SHMT_EXP(a[k]);
  __builtin_memcpy(v, a, sizeof a);
}

INLINE void FN(store_full)(T* out, const FN(vector)* v) {
  C a[FN(lanes)];
  __builtin_memcpy(a, v, sizeof a);
  EACH_LANE out[k] = SHMT_STORE(a[k]);
}

/* In a tree: one after the other would wait for each. */
INLINE C FN(lanes_sum)(const FN(vector)* sums) {
  const FN(vector) v = *sums;
  const C a = (v[0] + v[8]) + (v[4] + v[12]), b = (v[1] + v[9]) + (v[5] + v[13]);
  const C c = (v[2] + v[10]) + (v[6] + v[14]), d = (v[3] + v[11]) + (v[7] + v[15]);
  return (a + b) + (c + d);
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

/* Keep the elements of v from lane `first` on, 0 before. */
INLINE void FN(from_lane)(FN(vector)* v, int64_t first) {
  FN(mask) keep;
  EACH_LANE keep[k] = k >= (int)first ? -1 : 0;
  *v = (FN(vector))((FN(mask))*v & keep);
}

/* Sum over i of what STEPS make of v, an element of x, and w, one of y. The last vector overlaps the one before and
 * counts what is new in it; rows of less than a vector are filled up. */
#define ROW_SUM(NAME, STEPS, STORE)                                                             \
  static inline C FN(NAME)(const T* x, const T* y, T* out, C shift, int64_t n) {                \
    FN(vector) sum = {0}, v, w;                                                                 \
    int64_t i = 0;                                                                              \
    (void)out, (void)shift, (void)w;                                                            \
    for (; i + FN(lanes) <= n; i += FN(lanes)) {                                                \
      FN(load_full)(&v, x + i);                                                                 \
      FN(load_full)(&w, y + i);                                                                 \
      STEPS;                                                                                    \
      if (STORE) FN(store_full)(out + i, &v);                                                   \
      sum += v;                                                                                 \
    }                                                                                           \
    if (i < n && n >= FN(lanes)) {                                                              \
      const int64_t last = n - FN(lanes);                                                       \
      FN(load_full)(&v, x + last);                                                              \
      FN(load_full)(&w, y + last);                                                              \
      STEPS;                                                                                    \
      if (STORE) FN(store_full)(out + last, &v);                                                \
      FN(from_lane)(&v, i - last);                                                              \
      sum += v;                                                                                 \
    } else if (i < n) {                                                                         \
      C e[FN(lanes)], result = 0;                                                               \
      FN(load_rest)(&v, x, n, shift);                                                           \
      FN(load_rest)(&w, y, n, shift);                                                           \
      STEPS;                                                                                    \
      __builtin_memcpy(e, &v, sizeof e);                                                        \
      for (int64_t k = 0; k < (n & (FN(lanes) - 1)); k++) {                                     \
        if (STORE) out[k] = SHMT_STORE(e[k]);                                                   \
        result += e[k];                                                                         \
      }                                                                                         \
      return result;                                                                            \
    }                                                                                           \
    return FN(lanes_sum)(&sum);                                                                 \
  }
#define SHIFTED_EXP v -= shift, FN(vector_exp)(&v)
ROW_SUM(sum_exp, SHIFTED_EXP, 0)
ROW_SUM(store_exp, SHIFTED_EXP, 1)
ROW_SUM(sum_product, v *= w, 0)
ROW_SUM(sum_plain, (void)0, 0)
#undef SHIFTED_EXP
#undef ROW_SUM
#undef EACH_LANE
#undef INLINE

#define ROW(k, TYPE) ((TYPE*)(void*)(data[k] + r * strides[k]))

/* data: out, x. */
void SHMT_LOOP(softmax_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_shape*)ctx)->length;

  for (int64_t r = 0; r < n; r++) {
    T* out = ROW(0, T);
    const T* x = ROW(1, const T);
    const C top = FN(row_max)(x, length);
    if (sizeof(T) == sizeof(C)) {
      const C scale = 1 / FN(store_exp)(x, x, out, top, length);
      SHMT_IVDEP for (int64_t i = 0; i < length; i++) out[i] = SHMT_STORE(SHMT_LOAD(out[i]) * scale);
    } else {
      const C scale = 1 / FN(sum_exp)(x, x, out, top, length);
      SHMT_IVDEP for (int64_t i = 0; i < length; i++) out[i] = SHMT_STORE(SHMT_EXP(SHMT_LOAD(x[i]) - top) * scale);
    }
  }
}

void SHMT_LOOP(log_softmax_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_shape*)ctx)->length;

  for (int64_t r = 0; r < n; r++) {
    T* out = ROW(0, T);
    const T* x = ROW(1, const T);
    const C top = FN(row_max)(x, length);
    const C log_sum = SHMT_LOG(FN(sum_exp)(x, x, out, top, length));
    SHMT_IVDEP for (int64_t i = 0; i < length; i++) out[i] = SHMT_STORE(SHMT_LOAD(x[i]) - top - log_sum);
  }
}

/* data: grad_in, grad_out, out of the forward. */
void SHMT_LOOP(softmax_backward_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_shape*)ctx)->length;

  for (int64_t r = 0; r < n; r++) {
    T* to = ROW(0, T);
    const T* grad = ROW(1, const T);
    const T* out = ROW(2, const T);
    const C sum = FN(sum_product)(grad, out, to, 0, length);
    SHMT_IVDEP for (int64_t i = 0; i < length; i++) to[i] = SHMT_STORE((SHMT_LOAD(grad[i]) - sum) * SHMT_LOAD(out[i]));
  }
}

void SHMT_LOOP(log_softmax_backward_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_shape*)ctx)->length;

  for (int64_t r = 0; r < n; r++) {
    T* to = ROW(0, T);
    const T* grad = ROW(1, const T);
    const T* out = ROW(2, const T);
    const C sum = FN(sum_plain)(grad, grad, to, 0, length);
    SHMT_IVDEP for (int64_t i = 0; i < length; i++)
      to[i] = SHMT_STORE(SHMT_LOAD(grad[i]) - SHMT_EXP(SHMT_LOAD(out[i])) * sum);
  }
}
#undef ROW

/* --- columns --------------------------------------------------------------------------- */

#define CELL(k, TYPE) ((TYPE*)(void*)(data[k] + i * s->step) + c0)
#define EACH_COLUMN for (int64_t c = 0; c < width; c++)
#define COLUMN_BLOCKS                                                                       \
  const shmt__softmax_shape* s = ctx;                                                       \
  (void)strides;                                                                            \
  for (int64_t c0 = 0, width; c0 < n && (width = n - c0 < FN(columns) ? n - c0 : FN(columns)); c0 += FN(columns))

void SHMT_LOOP(softmax_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C top[FN(columns)], sum[FN(columns)];
    EACH_COLUMN top[c] = -(C)INFINITY, sum[c] = 0;
    for (int64_t i = 0; i < s->length; i++) {
      const T* x = CELL(1, const T);
      EACH_COLUMN {
        const C v = SHMT_LOAD(x[c]);
        top[c] = top[c] > v ? top[c] : v;
      }
    }
    for (int64_t i = 0; i < s->length; i++) {
      const T* x = CELL(1, const T);
      T* out = CELL(0, T);
      /* 16-bit floats are not rounded in between: their exponentials are calculated twice. */
      SHMT_IVDEP EACH_COLUMN {
        const C e = SHMT_EXP(SHMT_LOAD(x[c]) - top[c]);
        if (sizeof(T) == sizeof(C)) out[c] = SHMT_STORE(e);
        sum[c] += e;
      }
    }
    EACH_COLUMN sum[c] = 1 / sum[c];
    for (int64_t i = 0; i < s->length; i++) {
      const T* x = CELL(1, const T);
      T* out = CELL(0, T);
      SHMT_IVDEP EACH_COLUMN out[c] = SHMT_STORE(
          (sizeof(T) == sizeof(C) ? SHMT_LOAD(out[c]) : SHMT_EXP(SHMT_LOAD(x[c]) - top[c])) * sum[c]);
    }
  }
}

void SHMT_LOOP(log_softmax_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C top[FN(columns)], sum[FN(columns)];
    EACH_COLUMN top[c] = -(C)INFINITY, sum[c] = 0;
    for (int64_t i = 0; i < s->length; i++) {
      const T* x = CELL(1, const T);
      EACH_COLUMN {
        const C v = SHMT_LOAD(x[c]);
        top[c] = top[c] > v ? top[c] : v;
      }
    }
    for (int64_t i = 0; i < s->length; i++) {
      const T* x = CELL(1, const T);
      EACH_COLUMN sum[c] += SHMT_EXP(SHMT_LOAD(x[c]) - top[c]);
    }
    EACH_COLUMN sum[c] = SHMT_LOG(sum[c]);
    for (int64_t i = 0; i < s->length; i++) {
      const T* x = CELL(1, const T);
      T* out = CELL(0, T);
      EACH_COLUMN out[c] = SHMT_STORE(SHMT_LOAD(x[c]) - top[c] - sum[c]);
    }
  }
}

void SHMT_LOOP(softmax_backward_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C sum[FN(columns)];
    EACH_COLUMN sum[c] = 0;
    for (int64_t i = 0; i < s->length; i++) {
      const T* grad = CELL(1, const T);
      const T* out = CELL(2, const T);
      EACH_COLUMN sum[c] += SHMT_LOAD(grad[c]) * SHMT_LOAD(out[c]);
    }
    for (int64_t i = 0; i < s->length; i++) {
      const T* grad = CELL(1, const T);
      const T* out = CELL(2, const T);
      T* to = CELL(0, T);
      EACH_COLUMN to[c] = SHMT_STORE((SHMT_LOAD(grad[c]) - sum[c]) * SHMT_LOAD(out[c]));
    }
  }
}

void SHMT_LOOP(log_softmax_backward_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C sum[FN(columns)];
    EACH_COLUMN sum[c] = 0;
    for (int64_t i = 0; i < s->length; i++) {
      const T* grad = CELL(1, const T);
      EACH_COLUMN sum[c] += SHMT_LOAD(grad[c]);
    }
    for (int64_t i = 0; i < s->length; i++) {
      const T* grad = CELL(1, const T);
      const T* out = CELL(2, const T);
      T* to = CELL(0, T);
      EACH_COLUMN to[c] = SHMT_STORE(SHMT_LOAD(grad[c]) - SHMT_EXP(SHMT_LOAD(out[c])) * sum[c]);
    }
  }
}
#undef CELL
#undef EACH_COLUMN
#undef COLUMN_BLOCKS
