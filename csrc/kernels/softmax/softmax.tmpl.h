/* kernels/softmax/softmax.tmpl.h -- softmax and log_softmax of rows, forward and backward; logsumexp. One dtype.
 *
 * n rows of ctx->length contiguous elements; strides are bytes from row to row. 16-bit floats are computed in float and
 * rounded once at the end.
 */
#include "kernels/softmax/row_exponentials.tmpl.h"
#include "kernels/softmax/row_sums.h"
#include "kernels/loop_args.h"

ROW_SUM(sum_plain, (void)0, 0)
ROW_SUM(sum_product, v *= w, 0)

SHMT_ROW_SUMS
#if !SHMT_IS_HALF
C SHMT_LOOP(row_max)(const C* x, int64_t n) { return FN(row_max)(x, n); }
C SHMT_LOOP(row_exp_stored)(const C* x, C* out, C shift, int64_t n) { return FN(store_exp)(x, x, out, shift, n); }
#endif

#define ROW(k, TYPE) ((TYPE*)(void*)(data[k] + r * strides[k]))

/* For float16, where the processor has conversion instructions: stores exp(x - top) * scale, or x - top - sum, of as
 * many elements as fill whole vectors. Returns their number. */
static inline int64_t FN(whole_vectors)(T* out, const T* x, C top, C scale, C sum, bool is_log, int64_t n) {
  int64_t i = 0;

  for (; SHMT_HAS_F16C && SHMT_IS_FLOAT16 && i + FN(lanes) <= n; i += FN(lanes)) {
    FN(vector) v;
    FN(load_full)(&v, x + i);
    v -= top;
    if (!is_log) FN(vector_exp)(&v);
    v = is_log ? v - sum : v * scale;
    FN(store_full)(out + i, &v);
  }
  return i;
}

/* A vector along a short row would be mostly empty, so the exponentials of several short rows are computed as one
 * row. */
enum { FN(short_row) = 20, FN(block_cells) = 512 };

static void FN(short_rows)(char* const* data, const int64_t* strides, int64_t n, int64_t length, bool is_log) {
  const int64_t most = FN(block_cells) / length;
  C line[FN(block_cells)], tops[FN(block_cells)], sums[FN(block_cells)];

  for (int64_t first = 0, end; first < n; first = end) {
    C* row = line;
    end = n - first < most ? n : first + most;
    for (int64_t r = first; r < end; r++, row += length) {
      const T* x = ROW(1, const T);
      C top = SHMT_LOAD(x[0]);
      for (int64_t i = 1; i < length; i++) top = SHMT_LOAD(x[i]) <= top ? top : SHMT_LOAD(x[i]);
      for (int64_t i = 0; i < length; i++) row[i] = SHMT_LOAD(x[i]) - top;
      tops[r - first] = top;
    }
    (void)SHMT_FULL_LOOP(row_exp_stored)(line, line, 0, (end - first) * length);
    row = line;
    for (int64_t k = 0; k < end - first; k++, row += length) {
      C sum = 0;
      for (int64_t i = 0; i < length; i++) sum += row[i];
      sums[k] = sum;
    }
    for (int64_t k = 0; is_log && k < end - first; k++) sums[k] = SHMT_LOG_IN_LANES(sums[k]);
    row = line;
    for (int64_t r = first; r < end; r++, row += length) {
      T* out = ROW(0, T);
      const T* x = ROW(1, const T);
      const C sum = sums[r - first], scale = 1 / sum;
      for (int64_t i = 0; i < length; i++)
        out[i] = SHMT_STORE(is_log ? SHMT_LOAD(x[i]) - tops[r - first] - sum : row[i] * scale);
    }
  }
}

#if SHMT_IS_HALF
/* Up to so many exponentials of a row are kept in C, so that each is computed once and rounded once. */
enum { FN(kept) = 4096 };

INLINE void FN(softmax_row)(T* out, const T* x, int64_t length) {
  C line[FN(kept)];

  if (length <= FN(kept)) {
    SHMT_WIDEN_RUN(line, x, length);
    const C scale = 1 / SHMT_FULL_LOOP(row_exp_stored)(line, line, SHMT_FULL_LOOP(row_max)(line, length), length);
    for (int64_t i = 0; i < length; i++) line[i] *= scale;
    SHMT_NARROW_RUN(out, line, length);
    return;
  }
  const C top = FN(row_max)(x, length), scale = 1 / FN(sum_exp)(x, x, out, top, length);
  SHMT_IVDEP for (int64_t i = FN(whole_vectors)(out, x, top, scale, 0, false, length); i < length; i++)
    out[i] = SHMT_STORE(SHMT_EXP_IN_RANGE(SHMT_LOAD(x[i]) - top) * scale);
}
#else
INLINE void FN(softmax_row)(T* out, const T* x, int64_t length) {
  const C scale = 1 / FN(store_exp)(x, x, out, FN(row_max)(x, length), length);
  SHMT_IVDEP for (int64_t i = 0; i < length; i++) out[i] *= scale;
}
#endif

/* data: out, x. */
void SHMT_LOOP(softmax_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_args*)ctx)->length;

  if (length <= FN(short_row)) return FN(short_rows)(data, strides, n, length, false);
  for (int64_t r = 0; r < n; r++) FN(softmax_row)(ROW(0, T), ROW(1, const T), length);
}

/* Works on some rows at a time: their sums' logarithms are one vector, and the rows stay in the first-level cache. */
enum { FN(some_rows) = 16, FN(near) = 16384 / sizeof(T) };
#define EACH_OF_SOME_ROWS                                                                                              \
  const int64_t most = length * FN(some_rows) <= FN(near) ? FN(some_rows) : length < FN(near) ? FN(near) / length : 1; \
  for (int64_t first = 0, end; first < n && (end = n - first < most ? n : first + most); first = end)

void SHMT_LOOP(log_softmax_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_args*)ctx)->length;

  if (length <= FN(short_row)) return FN(short_rows)(data, strides, n, length, true);
  EACH_OF_SOME_ROWS {
    C tops[FN(some_rows)], sums[FN(some_rows)];
    for (int64_t r = first; r < end; r++) {
      const T* x = ROW(1, const T);
      tops[r - first] = FN(row_max)(x, length);
      sums[r - first] = FN(sum_exp)(x, x, NULL, tops[r - first], length);
    }
    for (int64_t k = 0; k < end - first; k++) sums[k] = SHMT_LOG_IN_LANES(sums[k]);
    for (int64_t r = first; r < end; r++) {
      T* out = ROW(0, T);
      const T* x = ROW(1, const T);
      const C top = tops[r - first], sum = sums[r - first];
      SHMT_IVDEP for (int64_t i = FN(whole_vectors)(out, x, top, 1, sum, true, length); i < length; i++)
        out[i] = SHMT_STORE(SHMT_LOAD(x[i]) - top - sum);
    }
  }
}

/* Defined in kernels/softmax/short_sums.tmpl.h. */
void SHMT_LOOP(short_logsumexp)(char* const* data, const int64_t* strides, int64_t n, const void* ctx);

/* Of rows whose maximum is infinity or NaN, without a shift: infinity - infinity is NaN. */
static C FN(sum_any_exp)(const T* x, int64_t n) {
  C sum = 0;
  for (int64_t i = 0; i < n; i++) sum += SHMT_EXP(SHMT_LOAD(x[i]));
  return sum;
}

/* data: out (one element for each row), x. */
void SHMT_LOOP(logsumexp_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_args*)ctx)->length;

  if (length <= FN(short_row)) return SHMT_LOOP(short_logsumexp)(data, strides, n, ctx);
  EACH_OF_SOME_ROWS {
    C shifts[FN(some_rows)], sums[FN(some_rows)];
    for (int64_t r = first; r < end; r++) {
      const T* x = ROW(1, const T);
      const C top = FN(row_max)(x, length);
      const C shift = top - top == 0 ? top : 0;
      shifts[r - first] = shift;
      sums[r - first] = top < (C)INFINITY ? FN(sum_exp)(x, x, NULL, shift, length) : FN(sum_any_exp)(x, length);
    }
    for (int64_t k = 0; k < end - first; k++) sums[k] = shifts[k] + SHMT_LOG_IN_LANES(sums[k]);
    for (int64_t r = first; r < end; r++) *ROW(0, T) = SHMT_STORE(sums[r - first]);
  }
}

/* data: grad_input, grad_output, output of the forward. */
void SHMT_LOOP(softmax_backward_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_args*)ctx)->length;

  for (int64_t r = 0; r < n; r++) {
    T* to = ROW(0, T);
    const T* grad = ROW(1, const T);
    const T* out = ROW(2, const T);
    const C sum = FN(sum_product)(grad, out, to, 0, length);
    SHMT_IVDEP for (int64_t i = 0; i < length; i++) to[i] = SHMT_STORE((SHMT_LOAD(grad[i]) - sum) * SHMT_LOAD(out[i]));
  }
}

static void FN(short_rows_back)(char* const* data, const int64_t* strides, int64_t n, int64_t length) {
  const int64_t most = FN(block_cells) / length;
  C line[FN(block_cells)];

  for (int64_t first = 0, end; first < n; first = end) {
    C* row = line;
    end = n - first < most ? n : first + most;
    for (int64_t r = first; r < end; r++, row += length)
      for (int64_t i = 0; i < length; i++) row[i] = SHMT_LOAD(ROW(2, const T)[i]);
    const int64_t cells = (end - first) * length;
    for (int64_t i = 0; i < cells; i++) line[i] = SHMT_EXP(line[i]);
    row = line;
    for (int64_t r = first; r < end; r++, row += length) {
      T* to = ROW(0, T);
      const T* grad = ROW(1, const T);
      C sum = 0;
      for (int64_t i = 0; i < length; i++) sum += SHMT_LOAD(grad[i]);
      for (int64_t i = 0; i < length; i++) to[i] = SHMT_STORE(SHMT_LOAD(grad[i]) - row[i] * sum);
    }
  }
}

void SHMT_LOOP(log_softmax_backward_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const int64_t length = ((const shmt__softmax_args*)ctx)->length;

  if (length <= FN(short_row)) return FN(short_rows_back)(data, strides, n, length);
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
#undef EACH_OF_SOME_ROWS
