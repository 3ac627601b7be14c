/* kernels/sparse/sparse.tmpl.h -- sums, products and additions over the entries of sparse tensors. One dtype.
 *
 * ctx: shmt__sparse_args. Rows lie one after the other, with elements side by side. Half-precision types are summed in
 * float and rounded once.
 */
#include "kernels/sparse/sparse.h"

#include "base/error.h"
#include "kernels/template.h"
#include "kernels/simd/complex.h"

#ifndef SHMT_SPARSE_COLUMNS
#define SHMT_SPARSE_COLUMNS 64 /* sums that are kept at a time */
#define SHMT_SPARSE_LANES 8    /* partial sums of a dot product */
#endif

#if SHMT_IS_BOOL
#define ADD(a, b) ((a) | (b))
#define MUL(a, b) ((a) & (b))
#elif SHMT_IS_INTEGRAL
#define ADD(a, b) ((C)(SHMT_WRAPPING(a) + SHMT_WRAPPING(b)))
#define MUL(a, b) ((C)(SHMT_WRAPPING(a) * SHMT_WRAPPING(b)))
#elif SHMT_IS_COMPLEX
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) SHMT_CMUL(a, b)
#else
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#endif

/* Row i of out, of n, is the sum of a row for each of its entries: the row of the entry, or (is_product) the entry's
 * factor times the row that the entry's column names. */
static inline __attribute__((always_inline)) void FN(sum_entries)(const shmt__sparse_args* s, bool is_product,
                                                                  const T* factors, const T* rows, int64_t n, T* out) {
  const int64_t width = s->width;
  C sum[SHMT_SPARSE_COLUMNS];

  for (int64_t i = 0; i < n; i++, out += width) {
    const int64_t begin = s->starts[i], end = s->starts[i + 1];
    for (int64_t column = 0; column < width; column += SHMT_SPARSE_COLUMNS) {
      const int64_t m = width - column < SHMT_SPARSE_COLUMNS ? width - column : SHMT_SPARSE_COLUMNS;
      for (int64_t j = 0; j < m; j++) sum[j] = 0;
      for (int64_t k = begin; k < end; k++) {
        const int64_t entry = s->order ? s->order[k] : k;
        const C factor = is_product ? SHMT_LOAD(factors[entry]) : 1;
        const T* row = rows + (is_product ? s->columns[k] * s->step2 : entry * width) + column;
        for (int64_t j = 0; j < m; j++) {
          const C x = SHMT_LOAD(row[j]);
          sum[j] = is_product ? ADD(sum[j], MUL(factor, x)) : ADD(sum[j], x);
        }
      }
      for (int64_t j = 0; j < m; j++) out[column + j] = SHMT_STORE(sum[j]);
    }
  }
}

/* data: out (n rows), values. Row i of out is the sum of its entries' rows of values. */
void SHMT_LOOP(sparse_segment_sum)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  (void)strides;
  FN(sum_entries)(ctx, false, NULL, (const T*)(const void*)data[1], n, (T*)(void*)data[0]);
}

/* data: out (n rows), values (a number for each entry), dense. Row i of out is the sum over its entries of the value
 * times the row of dense that the entry's column names. */
void SHMT_LOOP(sparse_mm)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  (void)strides;
  FN(sum_entries)(ctx, true, (const T*)(const void*)data[1], (const T*)(const void*)data[2], n, (T*)(void*)data[0]);
}

/* data: out, values. Adds alpha times row k of values to the row of out that begins at rows[k]; a negative place is
 * skipped. Only the columns from `step` on, `width` of them, of rows that are `step2` long: threads share columns. */
void SHMT_LOOP(sparse_add_rows)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__sparse_args* s = ctx;
  const int64_t width = s->width;
  const C alpha = (C)SHMT_CTX_SCALAR(0);
  const bool is_one = alpha == 1;
  T* out = (T*)(void*)data[0];
  const T* values = (const T*)(const void*)data[1];
  (void)strides;
  for (int64_t k = 0; k < n; k++) {
    if (s->rows[k] < 0) continue;
    T* to = out + s->rows[k] + s->step;
    const T* row = values + k * s->step2 + s->step;
    for (int64_t j = 0; j < width; j++) {
      const C a = SHMT_LOAD(to[j]), b = SHMT_LOAD(row[j]);
      const C c = is_one ? ADD(a, b) : ADD(a, MUL(alpha, b));
      to[j] = SHMT_STORE(c);
    }
  }
}

/* data: out (n numbers), first, second. Number k is the sum of the products of row rows[k] of the first matrix with row
 * columns[k] of the second. */
void SHMT_LOOP(sparse_sampled_mm)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__sparse_args* s = ctx;
  T* out = (T*)(void*)data[0];
  const T *first = (const T*)(const void*)data[1], *second = (const T*)(const void*)data[2];
  (void)strides;
  for (int64_t k = 0; k < n; k++) {
    const T *a = first + s->rows[k] * s->step, *b = second + s->columns[k] * s->step2;
    C lanes[SHMT_SPARSE_LANES] = {0};
    int64_t j = 0;
    for (; j + SHMT_SPARSE_LANES <= s->width; j += SHMT_SPARSE_LANES)
      for (int lane = 0; lane < SHMT_SPARSE_LANES; lane++) {
        const C x = SHMT_LOAD(a[j + lane]), y = SHMT_LOAD(b[j + lane]);
        lanes[lane] = ADD(lanes[lane], MUL(x, y));
      }
    for (; j < s->width; j++) {
      const C x = SHMT_LOAD(a[j]), y = SHMT_LOAD(b[j]);
      lanes[0] = ADD(lanes[0], MUL(x, y));
    }
    for (int lane = 1; lane < SHMT_SPARSE_LANES; lane++) lanes[0] = ADD(lanes[0], lanes[lane]);
    out[k] = SHMT_STORE(lanes[0]);
  }
}

#undef ADD
#undef MUL
