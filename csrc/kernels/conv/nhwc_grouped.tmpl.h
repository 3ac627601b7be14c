/* kernels/conv/nhwc_grouped.tmpl.h -- NHWC convolution, depthwise or in groups of a few filters, one dtype.
 *
 * Like Note [NHWC convolution] in kernels/conv/nhwc.tmpl.h, but a vector holds the filters of several groups.
 */
#include "kernels/template.h"
#include "kernels/conv/nhwc.h"

#include <string.h>

/* Fused multiply-add where the processor has it. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#include "kernels/conv/nhwc_offsets.tmpl.h"

/* n_outputs outputs of n_vectors vectors of filters, as in Note [Grouped NHWC convolution]. */
INLINE void FN(tile_grouped)(const shmt__conv_nhwc_args* s, const FN(patches) * w, FN(lane_indices) first,
                             const T* image, const T* weight, const T* bias, T* to, int64_t pitch, bool are_inside,
                             bool is_depthwise, const int n_outputs, const int n_vectors) {
  const shmt__conv_shape* c = s->conv;
  FN(vector) sum[MOST_OUTPUTS][FN(vectors)] = {{{0}}};
  const T* from[MOST_OUTPUTS];

  for (int64_t h = 0; h < c->kernel[1]; h++) {
    for (int64_t k = 0; k < c->kernel[2]; k++, weight += s->position_step) {
      const int64_t at = h * c->dilation[1] * s->step[1] + k * c->dilation[2] * s->step[2];
      const T* row = weight;
      FN(lane_indices) moved = first;
#pragma GCC unroll 16
      for (int i = 0; i < n_outputs; i++)
        from[i] = are_inside || (FN(is_inside)(c, 1, w->position[1][i] + h * c->dilation[1]) &&
                                 FN(is_inside)(c, 2, w->position[2][i] + k * c->dilation[2]))
                      ? image + (w->at[i] + at)
                      : NULL;
      for (int64_t channel = 0; channel < (is_depthwise ? 1 : s->channels);
           channel++, row += s->channel_step, moved += 1) {
        FN(vector) factor[FN(vectors)] = {{0}};
#pragma GCC unroll 3
        for (int v = 0; v < n_vectors; v++) factor[v] = FN(load_vector)(row + v * FN(lanes));
#pragma GCC unroll 16
        for (int i = 0; i < n_outputs; i++) {
          if (!are_inside && !from[i]) continue;
#pragma GCC unroll 3
          for (int v = 0; v < n_vectors; v++) {
            const FN(vector) x = FN(load_vector)(from[i] + v * FN(lanes));
            sum[i][v] += (is_depthwise ? x : __builtin_shuffle(x, moved)) * factor[v];
          }
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < n_outputs; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < n_vectors; v++) {
      const FN(vector) done = s->bias ? sum[i][v] + FN(load_vector)(bias + v * FN(lanes)) : sum[i][v];
      memcpy(to + i * pitch + v * FN(lanes), &done, sizeof done);
    }
  }
}

/* `some` outputs, at most OUTPUTS, of n_vectors vectors. */
INLINE void FN(store_grouped)(const shmt__conv_nhwc_args* s, const FN(patches) * w, FN(lane_indices) first,
                              const T* image, const T* weight, const T* bias, T* to, int64_t some, bool are_inside,
                              bool is_depthwise, const int n_vectors) {
  const bool is_whole = some == OUTPUTS;
  const int64_t filters = n_vectors * FN(lanes), pitch = is_whole ? s->pitch : filters;
  T made[OUTPUTS * FN(vectors) * FN(lanes)];
  T* const out = is_whole ? to : made;

  if (are_inside)
    FN(tile_grouped)(s, w, first, image, weight, bias, out, pitch, true, is_depthwise, OUTPUTS, n_vectors);
  else
    FN(tile_grouped)(s, w, first, image, weight, bias, out, pitch, false, is_depthwise, OUTPUTS, n_vectors);
  for (int64_t i = 0; !is_whole && i < some; i++)
    memcpy(to + i * s->pitch, made + i * filters, (size_t)filters * sizeof(T));
}

INLINE void FN(run_grouped)(const shmt__conv_nhwc_args* s, const T* image, const T* weight, const T* bias, T* to,
                            int64_t n, bool is_depthwise) {
  const FN(lane_indices) first = FN(first_channel_lanes)(s->channels);
  FN(cursor) at = FN(cursor_at)(s);

  for (int64_t q = 0; q < n; q += OUTPUTS, to += OUTPUTS * s->pitch) {
    const int64_t some = n - q < OUTPUTS ? n - q : OUTPUTS;
    FN(patches) patches;
    const bool are_inside = FN(next_patches)(s, some, &at, &patches, OUTPUTS);
    int64_t f = 0;
    for (; f + 2 * FN(lanes) <= s->filters; f += 2 * FN(lanes))
      FN(store_grouped)(s, &patches, first, image + f, weight + f, bias + f, to + f, some, are_inside, is_depthwise, 2);
    for (; f < s->filters; f += FN(lanes)) {
      /* The last vector makes some groups again. */
      if (f + FN(lanes) > s->filters) f = s->filters - FN(lanes);
      FN(store_grouped)(s, &patches, first, image + f, weight + f, bias + f, to + f, some, are_inside, is_depthwise, 1);
    }
  }
}

/* Groups of s->channels filters and channels. data: outputs of s->filters (at least SHMT_NHWC_LANES), images, weights
 * in rows of all filters; n: outputs; ctx: shmt__conv_nhwc_args of images with depth 1. */
void SHMT_LOOP(conv_nhwc_grouped)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_nhwc_args* s = ctx;
  T* to = (T*)(void*)data[0];
  const T *image = (const T*)(const void*)data[1], *weight = (const T*)(const void*)data[2];
  const T* bias = s->bias ? s->bias : weight;

  (void)strides;
  if (s->channels == 1)
    FN(run_grouped)(s, image, weight, bias, to, n, true);
  else
    FN(run_grouped)(s, image, weight, bias, to, n, false);
}
#undef INLINE
#undef MOST_OUTPUTS
#undef OUTPUTS
#pragma GCC pop_options
