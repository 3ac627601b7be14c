/* kernels/pooling/avg_pool_backward.tmpl.h -- gradients of average pooling and adaptive average pooling. One dtype.
 *
 * n dense planes, one after the other; ctx: shmt__pool_args (kernels/pooling/pool.h).
 */
#include "kernels/pooling/avg_pool_divisors.tmpl.h"

#define AVG_POOL_BACKWARD(LINKAGE, NAME, WINDOW, DIVISOR)                                               \
  /* data: grad of the image (zeros so far), grad of out. */                                            \
  LINKAGE void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    const shmt__pool_args* s = ctx;                                                                     \
    T* image = (T*)(void*)data[0];                                                                      \
    const T* grad = (const T*)(const void*)data[1];                                                     \
    (void)strides;                                                                                      \
    for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in)) {                                  \
      SHMT_POOL_EACH_OUTPUT {                                                                           \
        SHMT_POOL_WINDOW(WINDOW);                                                                       \
        const int64_t inside = (d1 - d0) * (h1 - h0) * (w1 - w0);                                       \
        const bool is_empty = d1 <= d0 || h1 <= h0 || w1 <= w0;                                         \
        const ACC quotient = is_empty ? 0 : SHMT_LOOP(pool_divide)((TOTAL)SHMT_LOAD(*grad), DIVISOR);   \
        grad++;                                                                                         \
        for (int64_t d = d0; d < d1; d++)                                                               \
          for (int64_t h = h0; h < h1; h++) {                                                           \
            T* row = image + (d * s->in[1] + h) * s->in[2];                                             \
            for (int64_t w = w0; w < w1; w++) row[w] = SHMT_STORE(ADD(SHMT_LOAD(row[w]), quotient));    \
          }                                                                                             \
      }                                                                                                 \
    }                                                                                                   \
  }
AVG_POOL_BACKWARD(static, avg_pool_backward_planes, shmt__pool_window, SHMT_LOOP(pool_divisor)(s, od, oh, ow, inside))
#if SHMT_IS_FLOATING
AVG_POOL_BACKWARD(, adaptive_avg_pool_backward, shmt__adaptive_pool_window, inside)
#endif
#undef AVG_POOL_BACKWARD

/* Add the gradients of outputs first .. last of a row to their windows; at: od and oh of the row, and d0, d1, h0, h1 of
 * its windows. The last element of the windows comes first, so that every element of the image is added to in the order
 * of the outputs. */
static void SHMT_LOOP(avg_pool_backward_row)(const shmt__pool_args* s, T* image, const int64_t* at, int64_t first,
                                             int64_t last, const T* grad) {
  const int64_t rows = (at[3] - at[2]) * (at[5] - at[4]), n = last - first;
  ACC quotient[SHMT_POOL_BLOCK];
  int64_t k0, k1;

  if (at[3] <= at[2] || at[5] <= at[4]) return;
  for (int64_t w = 0; w < n; w++) {
    int64_t w0, w1;
    shmt__pool_window(s, 2, first + w, &w0, &w1);
    quotient[w] = w1 <= w0 ? 0
                        : SHMT_LOOP(pool_divide)((TOTAL)SHMT_LOAD(grad[w]),
                                                 SHMT_LOOP(pool_divisor)(s, at[0], at[1], first + w, rows * (w1 - w0)));
  }
  shmt__pool_taps(s, first, last, &k0, &k1);
  for (int64_t d = at[2]; d < at[3]; d++)
    for (int64_t h = at[4]; h < at[5]; h++)
      for (int64_t k = k1 - 1; k >= k0; k--) {
        const int64_t offset = k - s->padding[2];
        T* row = image + (d * s->in[1] + h) * s->in[2] + offset + first * s->stride[2];
        int64_t begin, end;
        shmt__pool_outputs_inside(s, offset, first, last, &begin, &end);
        begin -= first;
        end -= first;
        SHMT_POOL_EACH_IN_ROW(row[w * step] = SHMT_STORE(ADD(SHMT_LOAD(row[w * step]), quotient[w]));)
      }
}

/* data: grad of the image (zeros so far), grad of out. */
void SHMT_LOOP(avg_pool_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_args* s = ctx;
  T* image = (T*)(void*)data[0];
  const T* grad = (const T*)(const void*)data[1];

  if (s->out[2] < 4) {
    SHMT_LOOP(avg_pool_backward_planes)(data, strides, n, ctx);
    return;
  }
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in))
    for (int64_t od = 0; od < s->out[0]; od++)
      for (int64_t oh = 0; oh < s->out[1]; oh++, grad += s->out[2]) {
        int64_t d0, d1, h0, h1;
        shmt__pool_window(s, 0, od, &d0, &d1);
        shmt__pool_window(s, 1, oh, &h0, &h1);
        for (int64_t first = 0; first < s->out[2]; first += SHMT_POOL_BLOCK) {
          const int64_t last = first + SHMT_POOL_BLOCK < s->out[2] ? first + SHMT_POOL_BLOCK : s->out[2];
          SHMT_LOOP(avg_pool_backward_row)(s, image, (const int64_t[]){od, oh, d0, d1, h0, h1}, first, last,
                                           grad + first);
        }
      }
}

#if SHMT_IS_FLOATING && !SHMT_IS_HALF
/* data: grad of the image, grad of a row of outputs; both NHWC. */
void SHMT_LOOP(avg_pool_backward_channels_last)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_row_args* r = ctx;
  const shmt__pool_args* s = r->shape;
  T* image = (T*)(void*)data[0];
  const T* grad = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t ow = 0; ow < n; ow++) {
    int64_t at[6], divisor;
    if (!SHMT_LOOP(pool_row_divisor)(r, ow, at, &divisor)) continue;
    for (int64_t begin = 0; begin < r->channels; begin += SHMT_POOL_BLOCK) {
      const int64_t many = r->channels - begin < SHMT_POOL_BLOCK ? r->channels - begin : SHMT_POOL_BLOCK;
      const T* from = grad + ow * r->channels + begin;
      ACC quotient[SHMT_POOL_BLOCK];
      for (int64_t c = 0; c < many; c++) quotient[c] = SHMT_LOOP(pool_divide)((TOTAL)from[c], divisor);
      for (int64_t d = at[0]; d < at[1]; d++)
        for (int64_t h = at[2]; h < at[3]; h++)
          for (int64_t w = at[4]; w < at[5]; w++) {
            T* row = image + ((d * s->in[1] + h) * s->in[2] + w) * r->channels + begin;
            for (int64_t c = 0; c < many; c++) row[c] = (T)ADD(row[c], quotient[c]);
          }
    }
  }
}
#endif
#undef TOTAL
#undef ADD
