/* kernels/conv/direct.tmpl.h -- convolution of one image without a column matrix, one dtype.
 *
 * Note [Direct convolution]
 * The image is copied with its padding, and divided into the phases of the stride: the positions with one remainder
 * modulo the stride lie together. Then output q reads image[offset[p] + q] under element p of a filter, with q counted
 * along padded rows. So a vector of neighbouring outputs is one load at a shifted address, for every stride and
 * dilation. The outputs between the ends of two rows are dropped. The sums of several filters by several vectors of
 * outputs stay in registers.
 */
#include "kernels/template.h"
#include "kernels/conv/direct.h"

#include <string.h>

/* Fused multiply-add where the processor has it. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#if SHMT_ISA_LEVEL == 2
#define FILTERS 8
#else
#define FILTERS 4
#endif
#define INLINE static inline __attribute__((always_inline))

enum { FN(lanes) = SHMT_VECTOR_BYTES / sizeof(T), FN(vectors) = 3, FN(block) = FN(lanes) * FN(vectors) };
typedef T FN(vector) __attribute__((vector_size(SHMT_VECTOR_BYTES)));

/* Pad an image. data: padded image, image; n: channels; ctx: shmt__conv_direct_args. */
void SHMT_LOOP(conv_direct_pad)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_direct_args* s = ctx;
  const shmt__conv_shape* c = s->conv;
  T* to = (T*)(void*)data[0];
  const T* image = (const T*)(const void*)data[1];

  (void)strides;
  memset(to, 0, (size_t)(n * s->channel + SHMT_DIRECT_SLACK) * sizeof(T));
  for (int64_t i = 0; i < n; i++, to += s->channel, image += c->step[0]) {
    for (int64_t d = 0; d < c->in[0]; d++) {
      const int64_t pd = d + c->padding[0];
      for (int64_t h = 0; h < c->in[1]; h++) {
        const int64_t ph = h + c->padding[1];
        const T* from = image + d * c->step[1] + h * c->step[2];
        const int64_t phase = (pd % c->stride[0] * c->stride[1] + ph % c->stride[1]) * c->stride[2];
        T* row = to + phase * s->volume + (pd / c->stride[0] * s->rows + ph / c->stride[1]) * s->row;
        if (c->stride[2] == 1) {
          memcpy(row + c->padding[2], from, (size_t)c->in[2] * sizeof(T));
          continue;
        }
        for (int64_t r = 0; r < c->stride[2]; r++) {
          /* The elements whose padded position modulo the stride is r. */
          const int64_t begin = ((r - c->padding[2]) % c->stride[2] + c->stride[2]) % c->stride[2];
          T* at = row + r * s->volume + (begin + c->padding[2]) / c->stride[2];
          for (int64_t w = begin; w < c->in[2]; w += c->stride[2]) *at++ = from[w];
        }
      }
    }
  }
}

INLINE FN(vector) FN(load_vector)(const T* x) {
  FN(vector) v;
  memcpy(&v, x, sizeof v);
  return v;
}

/* to[i * pitch + q] = sum over p of weight[i][p] * image[offset[p] + q] for a tile of filters i and outputs q; of a
 * single vector, only `some` elements. */
INLINE void FN(tile)(const T* const* weight, const T* image, const int64_t* offset, int64_t k, T* to, int64_t pitch,
                     const int n_vectors, const int64_t some) {
  FN(vector) sum[FILTERS][FN(vectors)] = {{{0}}};

  for (int64_t p = 0; p < k; p++) {
    FN(vector) x[FN(vectors)] = {{0}};
    if (some < FN(lanes)) {
      memcpy(&x[0], image + offset[p], (size_t)some * sizeof(T));
    } else {
#pragma GCC unroll 3
      for (int v = 0; v < n_vectors; v++) x[v] = FN(load_vector)(image + offset[p] + v * FN(lanes));
    }
#pragma GCC unroll 8
    for (int i = 0; i < FILTERS; i++) {
      const T w = weight[i][p];
#pragma GCC unroll 3
      for (int v = 0; v < n_vectors; v++) sum[i][v] += w * x[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < FILTERS; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < n_vectors; v++) {
      /* The address of one vector: that of the array would force it into memory. */
      const FN(vector) done = sum[i][v];
      memcpy(to + i * pitch + v * FN(lanes), &done, some < FN(lanes) ? (size_t)some * sizeof(T) : sizeof done);
    }
  }
}

/* All outputs of a run; exact: nothing beyond them is read or written, and the last vector makes some outputs again. */
INLINE void FN(tiles)(const T* const* weight, const T* image, const shmt__conv_direct_args* s, int64_t run, T* to,
                      int64_t pitch, bool exact) {
  const int64_t *offset = s->offset, k = s->k, lanes = FN(lanes);
  int64_t q = 0;

  for (; q + 2 * lanes < run && (!exact || q + FN(block) <= run); q += FN(block))
    FN(tile)(weight, image + q, offset, k, to + q, pitch, 3, lanes);
  if (exact && run < lanes) {
    FN(tile)(weight, image, offset, k, to, pitch, 1, run);
    return;
  }
  if (exact && q + lanes < run && run >= 2 * lanes) {
    /* Two vectors at a time are faster than one. */
    if (q + 2 * lanes < run) FN(tile)(weight, image + q, offset, k, to + q, pitch, 1, lanes);
    q = run - 2 * lanes;
  } else if (exact && q < run) {
    if (q + lanes < run) FN(tile)(weight, image + q, offset, k, to + q, pitch, 1, lanes);
    q = run - lanes;
  }
  if (q + lanes < run)
    FN(tile)(weight, image + q, offset, k, to + q, pitch, 2, lanes);
  else if (q < run)
    FN(tile)(weight, image + q, offset, k, to + q, pitch, 1, lanes);
}

/* Copy n rows of `width` elements, `pitch` apart, to dense rows. */
INLINE void FN(gather_rows)(T* to, const T* from, int64_t n, int64_t width, int64_t pitch) {
  const int64_t end = n * width;

  for (int64_t h = 0; h < n; h++, from += pitch) {
    T* row = to + h * width;
    int64_t w = 0;
    /* Whole vectors, also beyond the row: the next row overwrites what is wrong there. */
    for (; w < width && h * width + w + FN(lanes) <= end; w += FN(lanes))
      memcpy(row + w, from + w, FN(lanes) * sizeof(T));
    if (w < width) memcpy(row + w, from + w, (size_t)(width - w) * sizeof(T));
  }
}

/* data: outputs of n filters, padded image, weight, scratch as in filter() of ops/conv/nchw/direct.c; n: filters; ctx:
 * shmt__conv_direct_args. */
void SHMT_LOOP(conv_direct)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_direct_args* s = ctx;
  const int64_t *out = s->conv->out, plane = out[1] * out[2], run = (out[1] - 1) * s->row + out[2];
  const int64_t pitch = (run + FN(block) - 1) / FN(block) * FN(block);
  const T* image = (const T*)(const void*)data[1];
  T* scratch = (T*)(void*)data[3];
  /* Are all outputs of the run wanted? A run of less than a vector is copied element by element, if it must be. */
  const bool is_joined = (out[1] == 1 || s->row == out[2]) && (s->is_in_place || run >= FN(lanes));

  (void)strides;
  for (int64_t f = 0; f < n; f += FILTERS) {
    const int64_t n_filters = n - f < FILTERS ? n - f : FILTERS;
    const T* weight[FILTERS];
    /* Missing filters repeat the last one. */
    for (int64_t i = 0; i < FILTERS; i++)
      weight[i] = (const T*)(const void*)data[2] + (f + (i < n_filters ? i : n_filters - 1)) * s->k;
    T* const to = (T*)(void*)data[0] + f * s->pitch;
    for (int64_t d = 0; d < out[0]; d++) {
      const T* const from = image + d * s->rows * s->row;
      if (is_joined && n_filters == FILTERS) {
        FN(tiles)(weight, from, s, run, to + d * plane, s->pitch, true);
        continue;
      }
      FN(tiles)(weight, from, s, run, scratch, pitch, s->is_in_place);
      for (int64_t i = 0; i < n_filters; i++)
        FN(gather_rows)(to + i * s->pitch + d * plane, scratch + i * pitch, out[1], out[2], s->row);
    }
  }
}
#undef INLINE
#undef FILTERS
#pragma GCC pop_options
