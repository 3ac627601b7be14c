/* kernels/conv/weight_grad_nhwc.tmpl.h -- weight gradient of a convolution in NHWC, one dtype.
 *
 * Note [NHWC weight gradient]
 * The gradient of an element of a filter is the sum, over all outputs, of the output's gradient times the element of
 * its patch. A vector holds filters. For all outputs of a chunk of rows, some elements of patches times the vectors of
 * an output are summed in registers, and then added to the sums in memory; that also bounds the rounding errors of long
 * sums. Patches are read in a padded NHWC copy of the image, so that none needs a check for the border.
 */
#include "kernels/template.h"
#include "kernels/conv/nhwc.h"
#include "kernels/conv/weight_grad_nhwc.h"

#include <string.h>

/* Fused multiply-add where the processor has it. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#include "kernels/conv/filter_vectors.tmpl.h"

#define ELEMENTS      (SHMT_ISA_LEVEL == 2 ? 8 : 4) /* of a tile of several vectors */
#define MOST_ELEMENTS SHMT_WEIGHT_GRAD_ELEMENTS_GROUPED

enum { FN(chunk) = 256 /* outputs, about */ };

/* Which channel the lanes of a vector of filters are multiplied by. */
enum {
  FN(broadcast) /* for all */,
  FN(own_channel) /* for each its channel's */,
  FN(shuffled) /* that of the channels in these lanes */
};

/* Sum n_elements elements by n_vectors vectors over rows [begin, end) of outputs. */
INLINE void FN(weight_grad_tile)(const shmt__weight_grad_args* s, const T* image, const T* output, T* sums,
                                 const int64_t* offset, int64_t begin, int64_t end, const int n_elements,
                                 const int n_vectors, const int what, FN(lane_indices) lanes) {
  const int64_t width = s->n[3], step = s->step[3], pitch = s->pitch;
  const T* y = output + begin * width * pitch;
  FN(vector) sum[MOST_ELEMENTS][FN(vectors)] = {{{0}}};
  const T* from[MOST_ELEMENTS];

  for (int64_t r = begin; r < end; r++) {
    const int64_t h = r % s->n[2], plane = r / s->n[2], d = plane % s->n[1], i = plane / s->n[1];
    const T* const line = image + (i * s->step[0] + d * s->step[1] + h * s->step[2]);
#pragma GCC unroll 16
    for (int e = 0; e < n_elements; e++) from[e] = line + offset[e];
    for (int64_t w = 0, x = 0; w < width; w++, x += step, y += pitch) {
      FN(vector) factor[FN(vectors)] = {{0}};
#pragma GCC unroll 3
      for (int v = 0; v < n_vectors; v++) factor[v] = FN(load_vector)(y + v * FN(lanes));
#pragma GCC unroll 16
      for (int e = 0; e < n_elements; e++) {
#pragma GCC unroll 3
        for (int v = 0; v < n_vectors; v++) {
          if (what == FN(broadcast))
            sum[e][v] += from[e][x] * factor[v];
          else if (what == FN(own_channel))
            sum[e][v] += FN(load_vector)(from[e] + x + v * FN(lanes)) * factor[v];
          else
            sum[e][v] += __builtin_shuffle(FN(load_vector)(from[e] + x + v * FN(lanes)), lanes) * factor[v];
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int e = 0; e < n_elements; e++) {
#pragma GCC unroll 3
    for (int v = 0; v < n_vectors; v++) {
      T* const to = sums + e * pitch + v * FN(lanes);
      const FN(vector) made = s->adds || begin > 0 ? FN(load_vector)(to) + sum[e][v] : sum[e][v];
      memcpy(to, &made, sizeof made);
    }
  }
}

/* The first SHMT_WEIGHT_GRAD_ELEMENTS of n elements; few vectors take more elements, so that no sum waits for the one
 * before. */
INLINE void FN(weight_grad_elements)(const shmt__weight_grad_args* s, const T* image, const T* output, T* sums,
                                     const int64_t* offset, int64_t n, int64_t begin, int64_t end,
                                     const int n_vectors) {
  enum { FEW_ELEMENTS = SHMT_WEIGHT_GRAD_ELEMENTS / 2 };

  if (n > FEW_ELEMENTS && (n_vectors == 1 || ELEMENTS == SHMT_WEIGHT_GRAD_ELEMENTS)) {
    FN(weight_grad_tile)(s, image, output, sums, offset, begin, end, SHMT_WEIGHT_GRAD_ELEMENTS, n_vectors,
                         FN(broadcast), (FN(lane_indices)){0});
    return;
  }
  for (int64_t e = 0; e < n && e < SHMT_WEIGHT_GRAD_ELEMENTS; e += FEW_ELEMENTS)
    FN(weight_grad_tile)(s, image, output, sums + e * s->pitch, offset + e, begin, end, FEW_ELEMENTS, n_vectors,
                         FN(broadcast), (FN(lane_indices)){0});
}

/* Rows of outputs that are summed in registers. */
INLINE int64_t FN(rows_of_chunk)(const shmt__weight_grad_args* s) {
  return s->n[3] < FN(chunk) ? FN(chunk) / s->n[3] : 1;
}

/* data: sums, images, outputs; n: elements of a filter from the first on; ctx: shmt__weight_grad_args. Sums are
 * written, and offsets read, up to a multiple of SHMT_WEIGHT_GRAD_ELEMENTS. */
void SHMT_LOOP(conv_weight_grad_nhwc)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__weight_grad_args* s = ctx;
  T* sums = (T*)(void*)data[0];
  const T *image = (const T*)(const void*)data[1], *output = (const T*)(const void*)data[2];
  const int64_t rows = s->n[0] * s->n[1] * s->n[2], chunk = FN(rows_of_chunk)(s);

  (void)strides;
  for (int64_t r = 0; r < rows; r += chunk) {
    const int64_t end = r + chunk < rows ? r + chunk : rows;
    for (int64_t f = 0, some; f < s->filters; f += some * FN(lanes)) {
      const int64_t vectors = (s->filters - f) / FN(lanes);
      some = vectors == 4 ? 2 : vectors < 3 ? vectors : 3;
      for (int64_t e = 0; e < n; e += SHMT_WEIGHT_GRAD_ELEMENTS) {
        T* const to = sums + e * s->pitch + f;
        if (some == 1)
          FN(weight_grad_elements)(s, image, output + f, to, s->offset + e, n - e, r, end, 1);
        else if (some == 2)
          FN(weight_grad_elements)(s, image, output + f, to, s->offset + e, n - e, r, end, 2);
        else
          FN(weight_grad_elements)(s, image, output + f, to, s->offset + e, n - e, r, end, 3);
      }
    }
  }
}

/* Sums of the n elements of a kernel, for one channel of each filter. */
INLINE void FN(weight_grad_positions)(const shmt__weight_grad_args* s, const T* image, const T* output, T* sums,
                                      int64_t n, int64_t begin, int64_t end, const int what, FN(lane_indices) lanes) {
  enum { GROUPED_ELEMENTS = SHMT_WEIGHT_GRAD_ELEMENTS_GROUPED, FEW_ELEMENTS = 4 };

  for (int64_t e = 0; e < n; e += GROUPED_ELEMENTS) {
    T* const to = sums + e * s->pitch;
    if (n - e > FEW_ELEMENTS)
      FN(weight_grad_tile)(s, image, output, to, s->offset + e, begin, end, GROUPED_ELEMENTS, 1, what, lanes);
    else
      FN(weight_grad_tile)(s, image, output, to, s->offset + e, begin, end, FEW_ELEMENTS, 1, what, lanes);
  }
}

/* The same for groups of s->channels filters and channels: Note [Grouped NHWC convolution] in
 * kernels/conv/filter_vectors.tmpl.h. n: elements of a kernel; each channel of a group has as many rows of sums,
 * rounded up to a multiple of SHMT_WEIGHT_GRAD_ELEMENTS_GROUPED. */
void SHMT_LOOP(conv_weight_grad_grouped)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  enum { GROUPED_ELEMENTS = SHMT_WEIGHT_GRAD_ELEMENTS_GROUPED };
  const shmt__weight_grad_args* s = ctx;
  T* sums = (T*)(void*)data[0];
  const T *image = (const T*)(const void*)data[1], *output = (const T*)(const void*)data[2];
  const int64_t rows = s->n[0] * s->n[1] * s->n[2], chunk = FN(rows_of_chunk)(s);
  const int64_t of_channel = (n + GROUPED_ELEMENTS - 1) / GROUPED_ELEMENTS * GROUPED_ELEMENTS * s->pitch;

  (void)strides;
  for (int64_t r = 0; r < rows; r += chunk) {
    const int64_t end = r + chunk < rows ? r + chunk : rows;
    for (int64_t f = 0; f < s->filters; f += FN(lanes)) {
      FN(lane_indices) lanes = FN(first_channel_lanes)(s->channels);
      if (s->channels == 1) {
        FN(weight_grad_positions)(s, image + f, output + f, sums + f, n, r, end, FN(own_channel), lanes);
        continue;
      }
      for (int64_t channel = 0; channel < s->channels; channel++, lanes += 1) {
        T* const to = sums + f + channel * of_channel;
        if (s->channels == FN(lanes))
          FN(weight_grad_positions)(s, image + f + channel, output + f, to, n, r, end, FN(broadcast), lanes);
        else
          FN(weight_grad_positions)(s, image + f, output + f, to, n, r, end, FN(shuffled), lanes);
      }
    }
  }
}
#undef INLINE
#undef MOST_ELEMENTS
#undef ELEMENTS
#pragma GCC pop_options
