/* kernels/softmax_columns.tmpl.h -- softmax and log-softmax of columns, forward and backward, one dtype.
 *
 * n columns side by side, of ctx->length elements that are ctx->step bytes apart, so that columns are summed in vectors.
 * 16-bit floats are calculated in float, never rounded in between.
 */
#include "kernels/rows.tmpl.h"
#include "kernels/shapes.h"

enum { FN(columns) = 64 };

#define CELL_OF(k, row, TYPE) ((TYPE*)(void*)(data[k] + (row) * s->step) + c0)
#define CELL(k, TYPE) CELL_OF(k, i, TYPE)
#define EACH_COLUMN for (int64_t c = 0; c < width; c++)
#define COLUMN_BLOCKS                                                                       \
  const shmt__softmax_shape* s = ctx;                                                       \
  (void)strides;                                                                            \
  for (int64_t c0 = 0, width; c0 < n && (width = n - c0 < FN(columns) ? n - c0 : FN(columns)); c0 += FN(columns))

/* The largest element of each of `width` columns. */
static inline void FN(column_tops)(C* top, int64_t width, const T* x, const shmt__softmax_shape* s) {
  EACH_COLUMN top[c] = -(C)INFINITY;
  for (int64_t i = 0; i < s->length; i++, x = (const T*)(const void*)((const char*)x + s->step)) {
    EACH_COLUMN {
      const C v = SHMT_LOAD(x[c]);
      top[c] = top[c] > v ? top[c] : v;
    }
  }
}

void SHMT_LOOP(softmax_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C top[FN(columns)], sum[FN(columns)];
    EACH_COLUMN sum[c] = 0;
    FN(column_tops)(top, width, CELL_OF(1, 0, const T), s);
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
    EACH_COLUMN sum[c] = 0;
    FN(column_tops)(top, width, CELL_OF(1, 0, const T), s);
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
#undef CELL_OF
#undef EACH_COLUMN
#undef COLUMN_BLOCKS
