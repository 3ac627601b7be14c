/* kernels/attention/attention.tmpl.h -- softmax of attention scores, a block of keys at a time (flash attention). One
 * dtype.
 *
 * n queries; ctx: shmt__attention_args. Scores are contiguous rows of `width` keys. A query's sums are relative to the
 * largest score so far, and are rescaled when a larger one comes (online softmax: Milakov and Gimelshein, 2018; Dao et
 * al., "FlashAttention", 2022).
 */
#include "kernels/simd/exp_log.h"
#include "kernels/softmax/row_sums.h"
#include "kernels/loop_args.h"

#include <string.h>

SHMT_ROW_SUMS

/* How many keys of this block query i attends to (all, or fewer with a causal mask). */
static inline int64_t SHMT_LOOP(visible)(const shmt__attention_args* s, int64_t i) {
  const int64_t n = s->visible + i;
  return !s->causal || n > s->width ? s->width : n < 0 ? 0 : n;
}

/* data: scores, mask or NULL. Scales the visible scores and applies the mask: adds it, or sets scores to minus infinity
 * where a bool mask is false. */
void SHMT_LOOP(attention_scores)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_args* s = ctx;
  const C scale = (C)s->scale;

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    T* row = (T*)(void*)data[0] + i * s->width;
    const char* mask = data[1] ? data[1] + i * s->mask_row : NULL;
    const int64_t shown = SHMT_LOOP(visible)(s, i);
    if (!mask) {
      SHMT_IVDEP for (int64_t j = 0; j < shown; j++) row[j] *= scale;
    } else if (s->mask_is_bool) {
      for (int64_t j = 0; j < shown; j++) row[j] = mask[j * s->mask_column] ? row[j] * scale : -(C)INFINITY;
    } else {
      for (int64_t j = 0; j < shown; j++) row[j] = row[j] * scale + *(const T*)(const void*)(mask + j * s->mask_column);
    }
  }
}

/* data: scores, largest score so far (n), sum so far (n), output so far (n, values). Turns scores into unnormalised
 * weights and rescales sum and output. */
void SHMT_LOOP(attention_forward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_args* s = ctx;
  T* largest = (T*)(void*)data[1];
  T* sums = (T*)(void*)data[2];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    T* row = (T*)(void*)data[0] + i * s->width;
    T* out = (T*)(void*)data[3] + i * s->values;
    const int64_t shown = SHMT_LOOP(visible)(s, i);
    const C met = SHMT_FULL_LOOP(row_max)(row, shown), top = met > largest[i] ? met : largest[i];
    /* Minus infinity: no visible key so far. NaN scores propagate. */
    const C shift = top == -(C)INFINITY ? 0 : top;
    const C keep = largest[i] == -(C)INFINITY ? 0 : SHMT_EXP(largest[i] - shift);
    const C sum = SHMT_FULL_LOOP(row_exp_stored)(row, row, shift, shown);
    memset(row + shown, 0, (size_t)(s->width - shown) * sizeof *row);
    if (keep != 1)
      for (int64_t k = 0; k < s->values; k++) out[k] = keep == 0 ? 0 : out[k] * keep;
    sums[i] = (keep == 0 ? 0 : sums[i] * keep) + sum;
    largest[i] = top;
  }
}

/* data: output, largest (n), sums (n), logsumexp (n). Divides the output by the sums; a query without visible keys
 * gives zeros. */
void SHMT_LOOP(attention_finish)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_args* s = ctx;
  const T* largest = (const T*)(const void*)data[1];
  const T* sums = (const T*)(const void*)data[2];
  T* lse = (T*)(void*)data[3];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    T* out = (T*)(void*)data[0] + i * s->values;
    const C factor = sums[i] == 0 ? 0 : 1 / sums[i];
    for (int64_t k = 0; k < s->values; k++) out[k] *= factor;
    lse[i] = sums[i] == 0 ? -(C)INFINITY : largest[i] + (C)log((double)sums[i]);
  }
}

/* Elements of a value are in 16 lanes. */
enum { FN(lanes) = 16 };
typedef C FN(vector) __attribute__((vector_size(FN(lanes) * sizeof(C))));

/* A vector (or the first `width` elements, if they are fewer) of the weighted sum of n values. */
static inline void FN(weighted_sum)(T* out, const T* weights, const char* values, int64_t stride, int64_t n,
                                    int64_t width) {
  const int count = width < FN(lanes) ? (int)width : FN(lanes);
  FN(vector) sum = {0}, v;

  for (int64_t j = 0; j < n; j++, values += stride) {
    if (count == FN(lanes)) {
      memcpy(&v, values, sizeof v);
    } else {
      C a[FN(lanes)];
      for (int k = 0; k < FN(lanes); k++) a[k] = k < count ? ((const T*)(const void*)values)[k] : 0;
      memcpy(&v, a, sizeof v);
    }
    sum += v * weights[j];
  }
  if (count == FN(lanes))
    memcpy(out, &sum, sizeof sum);
  else
    for (int k = 0; k < count; k++) out[k] = sum[k];
}

/* The horizontal sums of four vectors. */
static inline __attribute__((always_inline)) void FN(totals)(const FN(vector)* v, C* to) {
  typedef C eight __attribute__((vector_size(8 * sizeof(C))));
  typedef C four __attribute__((vector_size(4 * sizeof(C))));
  four part[4];

#pragma GCC unroll 4
  for (int u = 0; u < 4; u++) {
    const eight e = __builtin_shufflevector(v[u], v[u], 0, 1, 2, 3, 4, 5, 6, 7) +
                    __builtin_shufflevector(v[u], v[u], 8, 9, 10, 11, 12, 13, 14, 15);
    part[u] = __builtin_shufflevector(e, e, 0, 1, 2, 3) + __builtin_shufflevector(e, e, 4, 5, 6, 7);
  }
  const four a =
      __builtin_shufflevector(part[0], part[1], 0, 4, 1, 5) + __builtin_shufflevector(part[0], part[1], 2, 6, 3, 7);
  const four b =
      __builtin_shufflevector(part[2], part[3], 0, 4, 1, 5) + __builtin_shufflevector(part[2], part[3], 2, 6, 3, 7);
  const four all = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  memcpy(to, &all, sizeof all);
}

/* The scores of a query with n keys, four keys at a time, so that no addition waits for the one before. */
static inline __attribute__((always_inline)) void FN(few_scores)(C* scores, const T* query, const char* keys,
                                                                 int64_t stride, int64_t n, int64_t depth, C scale) {
  for (int64_t j = 0; j < n; j += 4) {
    const int64_t some = n - j < 4 ? n - j : 4;
    FN(vector) sum[4] = {{0}}, x, y;
    C rest[4] = {0}, all[4];
    const T* at[4]; /* missing keys repeat the first */
    int64_t k = 0;
#pragma GCC unroll 4
    for (int u = 0; u < 4; u++) at[u] = (const T*)(const void*)(keys + (u < some ? j + u : j) * stride);
    for (; k + FN(lanes) <= depth; k += FN(lanes)) {
      memcpy(&x, query + k, sizeof x);
#pragma GCC unroll 4
      for (int u = 0; u < 4; u++) {
        memcpy(&y, at[u] + k, sizeof y);
        sum[u] += x * y;
      }
    }
    for (; k < depth; k++)
      for (int u = 0; u < 4; u++) rest[u] += query[k] * at[u][k];
    FN(totals)(sum, all);
    for (int u = 0; u < some; u++) scores[j + u] = (all[u] + rest[u]) * scale;
  }
}

/* data: queries, keys, values, output, logsumexp (n); strides: bytes between rows of the first four. The whole
 * attention in one pass, for so few keys that their weights fit into a vector. The scores of several queries are
 * exponentiated as one row. */
void SHMT_LOOP(attention_few_keys)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  enum { ROWS = 16 };
  const shmt__attention_args* s = ctx;
  T* lse = (T*)(void*)data[4];
  T scores[ROWS * FN(lanes)], tops[ROWS];

  for (int64_t first = 0; first < n; first += ROWS) {
    const int64_t end = n - first < ROWS ? n : first + ROWS;
    int64_t length = 0;
    for (int64_t i = first; i < end; i++) {
      const int64_t shown = SHMT_LOOP(visible)(s, i);
      C top = -(C)INFINITY;
      FN(few_scores)(scores + length, (const T*)(const void*)(data[0] + i * strides[0]), data[1], strides[1], shown,
                     s->depth, (C)s->scale);
      for (int64_t j = 0; j < shown; j++) top = scores[length + j] <= top ? top : scores[length + j];
      for (int64_t j = 0; j < shown; j++) scores[length + j] -= top == -(C)INFINITY ? 0 : top;
      tops[i - first] = top;
      length += shown;
    }
    (void)SHMT_FULL_LOOP(row_exp_stored)(scores, scores, 0, length);
    T* weights = scores;
    for (int64_t i = first; i < end; i++) {
      const int64_t shown = SHMT_LOOP(visible)(s, i);
      T* out = (T*)(void*)(data[3] + i * strides[3]);
      C sum = 0;
      for (int64_t j = 0; j < shown; j++) sum += weights[j];
      const C factor = sum == 0 ? 0 : 1 / sum;
      for (int64_t j = 0; j < shown; j++) weights[j] *= factor;
      for (int64_t k = 0; k < s->values; k += FN(lanes))
        FN(weighted_sum)(out + k, weights, data[2] + k * (int64_t)sizeof(T), strides[2], shown, s->values - k);
      lse[i] = sum == 0 ? -(C)INFINITY : tops[i - first] + (C)log((double)sum);
      weights += shown;
    }
  }
}

/* data: scores, gradients of the weights, logsumexp (n), dot product of output and its gradient (n). Turns scores into
 * weights, and the gradients of the weights into those of query @ key^T. */
void SHMT_LOOP(attention_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_args* s = ctx;
  const C scale = (C)s->scale;
  const T* lse = (const T*)(const void*)data[2];
  const T* dots = (const T*)(const void*)data[3];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    T* row = (T*)(void*)data[0] + i * s->width;
    T* grad = (T*)(void*)data[1] + i * s->width;
    const int64_t shown = lse[i] == -(C)INFINITY ? 0 : SHMT_LOOP(visible)(s, i);
    SHMT_IVDEP for (int64_t j = 0; j < shown; j++) {
      const C x = row[j] - lse[i];
      row[j] = SHMT_EXP_IN_RANGE(x);
      grad[j] = row[j] * (grad[j] - dots[i]) * scale;
    }
    memset(row + shown, 0, (size_t)(s->width - shown) * sizeof *row);
    memset(grad + shown, 0, (size_t)(s->width - shown) * sizeof *grad);
  }
}
