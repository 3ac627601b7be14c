/* ops/conv/nhwc/amx_im2col.c -- im2col of bfloat16 NHWC images, into the strips that AMX products read. */
#include "ops/conv/nhwc/amx_im2col.h"

#include "base/overflow.h"
#include "base/sizes.h"

#if defined(__x86_64__)

enum { ITEM = SHMT_VNNI_ITEM, SIDE = SHMT_VNNI_WIDTH, LANES = SHMT_VNNI_LANES, ROW = SIDE * ITEM };

/* Are the patches of a pointwise convolution evenly apart in memory? */
static bool has_even_positions(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  int64_t apart = c->step[2] * s->in[2];

  for (int d = 0; d < 3; d++)
    if (s->kernel[d] != 1 || s->stride[d] != 1 || s->padding[d] != 0 || s->out[d] != s->in[d]) return false;
  for (int d = 1; d >= 0; apart *= s->in[d], d--)
    if (s->in[d] != 1 && c->step[d] != apart) return false;
  return c->n_images == 1 || c->image_step == apart;
}

void shmt__amx_im2col_init(shmt__amx_im2col* w, const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const int64_t channels = c->channels / c->groups;

  *w = (shmt__amx_im2col){.c = c, .pixel = channels * ITEM, .k = channels * s->kernel[0] * s->kernel[1] * s->kernel[2]};
  w->width = shmt__ceil_div(w->k, SIDE) * ROW;
  w->row = s->kernel[2] * w->pixel;
  w->run_step = shmt__wrap_mul_i64(s->dilation[2], c->step[2]); /* of use where there are several positions */
  w->run = w->run_step == w->pixel ? w->row : w->pixel;
  w->vectors = w->run / ROW;
  w->mask = (uint32_t)((UINT64_C(1) << w->run % ROW / ITEM) - 1);
  w->last = s->in[2] - 1 - (s->kernel[2] - 1) * s->dilation[2];
  w->has_even_positions = has_even_positions(c);
}

/* Copy so many vectors of 64 bytes, and the elements of the mask behind them. */
SHMT_VNNI_INLINE void copy_vectors(char* to, const char* from, int64_t vectors, __mmask32 mask) {
  for (int64_t i = 0; i < vectors; i++) _mm512_storeu_si512(to + i * ROW, _mm512_loadu_si512(from + i * ROW));
  _mm512_mask_storeu_epi16(to + vectors * ROW, mask, _mm512_maskz_loadu_epi16(mask, from + vectors * ROW));
}

SHMT_VNNI_INLINE void copy_run(char* to, const char* from, int64_t nbytes) {
  copy_vectors(to, from, nbytes / ROW, shmt__vnni_mask(nbytes % ROW / ITEM));
}

SHMT_VNNI_INLINE void clear_run(char* to, int64_t nbytes) {
  for (; nbytes >= ROW; nbytes -= ROW, to += ROW) _mm512_storeu_si512(to, _mm512_setzero_si512());
  _mm512_mask_storeu_epi16(to, shmt__vnni_mask(nbytes / ITEM), _mm512_setzero_si512());
}

static bool is_inside(const shmt__conv_shape* s, int d, int64_t position) {
  return (uint64_t)position < (uint64_t)s->in[d];
}

/* Copy the patches of n outputs of a row, none of which reaches into the padding along the row: run by run, each of all
 * patches. position: where the first patch begins. */
static SHMT_VNNI_TARGET void copy_patches(const shmt__amx_im2col* w, const char* image, const int64_t* position,
                                          int64_t n, char* to) {
  const shmt__conv* c = w->c;
  const shmt__conv_shape* s = &c->shape;
  const int64_t vectors = w->vectors, n_runs = w->row / w->run, apart = s->stride[2] * c->step[2], row = w->width;
  const __mmask32 mask = w->mask;

  for (int64_t d = 0, z = position[0]; d < s->kernel[0]; d++, z += s->dilation[0]) {
    for (int64_t h = 0, y = position[1]; h < s->kernel[1]; h++, y += s->dilation[1]) {
      const bool is_there = is_inside(s, 0, z) && is_inside(s, 1, y); /* of padding there is no address */
      const char* from = is_there ? image + z * c->step[0] + y * c->step[1] + position[2] * c->step[2] : NULL;
      for (int64_t r = 0; r < n_runs; r++, to += w->run) {
        char* made = to;
        if (is_there) {
          const char* at = from + (r > 0 ? r * w->run_step : 0);
          for (int64_t i = 0; i < n; i++, at += apart, made += row) copy_vectors(made, at, vectors, mask);
        } else {
          for (int64_t i = 0; i < n; i++, made += row) clear_run(made, w->run);
        }
      }
    }
  }
}

/* Copy one patch, which may reach into the padding. */
static SHMT_VNNI_TARGET void copy_patch(const shmt__amx_im2col* w, const char* image, const int64_t* position,
                                        char* to) {
  const shmt__conv* c = w->c;
  const shmt__conv_shape* s = &c->shape;
  const int64_t pixel = w->pixel, wide = s->kernel[2], dilation = s->dilation[2];
  const int64_t before = position[2] < 0 ? shmt__min_i64(shmt__ceil_div(-position[2], dilation), wide) : 0;
  const int64_t end = shmt__max_i64(
      shmt__min_i64(position[2] < s->in[2] ? shmt__ceil_div(s->in[2] - position[2], dilation) : 0, wide), before);

  for (int64_t d = 0, z = position[0]; d < s->kernel[0]; d++, z += s->dilation[0]) {
    for (int64_t h = 0, y = position[1]; h < s->kernel[1]; h++, y += s->dilation[1], to += w->row) {
      if (!is_inside(s, 0, z) || !is_inside(s, 1, y) || before == end) {
        clear_run(to, w->row);
        continue;
      }
      const char* const line = image + z * c->step[0] + y * c->step[1];
      clear_run(to, before * pixel);
      if (w->run == w->row)
        copy_run(to + before * pixel, line + (position[2] + before * dilation) * c->step[2], (end - before) * pixel);
      else
        for (int64_t r = before; r < end; r++)
          copy_run(to + r * pixel, line + (position[2] + r * dilation) * c->step[2], pixel);
      clear_run(to + end * pixel, (wide - end) * pixel);
    }
  }
}

SHMT_VNNI_TARGET shmt__amx_strip shmt__amx_im2col_strip(const shmt__amx_im2col* w, const char* images, int64_t first,
                                                        int64_t rows, char* room) {
  const shmt__conv* c = w->c;
  const shmt__conv_shape* s = &c->shape;
  const int64_t *out = s->out, plane = out[1] * out[2], volume = out[0] * plane, row = w->width;
  const char* image = images + first / volume * c->image_step;
  int64_t at[3] = {first % volume / plane, first / out[2] % out[1], first % out[2]};

  if (w->has_even_positions) {
    const char* const from = images + first * c->step[2];
    if (w->k % SIDE == 0 && (rows == SIDE || rows == LANES))
      return (shmt__amx_strip){from, c->step[2], ROW, rows};
    for (int64_t i = 0; i < rows; i++) copy_vectors(room + i * row, from + i * c->step[2], w->vectors, w->mask);
    return (shmt__amx_strip){room, row, ROW, rows};
  }
  for (int64_t i = 0, run; i < rows; i += run) {
    int64_t position[3];
    run = shmt__min_i64(out[2] - at[2], rows - i);
    for (int d = 0; d < 3; d++) position[d] = at[d] * s->stride[d] - s->padding[d];
    for (int64_t k = i, end = i + run, n; k < end; k += n, position[2] += n * s->stride[2]) {
      n = position[2] >= 0 && position[2] <= w->last
              ? shmt__min_i64(end - k, (w->last - position[2]) / s->stride[2] + 1)
              : 0;
      if (n > 0) {
        copy_patches(w, image, position, n, room + k * row);
      } else {
        copy_patch(w, image, position, room + k * row);
        n = 1;
      }
    }
    if ((at[2] += run) < out[2]) continue;
    at[2] = 0;
    if (++at[1] < out[1]) continue;
    at[1] = 0;
    if (++at[0] < out[0]) continue;
    at[0] = 0;
    image += c->image_step;
  }
  return (shmt__amx_strip){room, row, ROW, rows};
}

#endif
