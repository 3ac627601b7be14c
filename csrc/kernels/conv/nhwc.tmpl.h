/* kernels/conv/nhwc.tmpl.h -- NHWC convolution, one dtype.
 *
 * Note [NHWC convolution]
 * In an NHWC output the filters are neighbours, so a vector holds filters. The kernel multiplies one element of the
 * input by the row of weights that belongs to it, and keeps the sums of a tile of several outputs by several vectors in
 * registers. The input is read where it lies, through pointers; in the padding they point to zeros. Only the weights
 * are packed. Where no patch of a tile reaches into the padding, and the positions under a row of the kernel follow
 * each other in memory, that row is one run.
 */
#include "kernels/template.h"
#include "kernels/conv/nhwc.h"

#include <string.h>

/* Fused multiply-add where the processor has it. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"

#include "kernels/conv/nhwc_offsets.tmpl.h"

/* sum += element p of each input times a row of weights. */
INLINE void FN(add_element)(FN(vector) (*sum)[FN(vectors)], const T* const* from, int64_t p, const T* weight,
                            const int n_outputs, const int n_vectors) {
  FN(vector) w[FN(vectors)] = {{0}};

#pragma GCC unroll 3
  for (int v = 0; v < n_vectors; v++) w[v] = FN(load_vector)(weight + v * FN(lanes));
#pragma GCC unroll 16
  for (int i = 0; i < n_outputs; i++) {
    const T x = from[i][p];
#pragma GCC unroll 3
    for (int v = 0; v < n_vectors; v++) sum[i][v] += x * w[v];
  }
}

/* The same for n elements. */
INLINE void FN(add_run)(FN(vector) (*sum)[FN(vectors)], const T* const* from, const T* weight, int64_t row, int64_t n,
                        const int n_outputs, const int n_vectors) {
  int64_t p = 0;

  for (; p + 4 <= n; p += 4)
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) FN(add_element)(sum, from, p + k, weight + (p + k) * row, n_outputs, n_vectors);
  for (; p < n; p++) FN(add_element)(sum, from, p, weight + p * row, n_outputs, n_vectors);
}

/* n_outputs outputs, `pitch` elements apart, of n_vectors vectors of filters; are_inside: no patch reaches into the
 * padding. */
INLINE void FN(tile)(const shmt__conv_nhwc_args* s, const FN(patches) * w, const T* image, const T* weight,
                     const T* bias, T* to, int64_t pitch, bool are_inside, const int n_outputs, const int n_vectors) {
  const shmt__conv_shape* c = s->conv;
  const int64_t wide = c->kernel[2], channels = s->channels;
  const bool is_run = are_inside && (wide == 1 || (s->step[2] * c->dilation[2] == channels &&
                                                   s->position_step == channels * s->channel_step));
  const T* from[MOST_OUTPUTS];
  FN(vector) sum[MOST_OUTPUTS][FN(vectors)];

#pragma GCC unroll 16
  for (int i = 0; i < n_outputs; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < n_vectors; v++)
      sum[i][v] = s->adds ? FN(load_vector)(to + i * pitch + v * FN(lanes)) : (FN(vector)){0};
  }
  for (int64_t r = 0, d = s->begin[0], h = s->begin[1]; r < s->rows; r++) {
    const int64_t line = d * c->dilation[0] * s->step[0] + h * c->dilation[1] * s->step[1];
    const int64_t runs = is_run ? 1 : wide, length = is_run ? wide * channels : channels;
    for (int64_t k = 0; k < runs; k++, weight += s->position_step) {
      const int64_t at = line + k * c->dilation[2] * s->step[2];
#pragma GCC unroll 16
      for (int i = 0; i < n_outputs; i++)
        from[i] = are_inside || (FN(is_inside)(c, 0, w->position[0][i] + d * c->dilation[0]) &&
                                 FN(is_inside)(c, 1, w->position[1][i] + h * c->dilation[1]) &&
                                 FN(is_inside)(c, 2, w->position[2][i] + k * c->dilation[2]))
                      ? image + (w->at[i] + at)
                      : (const T*)s->zeros;
      FN(add_run)(sum, from, weight, s->channel_step, length, n_outputs, n_vectors);
    }
    weight += (wide - runs) * s->position_step;
    if (++h < c->kernel[1]) continue;
    h = 0;
    d++;
  }
#pragma GCC unroll 16
  for (int i = 0; i < n_outputs; i++) {
#pragma GCC unroll 3
    for (int v = 0; v < n_vectors; v++) {
      /* The address of one vector: that of the array would force it into memory. */
      const FN(vector) done = s->bias ? sum[i][v] + FN(load_vector)(bias + v * FN(lanes)) : sum[i][v];
      memcpy(to + i * pitch + v * FN(lanes), &done, sizeof done);
    }
  }
}

/* n outputs of n_vectors vectors, the last of which may have fewer filters. */
INLINE void FN(tiles)(const shmt__conv_nhwc_args* s, const T* image, const T* weight, const T* bias, T* to, int64_t n,
                      int64_t filters, const int n_outputs, const int n_vectors) {
  const int64_t step = n_outputs * s->conv->stride[2] * s->step[2];
  FN(cursor) at = FN(cursor_at)(s);

  for (int64_t q = 0; q < n; q += n_outputs, to += n_outputs * s->pitch) {
    const int64_t some = n - q < n_outputs ? n - q : n_outputs;
    FN(patches) patches;
    const bool are_inside = FN(next_patches)(s, some, &at, &patches, n_outputs);
    const bool is_whole = some == n_outputs && filters == n_vectors * FN(lanes);
    /* A tile that is not whole is made in a buffer. */
    T made[MOST_OUTPUTS * FN(vectors) * FN(lanes)];
    const int64_t pitch = is_whole ? s->pitch : FN(vectors) * FN(lanes);
    if (!is_whole && s->adds) {
      memset(made, 0, sizeof made);
      for (int64_t i = 0; i < some; i++) memcpy(made + i * pitch, to + i * s->pitch, (size_t)filters * sizeof(T));
    }
    for (;;) {
      FN(tile)(s, &patches, image, weight, bias, is_whole ? to : made, pitch, are_inside, n_outputs, n_vectors);
      /* The next outputs of the row: all patches move by one step. */
      if (!is_whole || !are_inside || q + 2 * n_outputs > n || at.out[2] == 0 || at.out[2] + n_outputs > at.end) break;
      for (int k = 0; k < n_outputs; k++) patches.at[k] += step;
      FN(advance)(s->conv, &at, n_outputs);
      q += n_outputs;
      to += n_outputs * s->pitch;
    }
    for (int64_t i = 0; !is_whole && i < some; i++)
      memcpy(to + i * s->pitch, made + i * pitch, (size_t)filters * sizeof(T));
  }
}

/* data: outputs of s->filters, images, weights in rows of as many filters rounded up; n: outputs; ctx:
 * shmt__conv_nhwc_args. */
void SHMT_LOOP(conv_nhwc)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {
  const shmt__conv_nhwc_args* s = ctx;
  T* to = (T*)(void*)data[0];
  const T *image = (const T*)(const void*)data[1], *weight = (const T*)(const void*)data[2];
  /* Without a bias this is not read. */
  const T* bias = s->bias ? s->bias : weight;

  (void)strides;
  for (int64_t f = 0, some; f < s->filters; f += some * FN(lanes)) {
    const int64_t left = s->filters - f, vectors = (left + FN(lanes) - 1) / FN(lanes);
    /* Four vectors are 2 + 2, not 3 + 1. */
    some = vectors == 4 ? 2 : vectors < 3 ? vectors : 3;
    const int64_t filters = left < some * FN(lanes) ? left : some * FN(lanes);
    if (some == 1)
      FN(tiles)(s, image, weight + f, bias + f, to + f, n, filters, MOST_OUTPUTS, 1);
    else if (some == 2)
      FN(tiles)(s, image, weight + f, bias + f, to + f, n, filters, OUTPUTS, 2);
    else
      FN(tiles)(s, image, weight + f, bias + f, to + f, n, filters, OUTPUTS, 3);
  }
}
#undef INLINE
#undef MOST_OUTPUTS
#undef OUTPUTS
#pragma GCC pop_options
