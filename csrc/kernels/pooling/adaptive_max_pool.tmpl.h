/* kernels/pooling/adaptive_max_pool.tmpl.h -- adaptive and fractional max pooling. One dtype.
 *
 * n dense planes, one after the other; ctx: shmt__pool_args (kernels/pooling/pool.h).
 */
#include "kernels/template.h"
#include "kernels/pooling/pool.h"

/* Round towards zero to int32; what does not fit becomes INT32_MIN. */
static inline uint32_t SHMT_LOOP(to_int32)(C x) {
  return x >= (C)INT32_MIN && x < -(C)INT32_MIN ? (uint32_t)(int32_t)x : (uint32_t)INT32_MIN;
}
/* Where the window of output o begins along a dim. Every step is rounded to the dtype, as in torch. */
#define ROUNDED(x) SHMT_LOAD(SHMT_STORE(x))
static inline int64_t SHMT_LOOP(fractional_window_start)(const shmt__pool_args* s, int d, int64_t o, C sample) {
  const int64_t last = s->in[d] - s->kernel[d];
  if (o == s->out[d] - 1) return last;
  const C width = ROUNDED(ROUNDED((C)last) / ROUNDED((C)(s->out[d] - 1)));
  const C moved = ROUNDED(ROUNDED(ROUNDED((C)o) + sample) * width);
  const int64_t at = (int32_t)(SHMT_LOOP(to_int32)(moved) - SHMT_LOOP(to_int32)(ROUNDED(sample * width)));
  return at < 0 ? 0 : at < last ? at : last;
}
#undef ROUNDED

/* data: out, indices (int64), image, and a random sample for each plane and dim, from which the begins of windows
 * follow; the first sample of an image is for the width, that of a volume for the depth. */
void SHMT_LOOP(fractional_max_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_args* s = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];
  const T* samples = (const T*)(const void*)data[3];
  const int64_t outs = SHMT_POOL_PLANE(s->out), row = s->out[2];
  int64_t starts[SHMT_POOL_BLOCK];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in), samples += s->n, out += outs, where += outs) {
    C sample[3] = {0};
    for (int d = 3 - s->n; d < 3; d++) sample[d] = SHMT_LOAD(samples[s->n == 3 ? d : 2 - d]);
    for (int64_t first = 0; first < row; first += SHMT_POOL_BLOCK) {
      const int64_t last = first + SHMT_POOL_BLOCK < row ? first + SHMT_POOL_BLOCK : row;
      for (int64_t ow = first; ow < last; ow++)
        starts[ow - first] = SHMT_LOOP(fractional_window_start)(s, 2, ow, sample[2]);
      for (int64_t od = 0; od < s->out[0]; od++)
        for (int64_t oh = 0; oh < s->out[1]; oh++) {
          const int64_t d0 = SHMT_LOOP(fractional_window_start)(s, 0, od, sample[0]),
                        h0 = SHMT_LOOP(fractional_window_start)(s, 1, oh, sample[1]);
          for (int64_t ow = first; ow < last; ow++) {
            int64_t best_at = (d0 * s->in[1] + h0) * s->in[2] + starts[ow - first];
            C best = -(C)INFINITY;
            for (int64_t d = d0; d < d0 + s->kernel[0]; d++)
              for (int64_t h = h0; h < h0 + s->kernel[1]; h++) {
                const int64_t start = (d * s->in[1] + h) * s->in[2] + starts[ow - first];
                for (int64_t i = start; i < start + s->kernel[2]; i++) {
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

/* data: out, indices (int64), image. */
void SHMT_LOOP(adaptive_max_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_args* s = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];

  (void)strides;
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in)) {
    SHMT_POOL_EACH_OUTPUT {
      SHMT_POOL_WINDOW(shmt__adaptive_pool_window);
      int64_t best_at = (d0 * s->in[1] + h0) * s->in[2] + w0;
      C best = SHMT_LOAD(image[best_at]);
      for (int64_t d = d0; d < d1; d++)
        for (int64_t h = h0; h < h1; h++) {
          const int64_t row = (d * s->in[1] + h) * s->in[2];
          for (int64_t w = w0; w < w1; w++) {
            const C v = SHMT_LOAD(image[row + w]);
            if (v > best || v != v) {
              best = v;
              best_at = row + w;
            }
          }
        }
      *out++ = SHMT_STORE(best);
      *where++ = best_at;
    }
  }
}
