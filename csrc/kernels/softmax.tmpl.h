/* kernels/softmax.tmpl.h -- softmax and log-softmax, forward and backward, one dtype.
 *
 * Tensors are [outer, dim, inner], dense. ..._rows: inner is 1; n rows, each strides[k] bytes after the last,
 * of ctx->length elements. ..._columns: one outer block; n columns side by side, whose elements are ctx->step bytes
 * apart, so that columns are summed in vectors. 16-bit floats are calculated in float, never rounded in between.
 */
#include "kernels/rows.tmpl.h"
#include "kernels/shapes.h"

enum { FN(columns) = 64 };

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

/* data: out (one element a row), x. */
void SHMT_LOOP(logsumexp_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_shape*)ctx)->length;

  for (int64_t r = 0; r < n; r++) {
    const T* x = ROW(1, const T);
    const C top = FN(row_max)(x, length);
    /* An infinite one would take itself off. */
    const C shift = top - top == 0 ? top : 0;
    *ROW(0, T) = SHMT_STORE(shift + SHMT_LOG(FN(sum_exp)(x, x, NULL, shift, length)));
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
