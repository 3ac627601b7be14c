/* kernels/pool.tmpl.h -- windows over planes: maxima and averages, forward and backward. One dtype.
 *
 * n planes, dense, one after the other; ctx: shmt__pool_shape. Planes have three dims, of which leading ones may
 * be 1. Windows lie inside the plane only partly when there is padding or the last one is cut.
 */
#include "kernels/loops.h"
#include "kernels/shapes.h"

#ifndef SHMT_KERNELS_POOL_ONCE
#define SHMT_KERNELS_POOL_ONCE
/* The window's first element inside, and the end, in steps of the dilation. */
static inline void shmt__pool_window(const shmt__pool_shape* s, int d, int64_t o, int64_t* begin, int64_t* end) {
  const int64_t start = o * s->stride[d] - s->padding[d];
  const int64_t stop = start + (s->kernel[d] - 1) * s->dilation[d] + 1;

  *begin = start < 0 ? start + (-start + s->dilation[d] - 1) / s->dilation[d] * s->dilation[d] : start;
  *end = stop < s->in[d] ? stop : s->in[d];
}
/* Adaptive windows: the o-th of `out` equal shares. */
static inline void shmt__pool_share(const shmt__pool_shape* s, int d, int64_t o, int64_t* begin, int64_t* end) {
  *begin = o * s->in[d] / s->out[d];
  *end = ((o + 1) * s->in[d] + s->out[d] - 1) / s->out[d];
}
#define SHMT_POOL_PLANE(v) ((v)[0] * (v)[1] * (v)[2])
#define SHMT_POOL_EACH_OUTPUT                              \
  for (int64_t od = 0; od < s->out[0]; od++)               \
    for (int64_t oh = 0; oh < s->out[1]; oh++)             \
      for (int64_t ow = 0; ow < s->out[2]; ow++)
#define SHMT_POOL_WINDOW(FN)     \
  int64_t d0, d1, h0, h1, w0, w1; \
  FN(s, 0, od, &d0, &d1);        \
  FN(s, 1, oh, &h0, &h1);        \
  FN(s, 2, ow, &w0, &w1)
#endif

#if SHMT_IS_FLOATING
#define POOL_LOWEST (-(C)INFINITY)
#else
#define POOL_LOWEST ((C)(SHMT_IS_SIGNED ? (C)((uint64_t)1 << (8 * sizeof(C) - 1)) : 0))
#endif

/* The outputs along the last dim whose image element for filter element kw lies inside. */
static inline void SHMT_LOOP(pool_inside)(const shmt__pool_shape* s, int64_t offset, int64_t* begin, int64_t* end) {
  *begin = offset >= 0 ? 0 : (-offset + s->stride[2] - 1) / s->stride[2];
  *end = s->in[2] > offset ? (s->in[2] - 1 - offset) / s->stride[2] + 1 : 0;
  if (*end > s->out[2]) *end = s->out[2];
}

enum { SHMT_LOOP(pool_width) = 128 };

/* The best so far of a stretch of outputs against one element of each of their windows. A NaN wins. */
static inline void SHMT_LOOP(pool_update)(C* best, int64_t* at, const T* line, int64_t line_at, int64_t step,
                                          int64_t begin, int64_t end, int64_t first) {
  if (step == 1) {
    for (int64_t w = begin; w < end; w++) {
      const C v = SHMT_LOAD(line[w]);
      const bool wins = v > best[w - first] || v != v;
      best[w - first] = wins ? v : best[w - first];
      at[w - first] = wins ? line_at + w : at[w - first];
    }
  } else {
    for (int64_t w = begin; w < end; w++) {
      const C v = SHMT_LOAD(line[w * step]);
      const bool wins = v > best[w - first] || v != v;
      best[w - first] = wins ? v : best[w - first];
      at[w - first] = wins ? line_at + w * step : at[w - first];
    }
  }
}

/* data: out, indices (int64), image. An index is the position in the plane. Stretches of a row of outputs are worked on
 * together, one filter element after the other, so that the comparisons become vectors. */
void SHMT_LOOP(max_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_shape* s = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];
  const int64_t step = s->stride[2], width = SHMT_LOOP(pool_width);

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in))
    for (int64_t od = 0; od < s->out[0]; od++)
      for (int64_t oh = 0; oh < s->out[1]; oh++, out += s->out[2], where += s->out[2]) {
        int64_t d0, d1, h0, h1;
        shmt__pool_window(s, 0, od, &d0, &d1);
        shmt__pool_window(s, 1, oh, &h0, &h1);
        for (int64_t first = 0; first < s->out[2]; first += width) {
          const int64_t last = first + width < s->out[2] ? first + width : s->out[2];
          C best[SHMT_LOOP(pool_width)];
          int64_t at[SHMT_LOOP(pool_width)];
          for (int64_t w = first; w < last; w++) {
            int64_t w0, w1;
            shmt__pool_window(s, 2, w, &w0, &w1);
            best[w - first] = POOL_LOWEST;
            at[w - first] = (d0 * s->in[1] + h0) * s->in[2] + w0;
          }
          for (int64_t d = d0; d < d1; d += s->dilation[0])
            for (int64_t h = h0; h < h1; h += s->dilation[1])
              for (int64_t k = 0; k < s->kernel[2]; k++) {
                const int64_t offset = k * s->dilation[2] - s->padding[2];
                const int64_t line_at = (d * s->in[1] + h) * s->in[2] + offset;
                int64_t begin, end;
                SHMT_LOOP(pool_inside)(s, offset, &begin, &end);
                SHMT_LOOP(pool_update)(best, at, image + line_at, line_at, step, begin > first ? begin : first,
                                       end < last ? end : last, first);
              }
          for (int64_t w = first; w < last; w++) {
            out[w] = SHMT_STORE(best[w - first]);
            where[w] = at[w - first];
          }
        }
      }
}
#undef POOL_LOWEST

/* The same for equal shares of the plane. */
void SHMT_LOOP(adaptive_max_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_shape* s = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in)) {
    SHMT_POOL_EACH_OUTPUT {
      SHMT_POOL_WINDOW(shmt__pool_share);
      int64_t best_at = (d0 * s->in[1] + h0) * s->in[2] + w0;
      C best = SHMT_LOAD(image[best_at]);
      for (int64_t d = d0; d < d1; d++)
        for (int64_t h = h0; h < h1; h++) {
          const int64_t line = (d * s->in[1] + h) * s->in[2];
          for (int64_t w = w0; w < w1; w++) {
            const C v = SHMT_LOAD(image[line + w]);
            if (v > best || v != v) {
              best = v;
              best_at = line + w;
            }
          }
        }
      *out++ = SHMT_STORE(best);
      *where++ = best_at;
    }
  }
}

/* data: grad of the image (zeros so far), grad of out, indices. */
void SHMT_LOOP(max_pool_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_shape* s = ctx;
  const int64_t outs = SHMT_POOL_PLANE(s->out);
  T* image = (T*)(void*)data[0];
  const T* grad = (const T*)(const void*)data[1];
  const int64_t* where = (const int64_t*)(const void*)data[2];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in), grad += outs, where += outs)
    for (int64_t i = 0; i < outs; i++) {
      T* at = &image[where[i]];
      *at = SHMT_STORE((C)(SHMT_LOAD(*at) + SHMT_LOAD(grad[i])));
    }
}

/* What an average divides by: the window cut at the padded plane's edge, or the elements inside. */
static inline int64_t SHMT_LOOP(pool_divisor)(const shmt__pool_shape* s, int64_t od, int64_t oh, int64_t ow,
                                              int64_t inside) {
  const int64_t o[3] = {od, oh, ow};
  int64_t count = 1;

  if (s->divisor) return s->divisor;
  if (!s->count_padding) return inside;
  for (int d = 0; d < 3; d++) {
    const int64_t start = o[d] * s->stride[d] - s->padding[d];
    const int64_t stop = start + s->kernel[d], edge = s->in[d] + s->padding[d];
    count *= (stop < edge ? stop : edge) - start;
  }
  return count;
}

#define AVG_POOL(NAME, WINDOW, DIVISOR)                                                                         \
  /* data: out, image. */                                                                                       \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {                 \
    const shmt__pool_shape* s = ctx;                                                                            \
    T* out = (T*)(void*)data[0];                                                                                \
    const T* image = (const T*)(const void*)data[1];                                                            \
    (void)strides;                                                                                              \
    for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in)) {                                          \
      SHMT_POOL_EACH_OUTPUT {                                                                                   \
        SHMT_POOL_WINDOW(WINDOW);                                                                               \
        ACC sum = 0;                                                                                            \
        for (int64_t d = d0; d < d1; d++)                                                                       \
          for (int64_t h = h0; h < h1; h++) {                                                                   \
            const T* line = image + (d * s->in[1] + h) * s->in[2];                                              \
            for (int64_t w = w0; w < w1; w++) sum += SHMT_LOAD(line[w]);                                        \
          }                                                                                                     \
        const int64_t inside = (d1 - d0) * (h1 - h0) * (w1 - w0);                                               \
        const bool is_empty = d1 <= d0 || h1 <= h0 || w1 <= w0;                                                 \
        *out++ = SHMT_STORE((C)(is_empty ? 0 : sum / (ACC)(DIVISOR)));                                          \
      }                                                                                                         \
    }                                                                                                           \
  }                                                                                                             \
  /* data: grad of the image (zeros so far), grad of out. */                                                    \
  void SHMT_LOOP(NAME##_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {      \
    const shmt__pool_shape* s = ctx;                                                                            \
    T* image = (T*)(void*)data[0];                                                                              \
    const T* grad = (const T*)(const void*)data[1];                                                             \
    (void)strides;                                                                                              \
    for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in)) {                                          \
      SHMT_POOL_EACH_OUTPUT {                                                                                   \
        SHMT_POOL_WINDOW(WINDOW);                                                                               \
        const int64_t inside = (d1 - d0) * (h1 - h0) * (w1 - w0);                                               \
        const bool is_empty = d1 <= d0 || h1 <= h0 || w1 <= w0;                                                 \
        const ACC share = is_empty ? 0 : (ACC)SHMT_LOAD(*grad) / (ACC)(DIVISOR);                                \
        grad++;                                                                                                 \
        for (int64_t d = d0; d < d1; d++)                                                                       \
          for (int64_t h = h0; h < h1; h++) {                                                                   \
            T* line = image + (d * s->in[1] + h) * s->in[2];                                                    \
            for (int64_t w = w0; w < w1; w++) line[w] = SHMT_STORE((C)(SHMT_LOAD(line[w]) + share));            \
          }                                                                                                     \
      }                                                                                                         \
    }                                                                                                           \
  }
AVG_POOL(avg_pool, shmt__pool_window, SHMT_LOOP(pool_divisor)(s, od, oh, ow, inside))
AVG_POOL(adaptive_avg_pool, shmt__pool_share, inside)
#undef AVG_POOL
