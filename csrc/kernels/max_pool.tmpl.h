/* kernels/max_pool.tmpl.h -- maxima of windows, forward and backward. One dtype.
 *
 * n planes, dense, one after the other; ctx: shmt__pool_shape (kernels/pool.h).
 */
#include "kernels/loops.h"
#include "kernels/pool.h"

#if SHMT_IS_FLOATING
#define POOL_LOWEST (-(C)INFINITY)
#else
#define POOL_LOWEST ((C)(SHMT_IS_SIGNED ? (C)((uint64_t)1 << (8 * sizeof(C) - 1)) : 0))
#endif

/* The best so far of a stretch of outputs against one element of each of their windows. A NaN wins. With positions of 32
 * bits twice as many fit a vector as with those of 64; those outside the plane wrap, and are not used. */
static inline void SHMT_LOOP(pool_update)(const shmt__pool_shape* s, C* best, uint32_t* at, const T* line,
                                          uint32_t line_at, int64_t begin, int64_t end) {
  SHMT_POOL_LINE({
    const C v = SHMT_LOAD(line[w * step]);
    const bool wins = (v > best[w]) | (v != v);
    best[w] = wins ? v : best[w];
    at[w] = wins ? (uint32_t)(line_at + (uint32_t)w * (uint32_t)step) : at[w];
  })
}

/* Outputs first .. last of row (d0 .. d1, h0 .. h1) of the image's windows. */
static void SHMT_LOOP(pool_stretch)(const shmt__pool_shape* s, const T* image, const int64_t* window, int64_t first,
                                    int64_t last, T* out, int64_t* where) {
  C best[SHMT_POOL_WIDTH];
  uint32_t at[SHMT_POOL_WIDTH];
  const int64_t step = s->stride[2], n = last - first;
  const int64_t start = (window[0] * s->in[1] + window[2]) * s->in[2] - s->padding[2];
  int64_t k0, k1;

  for (int64_t w = 0; w < n; w++) {
    best[w] = POOL_LOWEST;
    at[w] = (uint32_t)(start + (first + w) * step);
  }
  for (int64_t w = 0; w < n && (first + w) * step < s->padding[2]; w++) {
    int64_t w0, w1;
    shmt__pool_window(s, 2, first + w, &w0, &w1);
    at[w] = (uint32_t)(start + s->padding[2] + w0);
  }
  shmt__pool_taps(s, first, last, &k0, &k1);
  for (int64_t d = window[0]; d < window[1]; d += s->dilation[0])
    for (int64_t h = window[2]; h < window[3]; h += s->dilation[1])
      for (int64_t k = k0; k < k1; k++) {
        const int64_t offset = k * s->dilation[2] - s->padding[2];
        const int64_t line_at = (d * s->in[1] + h) * s->in[2] + offset + first * step;
        int64_t begin, end;
        shmt__pool_inside(s, offset, first, last, &begin, &end);
        SHMT_LOOP(pool_update)(s, best, at, image + line_at, (uint32_t)line_at, begin - first, end - first);
      }
  for (int64_t w = 0; w < n; w++) {
    out[w] = SHMT_STORE(best[w]);
    where[w] = (int64_t)at[w];
  }
}

/* The same for planes of any size, one output after the other; where may be NULL. */
static void SHMT_LOOP(pool_far)(const shmt__pool_shape* s, const T* image, const int64_t* window, int64_t first,
                                int64_t last, T* out, int64_t* where) {
  for (int64_t w = first; w < last; w++) {
    int64_t begin, end;
    shmt__pool_window(s, 2, w, &begin, &end);
    int64_t best_at = (window[0] * s->in[1] + window[2]) * s->in[2] + begin;
    C best = POOL_LOWEST;
    for (int64_t d = window[0]; d < window[1]; d += s->dilation[0])
      for (int64_t h = window[2]; h < window[3]; h += s->dilation[1])
        for (int64_t i = begin; i < end; i += s->dilation[2]) {
          const int64_t at = (d * s->in[1] + h) * s->in[2] + i;
          const C v = SHMT_LOAD(image[at]);
          const bool wins = (v > best) | (v != v);
          best = wins ? v : best;
          best_at = wins ? at : best_at;
        }
    *out++ = SHMT_STORE(best);
    if (where) *where++ = best_at;
  }
}

/* The same without positions. */
static void SHMT_LOOP(pool_highest)(const shmt__pool_shape* s, const T* image, const int64_t* window, int64_t first,
                                    int64_t last, T* out) {
  C best[SHMT_POOL_WIDTH];
  const int64_t n = last - first;
  int64_t k0, k1;

  for (int64_t w = 0; w < n; w++) best[w] = POOL_LOWEST;
  shmt__pool_taps(s, first, last, &k0, &k1);
  for (int64_t d = window[0]; d < window[1]; d += s->dilation[0])
    for (int64_t h = window[2]; h < window[3]; h += s->dilation[1])
      for (int64_t k = k0; k < k1; k++) {
        const int64_t offset = k * s->dilation[2] - s->padding[2];
        const T* line = image + (d * s->in[1] + h) * s->in[2] + offset + first * s->stride[2];
        int64_t begin, end;
        shmt__pool_inside(s, offset, first, last, &begin, &end);
        begin -= first;
        end -= first;
        SHMT_POOL_LINE({
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
        for (int64_t first = 0; first < s->out[2]; first += SHMT_POOL_WIDTH) {
          const int64_t last = first + SHMT_POOL_WIDTH < s->out[2] ? first + SHMT_POOL_WIDTH : s->out[2];
          if (s->out[2] == 1 || (where && !is_small))
            SHMT_LOOP(pool_far)(s, image, window, first, last, out + first, where ? where + first : NULL);
          else if (!where)
            SHMT_LOOP(pool_highest)(s, image, window, first, last, out + first);
          else
            SHMT_LOOP(pool_stretch)(s, image, window, first, last, out + first, where + first);
        }
      }
}

#if SHMT_IS_FLOATING && !SHMT_IS_HALF
/* n channels of one output; window: begin and end along each dim; where: NULL or the positions. */
static void SHMT_LOOP(pool_channels)(const shmt__pool_row* r, const T* image, const int64_t* window, int64_t n, T* out,
                                     int64_t* where) {
  const shmt__pool_shape* s = r->shape;
  const uint32_t start = (uint32_t)((window[0] * s->in[1] + window[2]) * s->in[2] + window[4]);
  C best[SHMT_POOL_WIDTH];
  uint32_t at[SHMT_POOL_WIDTH];

  for (int64_t c = 0; c < n; c++) best[c] = POOL_LOWEST;
  for (int64_t c = 0; where && c < n; c++) at[c] = start;
  for (int64_t d = window[0]; d < window[1]; d += s->dilation[0])
    for (int64_t h = window[2]; h < window[3]; h += s->dilation[1])
      for (int64_t w = window[4]; w < window[5]; w += s->dilation[2]) {
        const int64_t place = (d * s->in[1] + h) * s->in[2] + w;
        const T* line = image + place * r->channels;
        if (!where) {
          for (int64_t c = 0; c < n; c++) best[c] = (line[c] > best[c]) | (line[c] != line[c]) ? line[c] : best[c];
          continue;
        }
        for (int64_t c = 0; c < n; c++) {
          const bool wins = (line[c] > best[c]) | (line[c] != line[c]);
          best[c] = wins ? line[c] : best[c];
          at[c] = wins ? (uint32_t)place : at[c];
        }
      }
  for (int64_t c = 0; c < n; c++) out[c] = best[c];
  for (int64_t c = 0; where && c < n; c++) where[c] = (int64_t)at[c];
}

/* data: out, indices (int64) or NULL, of a row of outputs; the image, of at most 2^31 places, channels side by side. */
void SHMT_LOOP(max_pool_channels_last)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_row* r = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];

  (void)strides;
  for (int64_t ow = 0; ow < n; ow++) {
    int64_t window[6];
    shmt__pool_row_window(r, ow, window);
    for (int64_t c = 0; c < r->channels; c += SHMT_POOL_WIDTH) {
      const int64_t many = r->channels - c < SHMT_POOL_WIDTH ? r->channels - c : SHMT_POOL_WIDTH;
      const int64_t first = ow * r->channels + c;
      SHMT_LOOP(pool_channels)(r, image + c, window, many, out + first, where ? where + first : NULL);
    }
  }
}
#endif
#if SHMT_IS_FLOATING
/* Towards zero, to 32 bits; what does not fit, the least number. */
static inline uint32_t SHMT_LOOP(pool_whole)(C x) {
  return x >= (C)INT32_MIN && x < -(C)INT32_MIN ? (uint32_t)(int32_t)x : (uint32_t)INT32_MIN;
}
/* The first element of the o-th of random windows along a dim. Every step is rounded to the dtype, as in torch. */
#define ROUNDED(x) SHMT_LOAD(SHMT_STORE(x))
static inline int64_t SHMT_LOOP(pool_start)(const shmt__pool_shape* s, int d, int64_t o, C sample) {
  const int64_t last = s->in[d] - s->kernel[d];
  if (o == s->out[d] - 1) return last;
  const C width = ROUNDED(ROUNDED((C)last) / ROUNDED((C)(s->out[d] - 1)));
  const C moved = ROUNDED(ROUNDED(ROUNDED((C)o) + sample) * width);
  const int64_t at = (int32_t)(SHMT_LOOP(pool_whole)(moved) - SHMT_LOOP(pool_whole)(ROUNDED(sample * width)));
  return at < 0 ? 0 : at < last ? at : last;
}
#undef ROUNDED

/* data: out, indices (int64), image, and a number for each plane and dim, which says where windows start: of images the
 * first is for the width, of volumes for the depth. */
void SHMT_LOOP(fractional_max_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_shape* s = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];
  const T* samples = (const T*)(const void*)data[3];
  const int64_t outs = SHMT_POOL_PLANE(s->out), row = s->out[2];
  int64_t starts[SHMT_POOL_WIDTH];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in), samples += s->n, out += outs, where += outs) {
    C sample[3] = {0};
    for (int d = 3 - s->n; d < 3; d++) sample[d] = SHMT_LOAD(samples[s->n == 3 ? d : 2 - d]);
    for (int64_t first = 0; first < row; first += SHMT_POOL_WIDTH) {
      const int64_t last = first + SHMT_POOL_WIDTH < row ? first + SHMT_POOL_WIDTH : row;
      for (int64_t ow = first; ow < last; ow++) starts[ow - first] = SHMT_LOOP(pool_start)(s, 2, ow, sample[2]);
      for (int64_t od = 0; od < s->out[0]; od++)
        for (int64_t oh = 0; oh < s->out[1]; oh++) {
          const int64_t d0 = SHMT_LOOP(pool_start)(s, 0, od, sample[0]), h0 = SHMT_LOOP(pool_start)(s, 1, oh, sample[1]);
          for (int64_t ow = first; ow < last; ow++) {
            int64_t best_at = (d0 * s->in[1] + h0) * s->in[2] + starts[ow - first];
            C best = POOL_LOWEST;
            for (int64_t d = d0; d < d0 + s->kernel[0]; d++)
              for (int64_t h = h0; h < h0 + s->kernel[1]; h++) {
                const int64_t line = (d * s->in[1] + h) * s->in[2] + starts[ow - first];
                for (int64_t i = line; i < line + s->kernel[2]; i++) {
                  const C v = SHMT_LOAD(image[i]);
                  const bool wins = (v > best) | (v != v);
                  best = wins ? v : best;
                  best_at = wins ? i : best_at;
                }
              }
            const int64_t to = (od * s->out[1] + oh) * row + ow;
            out[to] = SHMT_STORE(best);
            where[to] = best_at;
          }
        }
    }
  }
}
#endif
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

/* Integers wrap. */
#if SHMT_IS_INTEGRAL
#define SUM(a, b) ((C)((uint64_t)(a) + (uint64_t)(b)))
#else
#define SUM(a, b) ((C)((a) + (b)))
#endif
/* data: grad of the image (zeros so far), grad of out, indices, which the caller has checked; one that another process
 * has spoilt since counts as 0. */
void SHMT_LOOP(max_pool_backward)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_shape* s = ctx;
  const int64_t outs = SHMT_POOL_PLANE(s->out), plane = SHMT_POOL_PLANE(s->in);
  T* image = (T*)(void*)data[0];
  const T* grad = (const T*)(const void*)data[1];
  const int64_t* where = (const int64_t*)(const void*)data[2];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += plane, grad += outs, where += outs)
    for (int64_t i = 0; i < outs; i++) {
      const uint64_t place = (uint64_t)where[i];
      T* at = &image[place < (uint64_t)plane ? place : 0];
      *at = SHMT_STORE(SUM(SHMT_LOAD(*at), SHMT_LOAD(grad[i])));
    }
}

#if SHMT_IS_FLOATING && !SHMT_IS_HALF
/* The same with channels side by side, for a row of outputs. */
void SHMT_LOOP(max_pool_backward_channels_last)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_row* r = ctx;
  const int64_t channels = r->channels, plane = SHMT_POOL_PLANE(r->shape->in);
  T* image = (T*)(void*)data[0];
  const T* grad = (const T*)(const void*)data[1];
  const int64_t* where = (const int64_t*)(const void*)data[2];

  (void)strides;
  for (int64_t ow = 0; ow < n; ow++, grad += channels, where += channels)
    for (int64_t c = 0; c < channels; c++) {
      const uint64_t place = (uint64_t)where[c];
      image[(place < (uint64_t)plane ? (int64_t)place : 0) * channels + c] += grad[c];
    }
}
#endif
#undef SUM
