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
/* Lines whose windows tile them end to end are one long line: n of them in *line. */
static inline bool shmt__pool_is_line(const shmt__pool_shape* s, int64_t n, shmt__pool_shape* line) {
  for (int d = 0; d < 2; d++)
    if (s->in[d] != 1 || s->out[d] != 1 || s->kernel[d] != 1 || s->padding[d] != 0) return false;
  if (s->padding[2] != 0 || s->out[2] * s->stride[2] != s->in[2] ||
      (s->kernel[2] - 1) * s->dilation[2] >= s->stride[2])
    return false;
  *line = *s;
  line->in[2] *= n;
  line->out[2] *= n;
  return true;
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

/* Of the outputs first .. last along the last dim, those whose image element `offset` behind their start lies inside. */
static inline void SHMT_LOOP(pool_inside)(const shmt__pool_shape* s, int64_t offset, int64_t first, int64_t last,
                                          int64_t* begin, int64_t* end) {
  const int64_t step = s->stride[2];

  *begin = first;
  *end = last;
  /* Divisions only at the plane's edges. */
  if (first * step + offset < 0) *begin = (-offset + step - 1) / step;
  if ((last - 1) * step + offset >= s->in[2]) *end = s->in[2] > offset ? (s->in[2] - 1 - offset) / step + 1 : 0;
}

/* Elements of the window along the last dim that lie inside for any of those outputs: a window may be far larger. */
static inline void SHMT_LOOP(pool_taps)(const shmt__pool_shape* s, int64_t first, int64_t last, int64_t* begin,
                                        int64_t* end) {
  const int64_t before = s->padding[2] - (last - 1) * s->stride[2], behind = s->in[2] - 1 + s->padding[2] - first * s->stride[2];

  *begin = before > 0 ? (before + s->dilation[2] - 1) / s->dilation[2] : 0;
  *end = s->kernel[2];
  if (behind < (s->kernel[2] - 1) * s->dilation[2]) *end = behind < 0 ? 0 : behind / s->dilation[2] + 1;
}

enum { SHMT_LOOP(pool_width) = 128 };

/* Sums, which wrap for integers, and what they are divided by. */
#if SHMT_IS_INTEGRAL
#define TOTAL     uint64_t
#define ADD(a, b) ((C)((TOTAL)(a) + (TOTAL)(b)))
static inline ACC SHMT_LOOP(pool_share_of)(TOTAL sum, int64_t n) {
  return n == -1 ? (ACC)(0 - sum) : (ACC)sum / (ACC)n;
}
#else
#define TOTAL     ACC
#define ADD(a, b) ((C)((a) + (b)))
static inline ACC SHMT_LOOP(pool_share_of)(TOTAL sum, int64_t n) { return sum / (ACC)n; }
#endif

/* BODY for w from begin to end, with STEP known for the usual strides: what it loads becomes shuffles. */
#define POOL_LINE(BODY)                                                \
  if (s->stride[2] == 1) {                                             \
    enum { step = 1 };                                                 \
    for (int64_t w = begin; w < end; w++) BODY                         \
  } else if (s->stride[2] == 2) {                                      \
    enum { step = 2 };                                                 \
    for (int64_t w = begin; w < end; w++) BODY                         \
  } else {                                                             \
    const int64_t step = s->stride[2];                                 \
    for (int64_t w = begin; w < end; w++) BODY                         \
  }

/* The best so far of a stretch of outputs against one element of each of their windows. A NaN wins. INDEX is as wide as
 * positions in the plane need: with 32 bits twice as many fit a vector. Positions outside wrap, and are not used. */
#define POOL_STRETCH(INDEX)                                                                                        \
  static inline void SHMT_LOOP(pool_update_##INDEX)(const shmt__pool_shape* s, C* best, INDEX* at, const T* line,  \
                                                    INDEX line_at, int64_t begin, int64_t end) {                   \
    POOL_LINE({                                                                                                    \
      const C v = SHMT_LOAD(line[w * step]);                                                                       \
      const bool wins = (v > best[w]) | (v != v);                                                                  \
      best[w] = wins ? v : best[w];                                                                                \
      at[w] = wins ? (INDEX)(line_at + (INDEX)w * (INDEX)step) : at[w];                                            \
    })                                                                                                             \
  }                                                                                                                \
  /* Outputs first .. last of row (d0 .. d1, h0 .. h1) of the image's windows. */                                  \
  static void SHMT_LOOP(pool_stretch_##INDEX)(const shmt__pool_shape* s, const T* image, const int64_t* window,    \
                                              int64_t first, int64_t last, T* out, int64_t* where) {               \
    C best[SHMT_LOOP(pool_width)];                                                                                 \
    INDEX at[SHMT_LOOP(pool_width)];                                                                               \
    const int64_t step = s->stride[2], n = last - first;                                                           \
    const int64_t start = (window[0] * s->in[1] + window[2]) * s->in[2] - s->padding[2];                           \
    for (int64_t w = 0; w < n; w++) {                                                                              \
      best[w] = POOL_LOWEST;                                                                                       \
      at[w] = (INDEX)(start + (first + w) * step);                                                                 \
    }                                                                                                              \
    for (int64_t w = 0; w < n && (first + w) * step < s->padding[2]; w++) {                                        \
      int64_t w0, w1;                                                                                              \
      shmt__pool_window(s, 2, first + w, &w0, &w1);                                                                \
      at[w] = (INDEX)(start + s->padding[2] + w0);                                                                 \
    }                                                                                                              \
    int64_t k0, k1;                                                                                                \
    SHMT_LOOP(pool_taps)(s, first, last, &k0, &k1);                                                                \
    for (int64_t d = window[0]; d < window[1]; d += s->dilation[0])                                                \
      for (int64_t h = window[2]; h < window[3]; h += s->dilation[1])                                              \
        for (int64_t k = k0; k < k1; k++) {                                                                        \
          const int64_t offset = k * s->dilation[2] - s->padding[2];                                               \
          const int64_t line_at = (d * s->in[1] + h) * s->in[2] + offset + first * step;                           \
          int64_t begin, end;                                                                                      \
          SHMT_LOOP(pool_inside)(s, offset, first, last, &begin, &end);                                            \
          SHMT_LOOP(pool_update_##INDEX)(s, best, at, image + line_at, (INDEX)line_at, begin - first, end - first); \
        }                                                                                                          \
    for (int64_t w = 0; w < n; w++) {                                                                              \
      out[w] = SHMT_STORE(best[w]);                                                                                \
      where[w] = (int64_t)at[w];                                                                                          \
    }                                                                                                              \
  }
POOL_STRETCH(uint32_t)
POOL_STRETCH(uint64_t)
#undef POOL_STRETCH

/* The same without positions. */
static void SHMT_LOOP(pool_highest)(const shmt__pool_shape* s, const T* image, const int64_t* window, int64_t first,
                                    int64_t last, T* out) {
  C best[SHMT_LOOP(pool_width)];
  const int64_t n = last - first;
  int64_t k0, k1;

  for (int64_t w = 0; w < n; w++) best[w] = POOL_LOWEST;
  SHMT_LOOP(pool_taps)(s, first, last, &k0, &k1);
  for (int64_t d = window[0]; d < window[1]; d += s->dilation[0])
    for (int64_t h = window[2]; h < window[3]; h += s->dilation[1])
      for (int64_t k = k0; k < k1; k++) {
        const int64_t offset = k * s->dilation[2] - s->padding[2];
        const T* line = image + (d * s->in[1] + h) * s->in[2] + offset + first * s->stride[2];
        int64_t begin, end;
        SHMT_LOOP(pool_inside)(s, offset, first, last, &begin, &end);
        begin -= first;
        end -= first;
        POOL_LINE({
          const C v = SHMT_LOAD(line[w * step]);
          best[w] = (v > best[w]) | (v != v) ? v : best[w];
        })
      }
  for (int64_t w = 0; w < n; w++) out[w] = SHMT_STORE(best[w]);
}

/* data: out, indices (int64) or NULL, image. An index is the position in the plane. Stretches of a row of outputs are worked on
 * together, one filter element after the other, so that the comparisons become vectors. */
void SHMT_LOOP(max_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_shape* s = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];
  const bool is_small = SHMT_POOL_PLANE(s->in) <= INT32_MAX;
  shmt__pool_shape line;

  (void)strides;
  /* Positions count from each line's own begin. */
  if (!where && shmt__pool_is_line(s, n, &line)) {
    s = &line;
    n = 1;
  }
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in))
    for (int64_t od = 0; od < s->out[0]; od++)
      for (int64_t oh = 0; oh < s->out[1]; oh++, out += s->out[2], where += where ? s->out[2] : 0) {
        int64_t window[4];
        shmt__pool_window(s, 0, od, &window[0], &window[1]);
        shmt__pool_window(s, 1, oh, &window[2], &window[3]);
        for (int64_t first = 0; first < s->out[2]; first += SHMT_LOOP(pool_width)) {
          const int64_t last = first + SHMT_LOOP(pool_width) < s->out[2] ? first + SHMT_LOOP(pool_width) : s->out[2];
          if (!where)
            SHMT_LOOP(pool_highest)(s, image, window, first, last, out + first);
          else if (is_small)
            SHMT_LOOP(pool_stretch_uint32_t)(s, image, window, first, last, out + first, where + first);
          else
            SHMT_LOOP(pool_stretch_uint64_t)(s, image, window, first, last, out + first, where + first);
        }
      }
}
#undef POOL_LOWEST

#if SHMT_IS_FLOATING
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
#endif

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
      *at = SHMT_STORE(ADD(SHMT_LOAD(*at), SHMT_LOAD(grad[i])));
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

/* Averages of outputs first .. last of a row; at: its od, oh, and d0, d1, h0, h1 of its windows. */
static void SHMT_LOOP(pool_average)(const shmt__pool_shape* s, const T* image, const int64_t* at, int64_t first,
                                    int64_t last, T* out) {
  TOTAL sum[SHMT_LOOP(pool_width)];
  const int64_t n = last - first;
  int64_t k0, k1;

  SHMT_LOOP(pool_taps)(s, first, last, &k0, &k1);
  for (int64_t w = 0; w < n; w++) sum[w] = 0;
  for (int64_t d = at[2]; d < at[3]; d++)
    for (int64_t h = at[4]; h < at[5]; h++)
      for (int64_t k = k0; k < k1; k++) {
        const int64_t offset = k - s->padding[2];
        const T* line = image + (d * s->in[1] + h) * s->in[2] + offset + first * s->stride[2];
        int64_t begin, end;
        SHMT_LOOP(pool_inside)(s, offset, first, last, &begin, &end);
        begin -= first;
        end -= first;
        POOL_LINE(sum[w] += (TOTAL)SHMT_LOAD(line[w * step]);)
      }
  /* Windows that begin and end inside the image all have the same divisor. */
  const int64_t rows = (at[3] - at[2]) * (at[5] - at[4]);
  int64_t whole_begin, whole_end, unused;
  SHMT_LOOP(pool_inside)(s, -s->padding[2], first, last, &whole_begin, &unused);
  SHMT_LOOP(pool_inside)(s, s->kernel[2] - 1 - s->padding[2], first, last, &unused, &whole_end);
  if (at[3] <= at[2] || at[5] <= at[4] || whole_end < whole_begin) whole_end = whole_begin = last;
  const int64_t divisor = SHMT_LOOP(pool_divisor)(s, at[0], at[1], whole_begin, rows * s->kernel[2]);
  for (int64_t w = whole_begin; w < whole_end; w++)
    out[w - first] = SHMT_STORE((C)SHMT_LOOP(pool_share_of)(sum[w - first], divisor));
  for (int64_t w = first; w < last; w++) {
    if (w == whole_begin && whole_end > w) w = whole_end;
    if (w >= last) break;
    int64_t w0, w1;
    shmt__pool_window(s, 2, w, &w0, &w1);
    const int64_t inside = w1 > w0 ? rows * (w1 - w0) : 0;
    const bool is_empty = at[3] <= at[2] || at[5] <= at[4] || w1 <= w0;
    const int64_t shares = SHMT_LOOP(pool_divisor)(s, at[0], at[1], w, inside);
    out[w - first] = SHMT_STORE((C)(is_empty ? 0 : SHMT_LOOP(pool_share_of)(sum[w - first], shares)));
  }
}
#undef POOL_LINE

/* data: out, image. Stretches of a row of outputs are summed together, as above. */
void SHMT_LOOP(avg_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_shape* s = ctx;
  T* out = (T*)(void*)data[0];
  const T* image = (const T*)(const void*)data[1];
  shmt__pool_shape line;

  (void)strides;
  if (shmt__pool_is_line(s, n, &line)) {
    s = &line;
    n = 1;
  }
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in))
    for (int64_t od = 0; od < s->out[0]; od++)
      for (int64_t oh = 0; oh < s->out[1]; oh++, out += s->out[2]) {
        int64_t d0, d1, h0, h1;
        shmt__pool_window(s, 0, od, &d0, &d1);
        shmt__pool_window(s, 1, oh, &h0, &h1);
        for (int64_t first = 0; first < s->out[2]; first += SHMT_LOOP(pool_width)) {
          const int64_t last = first + SHMT_LOOP(pool_width) < s->out[2] ? first + SHMT_LOOP(pool_width) : s->out[2];
          SHMT_LOOP(pool_average)(s, image, (const int64_t[]){od, oh, d0, d1, h0, h1}, first, last, out + first);
        }
      }
}

#define AVG_POOL_BACKWARD(NAME, WINDOW, DIVISOR)                                                                \
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
        const ACC share = is_empty ? 0 : SHMT_LOOP(pool_share_of)((TOTAL)SHMT_LOAD(*grad), DIVISOR);                                \
        grad++;                                                                                                 \
        for (int64_t d = d0; d < d1; d++)                                                                       \
          for (int64_t h = h0; h < h1; h++) {                                                                   \
            T* line = image + (d * s->in[1] + h) * s->in[2];                                                    \
            for (int64_t w = w0; w < w1; w++) line[w] = SHMT_STORE(ADD(SHMT_LOAD(line[w]), share));             \
          }                                                                                                     \
      }                                                                                                         \
    }                                                                                                           \
  }
AVG_POOL_BACKWARD(avg_pool, shmt__pool_window, SHMT_LOOP(pool_divisor)(s, od, oh, ow, inside))
#if SHMT_IS_FLOATING
AVG_POOL_BACKWARD(adaptive_avg_pool, shmt__pool_share, inside)
#endif
#undef AVG_POOL_BACKWARD

#if SHMT_IS_FLOATING
/* data: out, image. */
void SHMT_LOOP(adaptive_avg_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_shape* s = ctx;
  T* out = (T*)(void*)data[0];
  const T* image = (const T*)(const void*)data[1];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in)) {
    SHMT_POOL_EACH_OUTPUT {
      SHMT_POOL_WINDOW(shmt__pool_share);
      TOTAL sum = 0;
      for (int64_t d = d0; d < d1; d++)
        for (int64_t h = h0; h < h1; h++) {
          const T* line = image + (d * s->in[1] + h) * s->in[2];
          for (int64_t w = w0; w < w1; w++) sum += (TOTAL)SHMT_LOAD(line[w]);
        }
      const int64_t inside = (d1 - d0) * (h1 - h0) * (w1 - w0);
      *out++ = SHMT_STORE((C)(inside <= 0 ? 0 : SHMT_LOOP(pool_share_of)(sum, inside)));
    }
  }
}
#endif
#undef TOTAL
#undef ADD
