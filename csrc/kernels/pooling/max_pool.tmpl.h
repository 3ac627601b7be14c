/* kernels/pooling/max_pool.tmpl.h -- max pooling, with or without indices. One dtype.
 *
 * n dense planes, one after the other; ctx: shmt__pool_args (kernels/pooling/pool.h).
 */
#include "kernels/template.h"
#include "kernels/pooling/pool.h"

#if SHMT_IS_FLOATING
#define POOL_LOWEST (-(C)INFINITY)
#else
#define POOL_LOWEST ((C)(SHMT_IS_SIGNED ? (C)((uint64_t)1 << (8 * sizeof(C) - 1)) : 0))
#endif

/* Compare the maxima so far of some outputs of a row with one element of each of their windows. A NaN wins. With 32-bit
 * indices twice as many fit a vector as with 64-bit ones; those outside the plane wrap, and are not used. */
static inline void SHMT_LOOP(max_pool_update)(const shmt__pool_args* s, C* best, uint32_t* at, const T* row,
                                              uint32_t row_at, int64_t begin, int64_t end) {
  SHMT_POOL_EACH_IN_ROW({
    const C v = SHMT_LOAD(row[w * step]);
    const bool wins = (v > best[w]) | (v != v);
    best[w] = wins ? v : best[w];
    at[w] = wins ? (uint32_t)(row_at + (uint32_t)w * (uint32_t)step) : at[w];
  })
}

/* Outputs first .. last of a row, with indices; window: d0, d1, h0, h1 of its windows. */
static void SHMT_LOOP(max_pool_with_indices)(const shmt__pool_args* s, const T* image, const int64_t* window,
                                             int64_t first, int64_t last, T* out, int64_t* where) {
  C best[SHMT_POOL_BLOCK];
  uint32_t at[SHMT_POOL_BLOCK];
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
        const int64_t row_at = (d * s->in[1] + h) * s->in[2] + offset + first * step;
        int64_t begin, end;
        shmt__pool_outputs_inside(s, offset, first, last, &begin, &end);
        SHMT_LOOP(max_pool_update)(s, best, at, image + row_at, (uint32_t)row_at, begin - first, end - first);
      }
  for (int64_t w = 0; w < n; w++) {
    out[w] = SHMT_STORE(best[w]);
    where[w] = (int64_t)at[w];
  }
}

/* The same for planes of any size, one output after the other; `where` may be NULL. */
static void SHMT_LOOP(max_pool_large_plane)(const shmt__pool_args* s, const T* image, const int64_t* window,
                                            int64_t first, int64_t last, T* out, int64_t* where) {
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

/* The same without indices. */
static void SHMT_LOOP(max_pool_values)(const shmt__pool_args* s, const T* image, const int64_t* window, int64_t first,
                                       int64_t last, T* out) {
  C best[SHMT_POOL_BLOCK];
  const int64_t n = last - first;
  int64_t k0, k1;

  for (int64_t w = 0; w < n; w++) best[w] = POOL_LOWEST;
  shmt__pool_taps(s, first, last, &k0, &k1);
  for (int64_t d = window[0]; d < window[1]; d += s->dilation[0])
    for (int64_t h = window[2]; h < window[3]; h += s->dilation[1])
      for (int64_t k = k0; k < k1; k++) {
        const int64_t offset = k * s->dilation[2] - s->padding[2];
        const T* row = image + (d * s->in[1] + h) * s->in[2] + offset + first * s->stride[2];
        int64_t begin, end;
        shmt__pool_outputs_inside(s, offset, first, last, &begin, &end);
        begin -= first;
        end -= first;
        SHMT_POOL_EACH_IN_ROW({
          const C v = SHMT_LOAD(row[w * step]);
          best[w] = (v > best[w]) | (v != v) ? v : best[w];
        })
      }
  for (int64_t w = 0; w < n; w++) out[w] = SHMT_STORE(best[w]);
}

/* data: out, indices (int64) or NULL, image. An index is the position in the plane. Up to SHMT_POOL_BLOCK outputs of a
 * row are made together, one element of the kernel after the other, so that the comparisons become vectors. */
void SHMT_LOOP(max_pool)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_args* s = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];
  const bool is_small = SHMT_POOL_PLANE(s->in) <= INT32_MAX;
  shmt__pool_args row;

  (void)strides;
  /* Only without indices, which count from the begin of each plane. */
  if (!where && shmt__pool_merge_rows(s, n, &row)) {
    s = &row;
    n = 1;
  }
  for (int64_t p = 0; p < n; p++, image += SHMT_POOL_PLANE(s->in))
    for (int64_t od = 0; od < s->out[0]; od++)
      for (int64_t oh = 0; oh < s->out[1]; oh++, out += s->out[2], where += where ? s->out[2] : 0) {
        int64_t window[4];
        shmt__pool_window(s, 0, od, &window[0], &window[1]);
        shmt__pool_window(s, 1, oh, &window[2], &window[3]);
        for (int64_t first = 0; first < s->out[2]; first += SHMT_POOL_BLOCK) {
          const int64_t last = first + SHMT_POOL_BLOCK < s->out[2] ? first + SHMT_POOL_BLOCK : s->out[2];
          if (s->out[2] == 1 || (where && !is_small))
            SHMT_LOOP(max_pool_large_plane)(s, image, window, first, last, out + first, where ? where + first : NULL);
          else if (!where)
            SHMT_LOOP(max_pool_values)(s, image, window, first, last, out + first);
          else
            SHMT_LOOP(max_pool_with_indices)(s, image, window, first, last, out + first, where + first);
        }
      }
}

#if SHMT_IS_FLOATING && !SHMT_IS_HALF
/* n channels of one output; window: begin and end along each dim; where: the indices, or NULL. */
static void SHMT_LOOP(max_pool_channels)(const shmt__pool_row_args* r, const T* image, const int64_t* window, int64_t n,
                                         T* out, int64_t* where) {
  const shmt__pool_args* s = r->shape;
  const uint32_t start = (uint32_t)((window[0] * s->in[1] + window[2]) * s->in[2] + window[4]);
  C best[SHMT_POOL_BLOCK];
  uint32_t at[SHMT_POOL_BLOCK];

  for (int64_t c = 0; c < n; c++) best[c] = POOL_LOWEST;
  for (int64_t c = 0; where && c < n; c++) at[c] = start;
  for (int64_t d = window[0]; d < window[1]; d += s->dilation[0])
    for (int64_t h = window[2]; h < window[3]; h += s->dilation[1])
      for (int64_t w = window[4]; w < window[5]; w += s->dilation[2]) {
        const int64_t index = (d * s->in[1] + h) * s->in[2] + w;
        const T* row = image + index * r->channels;
        if (!where) {
          for (int64_t c = 0; c < n; c++) best[c] = (row[c] > best[c]) | (row[c] != row[c]) ? row[c] : best[c];
          continue;
        }
        for (int64_t c = 0; c < n; c++) {
          const bool wins = (row[c] > best[c]) | (row[c] != row[c]);
          best[c] = wins ? row[c] : best[c];
          at[c] = wins ? (uint32_t)index : at[c];
        }
      }
  for (int64_t c = 0; c < n; c++) out[c] = best[c];
  for (int64_t c = 0; where && c < n; c++) where[c] = (int64_t)at[c];
}

/* data: a row of outputs, their indices (int64) or NULL, the image of at most 2^31 positions; all NHWC. */
void SHMT_LOOP(max_pool_channels_last)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pool_row_args* r = ctx;
  T* out = (T*)(void*)data[0];
  int64_t* where = (int64_t*)(void*)data[1];
  const T* image = (const T*)(const void*)data[2];

  (void)strides;
  for (int64_t ow = 0; ow < n; ow++) {
    int64_t window[6];
    shmt__pool_row_window(r, ow, window);
    for (int64_t c = 0; c < r->channels; c += SHMT_POOL_BLOCK) {
      const int64_t many = r->channels - c < SHMT_POOL_BLOCK ? r->channels - c : SHMT_POOL_BLOCK;
      const int64_t first = ow * r->channels + c;
      SHMT_LOOP(max_pool_channels)(r, image + c, window, many, out + first, where ? where + first : NULL);
    }
  }
}
#endif
#undef POOL_LOWEST
