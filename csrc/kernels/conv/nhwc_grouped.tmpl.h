/* kernels/conv/nhwc_grouped.tmpl.h -- convolution of images whose channels are neighbours, in groups of one filter or a few, one dtype.
 *
 * As Note [Pixels] in kernels/conv/nhwc.tmpl.h, but for vectors of filters of several groups.
 */
#include "kernels/loops.h"
#include "kernels/conv/nhwc.h"

#include <string.h>

/* Products of a tile are added unrounded where the processor can. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#include "kernels/conv/nhwc_offsets.tmpl.h"

/* n_pixels outputs of n_vectors vectors of filters, as in Note [Groups of pixels]. */
INLINE void FN(tile_of_groups)(const shmt__pixels_shape* s, const FN(windows) * w, FN(places) first, const T* image,
                               const T* weight, const T* bias, T* to, int64_t pitch, bool are_inside, bool are_alone,
                               const int n_pixels, const int n_vectors) {
  const shmt__conv_shape* c = s->conv;
  FN(vector) sum[MOST_PIXELS][FN(vectors)] = {{{0}}};
  const T* from[MOST_PIXELS];

  for (int64_t h = 0; h < c->kernel[1]; h++) {
    for (int64_t k = 0; k < c->kernel[2]; k++, weight += s->place_step) {
      const int64_t at = h * c->dilation[1] * s->step[1] + k * c->dilation[2] * s->step[2];
      const T* row = weight;
      FN(places) moved = first;
#pragma GCC unroll 16
      for (int i = 0; i < n_pixels; i++)
        from[i] = are_inside || (FN(is_inside)(c, 1, w->place[1][i] + h * c->dilation[1]) &&
                                 FN(is_inside)(c, 2, w->place[2][i] + k * c->dilation[2]))
                      ? image + (w->at[i] + at)
                      : NULL;
      for (int64_t channel = 0; channel < (are_alone ? 1 : s->channels); channel++, row += s->channel_step, moved += 1) {
        FN(vector) factor[FN(vectors)] = {{0}};
#pragma GCC unroll 3
        for (int v = 0; v < n_vectors; v++) factor[v] = FN(load_vector)(row + v * FN(lanes));
#pragma GCC unroll 16
        for (int i = 0; i < n_pixels; i++) {
          if (!are_inside && !from[i]) continue;
#pragma GCC unroll 3
          for (int v = 0; v < n_vectors; v++) {
            const FN(vector) x = FN(load_vector)(from[i] + v * FN(lanes));
            sum[i][v] += (are_alone ? x : __builtin_shuffle(x, moved)) * factor[v];
          }
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < n_pixels; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < n_vectors; v++) {
      const FN(vector) done = s->bias ? sum[i][v] + FN(load_vector)(bias + v * FN(lanes)) : sum[i][v];
      memcpy(to + i * pitch + v * FN(lanes), &done, sizeof done);
    }
  }
}

/* `some` outputs, at most PIXELS, of n_vectors vectors. */
INLINE void FN(put_groups)(const shmt__pixels_shape* s, const FN(windows) * w, FN(places) first, const T* image,
                           const T* weight, const T* bias, T* to, int64_t some, bool are_inside, bool are_alone,
                           const int n_vectors) {
  const bool is_whole = some == PIXELS;
  const int64_t filters = n_vectors * FN(lanes), pitch = is_whole ? s->pitch : filters;
  T made[PIXELS * FN(vectors) * FN(lanes)];
  T* const out = is_whole ? to : made;

  if (are_inside)
    FN(tile_of_groups)(s, w, first, image, weight, bias, out, pitch, true, are_alone, PIXELS, n_vectors);
  else
    FN(tile_of_groups)(s, w, first, image, weight, bias, out, pitch, false, are_alone, PIXELS, n_vectors);
  for (int64_t i = 0; !is_whole && i < some; i++) memcpy(to + i * s->pitch, made + i * filters, (size_t)filters * sizeof(T));
}

INLINE void FN(groups)(const shmt__pixels_shape* s, const T* image, const T* weight, const T* bias, T* to, int64_t n,
                       bool are_alone) {
  const FN(places) first = FN(first_places)(s->channels);
  FN(cursor) at = FN(cursor_at)(s);

  for (int64_t q = 0; q < n; q += PIXELS, to += PIXELS * s->pitch) {
    const int64_t some = n - q < PIXELS ? n - q : PIXELS;
    FN(windows) windows;
    const bool are_inside = FN(next_windows)(s, some, &at, &windows, PIXELS);
    int64_t f = 0;
    for (; f + 2 * FN(lanes) <= s->filters; f += 2 * FN(lanes))
      FN(put_groups)(s, &windows, first, image + f, weight + f, bias + f, to + f, some, are_inside, are_alone, 2);
    for (; f < s->filters; f += FN(lanes)) {
      /* The last vector goes over groups again. */
      if (f + FN(lanes) > s->filters) f = s->filters - FN(lanes);
      FN(put_groups)(s, &windows, first, image + f, weight + f, bias + f, to + f, some, are_inside, are_alone, 1);
    }
  }
}

/* Groups of s->channels filters and channels. data: outputs of s->filters, SHMT_PIXELS_LANES at least, images, weights in rows
 * of all filters; n: outputs; ctx: shmt__pixels_shape, of planes. */
void SHMT_LOOP(group_pixels)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__pixels_shape* s = ctx;
  T* to = (T*)(void*)data[0];
  const T *image = (const T*)(const void*)data[1], *weight = (const T*)(const void*)data[2];
  const T* bias = s->bias ? s->bias : weight;

  (void)strides;
  if (s->channels == 1)
    FN(groups)(s, image, weight, bias, to, n, true);
  else
    FN(groups)(s, image, weight, bias, to, n, false);
}
#undef INLINE
#undef MOST_PIXELS
#undef PIXELS
#undef VECTOR_BYTES
#pragma GCC pop_options
