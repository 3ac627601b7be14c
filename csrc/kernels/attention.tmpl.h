/* kernels/attention.tmpl.h -- rows of attention scores, a block of keys at a time. One dtype.
 *
 * n queries; ctx: shmt__attention_shape. Scores are dense rows of `width` keys. A query's sums are relative to the
 * largest score it has met, and are rescaled when a larger one comes (online softmax: Milakov and Gimelshein, 2018;
 * Dao et al., "FlashAttention", 2022).
 */
#include "kernels/exp_log.h"
#include "kernels/row_sums.h"
#include "kernels/shapes.h"

#include <string.h>

SHMT_ROW_SUMS

/* The keys of this block that query i may look at. */
static inline int64_t SHMT_LOOP(visible)(const shmt__attention_shape* s, int64_t i) {
  const int64_t n = s->visible + i;
  return !s->causal || n > s->width ? s->width : n < 0 ? 0 : n;
}

/* data: scores, mask or NULL. Scores that may be seen are scaled, and minus infinity where the mask is false. */
void SHMT_LOOP(attention_scores)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_shape* s = ctx;
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

/* data: scores, largest so far (n), sum so far (n), output so far (n, values). Scores become weights. */
void SHMT_LOOP(attention_forward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_shape* s = ctx;
  T* largest = (T*)(void*)data[1];
  T* sums = (T*)(void*)data[2];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    T* row = (T*)(void*)data[0] + i * s->width;
    T* out = (T*)(void*)data[3] + i * s->values;
    const int64_t shown = SHMT_LOOP(visible)(s, i);
    const C met = SHMT_FULL_LOOP(row_max)(row, shown), top = met > largest[i] ? met : largest[i];
    /* Nothing to look at yet; NaN scores go on. */
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

/* data: output, largest (n), sums (n), logsumexp (n). Divide; a query that sees nothing gives zeros. */
void SHMT_LOOP(attention_finish)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_shape* s = ctx;
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

/* Values side by side. */
enum { FN(lanes) = 16 };
typedef C FN(vector) __attribute__((vector_size(FN(lanes) * sizeof(C))));

/* The sum of n values times their weights: a vector of it; `width` elements, if they are fewer. */
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

/* data: queries, keys, values, output, logsumexp (n); strides: bytes between rows of the first four. All of it at once,
 * for keys so few that their weights fill no more than a vector. */
void SHMT_LOOP(attention_few_keys)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_shape* s = ctx;
  T* lse = (T*)(void*)data[4];
  T weights[FN(lanes)];

  for (int64_t i = 0; i < n; i++) {
    const T* query = (const T*)(const void*)(data[0] + i * strides[0]);
    T* out = (T*)(void*)(data[3] + i * strides[3]);
    const int64_t shown = SHMT_LOOP(visible)(s, i);
    for (int64_t j = 0; j < shown; j++) {
      const T* key = (const T*)(const void*)(data[1] + j * strides[1]);
      weights[j] = SHMT_FULL_LOOP(row_product)(query, key, s->depth) * (C)s->scale;
    }
    const C top = SHMT_FULL_LOOP(row_max)(weights, shown), shift = top == -(C)INFINITY ? 0 : top;
    const C sum = SHMT_FULL_LOOP(row_exp_stored)(weights, weights, shift, shown), factor = sum == 0 ? 0 : 1 / sum;
    for (int64_t j = 0; j < shown; j++) weights[j] *= factor;
    for (int64_t k = 0; k < s->values; k += FN(lanes))
      FN(weighted_sum)(out + k, weights, data[2] + k * (int64_t)sizeof(T), strides[2], shown, s->values - k);
    lse[i] = sum == 0 ? -(C)INFINITY : top + (C)log((double)sum);
  }
}

/* data: scores, gradients of the weights, logsumexp (n), dot of output and its gradient (n). Scores become weights,
 * the second become gradients of the products of queries and keys. */
void SHMT_LOOP(attention_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__attention_shape* s = ctx;
  const C scale = (C)s->scale;
  const T* lse = (const T*)(const void*)data[2];
  const T* dots = (const T*)(const void*)data[3];

  (void)strides;
  for (int64_t i = 0; i < n; i++) {
    T* row = (T*)(void*)data[0] + i * s->width;
    T* grad = (T*)(void*)data[1] + i * s->width;
    const int64_t shown = lse[i] == -(C)INFINITY ? 0 : SHMT_LOOP(visible)(s, i);
    SHMT_IVDEP for (int64_t j = 0; j < shown; j++) {
      row[j] = SHMT_EXP(row[j] - lse[i]);
      grad[j] = row[j] * (grad[j] - dots[i]) * scale;
    }
    memset(row + shown, 0, (size_t)(s->width - shown) * sizeof *row);
    memset(grad + shown, 0, (size_t)(s->width - shown) * sizeof *grad);
  }
}
