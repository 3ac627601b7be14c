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
/* Only inlined functions take or return vectors. */
#pragma GCC diagnostic ignored "-Wpsabi"
#define INLINE static inline __attribute__((always_inline))

/* n elements, fill in the place of those that are missing. */
INLINE FN(vector) FN(load_rest)(const T* x, int64_t n, C fill) {
  FN(vector) v;
  EACH_LANE v[k] = fill;
  for (int k = 0; k < FN(lanes) && k < n; k++) v[k] = SHMT_LOAD(x[k]);
  return v;
}

INLINE FN(vector) FN(load_full)(const T* x) {
  C v[FN(lanes)];
  FN(vector) out;
  EACH_LANE v[k] = SHMT_LOAD(x[k]);
  __builtin_memcpy(&out, v, sizeof out);
  return out;
}

INLINE FN(vector) FN(vector_exp)(FN(vector) v) {
  C a[FN(lanes)];
  __builtin_memcpy(a, &v, sizeof a);
  EACH_LANE a[k] = SHMT_EXP(a[k]);
  __builtin_memcpy(&v, a, sizeof a);
  return v;
}

INLINE void FN(store_full)(T* out, FN(vector) v) {
  C a[FN(lanes)];
  __builtin_memcpy(a, &v, sizeof a);
  EACH_LANE out[k] = SHMT_STORE(a[k]);
}

/* In a tree: one after the other would wait for each. */
INLINE C FN(lanes_sum)(FN(vector) v) {
  const C a = (v[0] + v[8]) + (v[4] + v[12]), b = (v[1] + v[9]) + (v[5] + v[13]);
  const C c = (v[2] + v[10]) + (v[6] + v[14]), d = (v[3] + v[11]) + (v[7] + v[15]);
  return (a + b) + (c + d);
}

INLINE FN(vector) FN(vector_max)(FN(vector) a, FN(vector) b) {
  const FN(mask) greater = a > b;
  return (FN(vector))(((FN(mask))a & greater) | ((FN(mask))b & ~greater));
}

static inline C FN(row_max)(const T* x, int64_t n) {
  FN(vector) best = n < FN(lanes) ? FN(load_rest)(x, n, -(C)INFINITY) : FN(load_full)(x);

  for (int64_t i = FN(lanes); i + FN(lanes) <= n; i += FN(lanes))
    best = FN(vector_max)(best, FN(load_full)(x + i));
  if (n > FN(lanes)) best = FN(vector_max)(best, FN(load_full)(x + n - FN(lanes)));
#define MAX(a, b) ((a) > (b) ? (a) : (b))
  C m[8];
  for (int k = 0; k < 8; k++) m[k] = MAX(best[k], best[k + 8]);
  for (int k = 0; k < 4; k++) m[k] = MAX(m[k], m[k + 4]);
  m[0] = MAX(m[0], m[2]);
  m[1] = MAX(m[1], m[3]);
  return MAX(m[0], m[1]);
#undef MAX
}

/* The elements of v from lane `first` on, 0 before. */
INLINE FN(vector) FN(from_lane)(FN(vector) v, int64_t first) {
  FN(mask) keep;
  EACH_LANE keep[k] = k >= (int)first ? -1 : 0;
  return (FN(vector))((FN(mask))v & keep);
}

/* Sum over i of EXPR, with v the elements of x and w those of y. The last vector overlaps the one
 * before and counts what is new in it; rows of less than a vector go element by element. */
#define ROW_SUM(NAME, EXPR, STORE)                                                              \
  static inline C FN(NAME)(const T* x, const T* y, T* out, C shift, int64_t n) {                \
    FN(vector) sum = {0};                                                                       \
    int64_t i = 0;                                                                              \
    (void)out, (void)shift;                                                                     \
    for (; i + FN(lanes) <= n; i += FN(lanes)) {                                                \
      const FN(vector) v = FN(load_full)(x + i), w = FN(load_full)(y + i);                      \
      const FN(vector) e = (EXPR);                                                              \
      (void)v, (void)w;                                                                         \
      if (STORE) FN(store_full)(out + i, e);                                                    \
      sum += e;                                                                                 \
    }                                                                                           \
    if (i < n && n >= FN(lanes)) {                                                              \
      const int64_t last = n - FN(lanes);                                                       \
      const FN(vector) v = FN(load_full)(x + last), w = FN(load_full)(y + last);                \
      const FN(vector) e = (EXPR);                                                              \
      (void)v, (void)w;                                                                         \
      if (STORE) FN(store_full)(out + last, e);                                                 \
      sum += FN(from_lane)(e, i - last);                                                        \
    } else if (i < n) {                                                                         \
      const FN(vector) v = FN(load_rest)(x, n, shift), w = FN(load_rest)(y, n, shift);          \
      const FN(vector) e = (EXPR);                                                              \
      (void)v, (void)w;                                                                         \
      C result = 0;                                                                             \
      for (int64_t k = 0; k < n; k++) {                                                         \
        if (STORE) out[k] = SHMT_STORE(e[k]);                                                   \
        result += e[k];                                                                         \
      }                                                                                         \
      return result;                                                                            \
    }                                                                                           \
    return FN(lanes_sum)(sum);                                                                  \
  }
ROW_SUM(sum_exp, FN(vector_exp)(v - shift), 0)
ROW_SUM(store_exp, FN(vector_exp)(v - shift), 1)
ROW_SUM(sum_product, v* w, 0)
ROW_SUM(sum_plain, v, 0)
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
      EACH_COLUMN sum[c] += SHMT_EXP(SHMT_LOAD(x[c]) - top[c]);
    }
    EACH_COLUMN sum[c] = 1 / sum[c];
    for (int64_t i = 0; i < s->length; i++) {
      const T* x = CELL(1, const T);
      T* out = CELL(0, T);
      EACH_COLUMN out[c] = SHMT_STORE(SHMT_EXP(SHMT_LOAD(x[c]) - top[c]) * sum[c]);
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
