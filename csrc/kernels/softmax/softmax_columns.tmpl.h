/* kernels/softmax/softmax_columns.tmpl.h -- softmax and log_softmax of columns, forward and backward. One dtype.
 *
 * n columns that are neighbours in memory, of ctx->length elements that are ctx->step bytes apart. Each column has a
 * lane. 16-bit floats are computed in float and rounded once at the end.
 */
#include "kernels/simd/exp_log.h"
#include "kernels/simd/half_runs.h"
#include "kernels/template.h"
#include "kernels/loop_args.h"

enum { FN(columns) = 64 };

#define CELL_OF(k, row, TYPE) ((TYPE*)(void*)(data[k] + (row) * s->step) + c0)
#define CELL(k, TYPE) CELL_OF(k, i, TYPE)
#define EACH_COLUMN for (int64_t c = 0; c < width; c++)
#define COLUMN_BLOCKS                \
  const shmt__softmax_args* s = ctx; \
  (void)strides;                     \
  for (int64_t c0 = 0, width; c0 < n && (width = n - c0 < FN(columns) ? n - c0 : FN(columns)); c0 += FN(columns))

/* row_in gives a row in the compute type C: the memory itself, or widened in the buffer. A result is computed in the
 * memory that MADE gives; SAVE narrows it to out where that is the buffer. */
#if SHMT_IS_HALF
static inline const C* FN(row_in)(const T* x, C* buffer, int64_t width) {
  SHMT_WIDEN_RUN(buffer, x, width);
  return buffer;
}
#define MADE(out, buffer) (buffer)
#define SAVE(out, made) SHMT_NARROW_RUN(out, made, width)
#else
static inline const C* FN(row_in)(const T* x, C* buffer, int64_t width) {
  (void)buffer;
  (void)width;
  return x;
}
#define MADE(out, buffer) (out)
#define SAVE(out, made) ((void)0)
#endif

/* The largest element of each of `width` columns. */
static inline void FN(column_tops)(C* top, int64_t width, const T* x, const shmt__softmax_args* s) {
  EACH_COLUMN top[c] = -(C)INFINITY;
  for (int64_t i = 0; i < s->length; i++, x = (const T*)(const void*)((const char*)x + s->step)) {
    C buffer[FN(columns)];
    const C* v = FN(row_in)(x, buffer, width);
    EACH_COLUMN top[c] = top[c] > v[c] ? top[c] : v[c];
  }
}

#if SHMT_IS_HALF
/* Exponentials are kept in C, or computed twice where they are too many, so that they are never rounded in between. */
enum { FN(kept_rows) = 128 };

static inline void FN(softmax_block)(char* const* data, int64_t c0, int64_t width, const shmt__softmax_args* s,
                                     const C* top, C* sum) {
  C kept[FN(kept_rows) * FN(columns)], buffer[FN(columns)];
  const bool keep = s->length <= FN(kept_rows);

  for (int64_t i = 0; i < s->length; i++) {
    const C* x = FN(row_in)(CELL(1, const T), buffer, width);
    C* e = keep ? kept + i * FN(columns) : buffer;
    SHMT_IVDEP EACH_COLUMN {
      e[c] = SHMT_EXP(x[c] - top[c]);
      sum[c] += e[c];
    }
  }
  EACH_COLUMN sum[c] = 1 / sum[c];
  for (int64_t i = 0; i < s->length; i++) {
    const C* x = keep ? kept + i * FN(columns) : FN(row_in)(CELL(1, const T), buffer, width);
    if (keep)
      SHMT_IVDEP EACH_COLUMN buffer[c] = x[c] * sum[c];
    else
      SHMT_IVDEP EACH_COLUMN buffer[c] = SHMT_EXP(x[c] - top[c]) * sum[c];
    SHMT_NARROW_RUN(CELL(0, T), buffer, width);
  }
}
#else
static inline void FN(softmax_block)(char* const* data, int64_t c0, int64_t width, const shmt__softmax_args* s,
                                     const C* top, C* sum) {
  for (int64_t i = 0; i < s->length; i++) {
    const C* x = CELL(1, const C);
    C* e = CELL(0, C);
    SHMT_IVDEP EACH_COLUMN {
      e[c] = SHMT_EXP(x[c] - top[c]);
      sum[c] += e[c];
    }
  }
  EACH_COLUMN sum[c] = 1 / sum[c];
  for (int64_t i = 0; i < s->length; i++) {
    C* out = CELL(0, C);
    SHMT_IVDEP EACH_COLUMN out[c] *= sum[c];
  }
}
#endif

void SHMT_LOOP(softmax_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C top[FN(columns)], sum[FN(columns)];
    EACH_COLUMN sum[c] = 0;
    FN(column_tops)(top, width, CELL_OF(1, 0, const T), s);
    FN(softmax_block)(data, c0, width, s, top, sum);
  }
}

void SHMT_LOOP(log_softmax_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C top[FN(columns)], sum[FN(columns)], buffer[FN(columns)];
    EACH_COLUMN sum[c] = 0;
    FN(column_tops)(top, width, CELL_OF(1, 0, const T), s);
    for (int64_t i = 0; i < s->length; i++) {
      const C* x = FN(row_in)(CELL(1, const T), buffer, width);
      EACH_COLUMN sum[c] += SHMT_EXP(x[c] - top[c]);
    }
    EACH_COLUMN sum[c] = SHMT_LOG_IN_LANES(sum[c]);
    for (int64_t i = 0; i < s->length; i++) {
      const C* x = FN(row_in)(CELL(1, const T), buffer, width);
      C* out = MADE(CELL(0, T), buffer);
      SHMT_IVDEP EACH_COLUMN out[c] = x[c] - top[c] - sum[c];
      SAVE(CELL(0, T), out);
    }
  }
}

void SHMT_LOOP(softmax_backward_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C sum[FN(columns)], grads[FN(columns)], outs[FN(columns)];
    EACH_COLUMN sum[c] = 0;
    for (int64_t i = 0; i < s->length; i++) {
      const C* grad = FN(row_in)(CELL(1, const T), grads, width);
      const C* out = FN(row_in)(CELL(2, const T), outs, width);
      EACH_COLUMN sum[c] += grad[c] * out[c];
    }
    for (int64_t i = 0; i < s->length; i++) {
      const C* grad = FN(row_in)(CELL(1, const T), grads, width);
      const C* out = FN(row_in)(CELL(2, const T), outs, width);
      C* to = MADE(CELL(0, T), grads);
      SHMT_IVDEP EACH_COLUMN to[c] = (grad[c] - sum[c]) * out[c];
      SAVE(CELL(0, T), to);
    }
  }
}

void SHMT_LOOP(log_softmax_backward_columns)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  COLUMN_BLOCKS {
    C sum[FN(columns)], grads[FN(columns)], outs[FN(columns)];
    EACH_COLUMN sum[c] = 0;
    for (int64_t i = 0; i < s->length; i++) {
      const C* grad = FN(row_in)(CELL(1, const T), grads, width);
      EACH_COLUMN sum[c] += grad[c];
    }
    for (int64_t i = 0; i < s->length; i++) {
      const C* grad = FN(row_in)(CELL(1, const T), grads, width);
      const C* out = FN(row_in)(CELL(2, const T), outs, width);
      C* to = MADE(CELL(0, T), grads);
      SHMT_IVDEP EACH_COLUMN to[c] = grad[c] - SHMT_EXP(out[c]) * sum[c];
      SAVE(CELL(0, T), to);
    }
  }
}
#undef MADE
#undef SAVE
#undef CELL
#undef CELL_OF
#undef EACH_COLUMN
#undef COLUMN_BLOCKS
