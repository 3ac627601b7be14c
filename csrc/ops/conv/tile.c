/* ops/conv/tile.c -- tiles of outputs, and their input: Note [Tiles of outputs] in ops/conv/tile.h. */
#include "ops/conv/tile.h"

#include "base/scalar.h"
#include "base/sizes.h"
#include "generated/operator_loops.h"
#include "iter/copy/copy.h"
#include "iter/copy/move.h"

#include <string.h>

/* Positions that are transposed together; pieces of a row that are not cut further. */
enum { POSITIONS_AT_ONCE = 256, SHORT_ROW = 64 };
/* Channels that are gathered together: neighbours that fill a cache line. */
enum { CHANNELS_AT_ONCE = 16 };

static int64_t volume(const int64_t* size) { return size[0] * size[1] * size[2]; }

/* Elements of a channel, with padding, that a tile of this size reads. */
static double inputs(const shmt__conv_shape* s, const int64_t* size) {
  double n = 1;

  for (int d = 0; d < 3; d++) n *= (double)shmt__conv_reach(s, d, size[d]);
  return n;
}

int64_t shmt__conv_tile_size(const shmt__conv* c, int64_t per_input, int64_t per_output, int64_t most, int64_t* size) {
  const shmt__conv_shape* s = &c->shape;
  int64_t n = 1;

  memcpy(size, s->out, 3 * sizeof *size);
  for (int d = 0; d < 3;) {
    if (inputs(s, size) * (double)per_input + (double)(volume(size) * per_output) <= (double)most) break;
    if (size[d] <= (d == 2 ? SHORT_ROW : 1))
      d++;
    else
      size[d] = (size[d] + 1) / 2;
  }
  for (int d = 0; d < 3; d++) n *= shmt__ceil_div(s->out[d], size[d]);
  return n;
}

shmt__conv_tile shmt__conv_tile_at(const shmt__conv* c, const int64_t* size, int64_t i) {
  const shmt__conv_shape* s = &c->shape;
  shmt__conv_tile p = {.shape = *s};
  int64_t plane = 1;

  for (int d = 2; d >= 0; d--) {
    const int64_t n = shmt__ceil_div(s->out[d], size[d]), lo = i % n * size[d];
    p.shape.out[d] = s->out[d] - lo < size[d] ? s->out[d] - lo : size[d];
    const int64_t begin = lo * s->stride[d] - s->padding[d], end = begin + shmt__conv_reach(s, d, p.shape.out[d]);
    p.first[d] = begin > 0 ? begin : 0;
    p.shape.padding[d] = p.first[d] - begin;
    p.shape.in[d] = (end < s->in[d] ? end : s->in[d]) - p.first[d];
    if (p.shape.in[d] <= 0) p.shape.in[d] = p.shape.padding[d] = 0; /* nothing but padding */
    p.at += lo * plane;
    plane *= s->out[d];
    i /= n;
  }
  p.length = volume(p.shape.out);
  return p;
}

/* --- images ------------------------------------------------------------------------- */

bool shmt__conv_reads_in_place(const shmt__conv* c) {
  return c->io_dtype == c->dtype && (c->step[2] == shmt__dtype_size[c->dtype] || c->shape.in[2] == 1);
}

int64_t shmt__conv_gathered_channels(const shmt__conv* c) {
  const int64_t channels = c->channels / c->groups;

  if (shmt__conv_reads_in_place(c)) return 0;
  return channels < CHANNELS_AT_ONCE ? channels : CHANNELS_AT_ONCE;
}

int64_t shmt__conv_tile_input_bytes(const shmt__conv* c, const int64_t* size, int64_t n) {
  int64_t elements = 1;

  if (shmt__conv_reads_in_place(c)) return 0;
  for (int d = 0; d < 3; d++) {
    const int64_t reach = shmt__conv_reach(&c->shape, d, size[d]);
    elements *= reach < c->shape.in[d] ? reach : c->shape.in[d];
  }
  return n * elements * shmt__dtype_size[c->dtype];
}

/* Gather n rows of `length` elements from memory in which the n elements of each position are neighbours. */
static void gather_transposed(const shmt__conv* c, const char* from, int64_t n, int64_t length, char* to,
                              int64_t pitch) {
  const int64_t item = shmt__dtype_size[c->io_dtype], wide = shmt__dtype_size[c->dtype];
  char block[CHANNELS_AT_ONCE * POSITIONS_AT_ONCE * 4]; /* elements that are cast have two or four bytes */

  if (c->io_dtype == c->dtype) {
    shmt__move_transposed(to, pitch, from, c->step[2], n, length, item);
    return;
  }
  for (int64_t i = 0; i < n; i += CHANNELS_AT_ONCE) {
    const int64_t some = n - i < CHANNELS_AT_ONCE ? n - i : CHANNELS_AT_ONCE;
    for (int64_t q = 0; q < length; q += POSITIONS_AT_ONCE) {
      const int64_t run = length - q < POSITIONS_AT_ONCE ? length - q : POSITIONS_AT_ONCE;
      shmt__move_transposed(block, POSITIONS_AT_ONCE * item, from + q * c->step[2] + i * item, c->step[2], some, run,
                            item);
      for (int64_t k = 0; k < some; k++)
        shmt__cast_loop(c->dtype, c->io_dtype)(to + (i + k) * pitch + q * wide, wide,
                                               block + k * POSITIONS_AT_ONCE * item, item, run);
    }
  }
}

/* Gather n channels of a tile, dense. Rows without a gap between them are one row; where channels or rows are
 * neighbours, they are transposed. */
static void gather(const shmt__conv* c, const shmt__conv_tile* p, const char* from, int64_t n, char* to) {
  const int64_t item = shmt__dtype_size[c->io_dtype], wide = shmt__dtype_size[c->dtype], *in = p->shape.in;
  const int64_t pitch = volume(in) * wide;
  const bool is_plane = in[1] == 1 || c->step[1] == in[2] * c->step[2];
  const int64_t run = is_plane ? in[1] * in[2] : in[2], rows = is_plane ? 1 : in[1];

  if (c->step[1] == item && in[1] > 1) {
    for (int64_t i = 0; i < n * in[0]; i++, to += in[1] * in[2] * wide)
      gather_transposed(c, from + i / in[0] * c->channel_step + i % in[0] * c->step[0], in[1], in[2], to, in[2] * wide);
    return;
  }
  for (int64_t d = 0; d < in[0]; d++) {
    for (int64_t h = 0; h < rows; h++, to += run * wide) {
      const char* row = from + d * c->step[0] + h * c->step[1];
      if (c->channel_step == item && n > 1) {
        gather_transposed(c, row, n, run, to, pitch);
        continue;
      }
      for (int64_t i = 0; i < n; i++)
        shmt__cast_loop(c->dtype, c->io_dtype)(to + i * pitch, wide, row + i * c->channel_step, c->step[2], run);
    }
  }
}

const char* shmt__conv_tile_input(const shmt__conv* c, shmt__conv_tile* p, const char* images, int64_t image,
                                  int64_t first, int64_t n, char* room) {
  const int64_t item = shmt__dtype_size[c->io_dtype], *in = p->shape.in;
  const char* from = images + image * c->image_step + first * c->channel_step;

  for (int d = 0; d < 3; d++) from += p->first[d] * c->step[d];
  if (shmt__conv_reads_in_place(c)) {
    memcpy(p->shape.step, (int64_t[]){n == 1 ? 0 : c->channel_step / item, c->step[0] / item, c->step[1] / item},
           sizeof p->shape.step);
    return from;
  }
  shmt__conv_shape_dense(&p->shape);
  if (volume(in) > 0) gather(c, p, from, n, room);
  return room;
}

/* --- weight and outputs ------------------------------------------------------------- */

const char* shmt__conv_cast_weight(const shmt__conv* c, const char* weight, int64_t first, int64_t n, char* room) {
  const int64_t item = shmt__dtype_size[c->io_dtype];

  if (c->io_dtype == c->dtype) return weight + first * item;
  shmt__cast_loop(c->dtype, c->io_dtype)(room, shmt__dtype_size[c->dtype], weight + first * item, item, n);
  return room;
}

void shmt__conv_store_outputs(const shmt__conv* c, char* from, int64_t pitch, int64_t image, int64_t filter, int64_t n,
                              int64_t at, int64_t length, char* output) {
  const int64_t item = shmt__dtype_size[c->io_dtype], wide = shmt__dtype_size[c->dtype], plane = volume(c->shape.out);
  const shmt_scalar one = shmt__scalar_int(1);
  const bool is_narrow = c->io_dtype != c->dtype;

  for (int64_t i = 0; i < n; i++, from += pitch * wide) {
    char* data[3] = {from, from, (char*)(uintptr_t)c->bias + (filter + i) * wide};
    if (c->bias && is_narrow)
      shmt__loops[SHMT_LOOP_add][c->dtype](data, (const int64_t[]){wide, wide, 0}, length, &one);
    shmt__cast_loop(c->io_dtype, c->dtype)(output + ((image * c->filters + filter + i) * plane + at) * item, item, from,
                                           wide, length);
  }
}
