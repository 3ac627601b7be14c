/* ops/conv/backward/weight_grad_nhwc.c -- the gradient of a convolution's weight: boxes of images and outputs, work for the threads.
 *
 * All threads work on one box of outputs at a time: it is laid out, and what its windows reach with the padding, so that
 * channels are neighbours; both are widened on the way. Threads share out the elements of filters. The sums of some channels
 * are at hand at a time, those of a block of filters beside each other, and are written to the weight at the end.
 */
#include "ops/conv/backward/weight_grad_nhwc.h"

#include "generated/loops.h"
#include "iter/threads.h"
#include "kernels/conv/nhwc.h"
#include "kernels/conv/weight_grad_nhwc.h"
#include "ops/conv/nhwc/grouped.h"
#include "ops/conv/tile.h"
#include "ops/matmul/gemm_amx.h"
#include "storage/allocator.h"

#include <string.h>

enum {
  PART_BYTES = 384 << 10,     /* of what is laid out */
  SUM_BYTES = 768 << 10,
  FEW_FILTERS = 8,            /* which leave tiles and vectors half empty */
  MOST_CHANNELS = 128,        /* at hand, that have a filter each */
  WORTH_SHARING = 1 << 18,    /* multiplications */
  LINE = 64,
};

typedef struct job {
  const shmt__conv* c;
  const shmt__planes *images, *outputs;
  char* weight;
  bool is_last, is_apart;            /* is_apart: groups lie side by side, in rows of sums for each of their channels */
  int64_t item, size, k;             /* size: elements of a kernel; k: of a filter */
  int64_t channels, filters;         /* of a group */
  int64_t block, n_blocks;           /* filters side by side, of SHMT_PIXELS_LANES; blocks of a group, or of what is at hand */
  int64_t some_channels;             /* at hand, at most */
  int64_t part[3], n_parts, some;    /* outputs at hand, of an image, and images */
  int64_t first_filter, n_filters, first_channel, n_channels; /* at hand */
  int64_t n, rows;                   /* elements of filters at hand, where those are apart of a kernel; rows of a block's sums */
  int64_t places;                    /* outputs at hand */
  shmt__weigh_shape shape;
  int64_t* offset;
  char *image, *output, *sums;
  int64_t image_bytes, output_bytes, sum_bytes;
} job;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t at_least(int64_t a, int64_t least) { return a > least ? a : least; }
static int64_t volume(const int64_t* n) { return n[0] * n[1] * n[2]; }

/* Are vectors of filters of several groups? */
static bool is_apart(const shmt__conv* c) {
  return c->filters == c->channels && (shmt__conv_is_depthwise(c) || shmt__conv_has_vectors(c));
}

bool shmt__conv_is_weighed(const shmt__conv* c, const shmt__planes* images) {
  const shmt__conv_shape* s = &c->shape;
  double reach = (double)c->channels / (double)c->groups * (double)shmt__dtype_size[c->dtype];

  for (int d = 0; d < 3; d++) reach *= (double)shmt__conv_reach(s, d, 1);
  const int64_t filters = c->filters / c->groups;
  const bool are_planes = images->stride[1] != shmt__dtype_size[c->given];
  if (shmt__conv_is_depthwise(c) || (is_apart(c) && !are_planes))
    return is_apart(c) && reach / (double)filters <= PART_BYTES / SHMT_PIXELS_LANES;
  /* Few filters leave vectors nearly empty; tiles are faster, but where their columns would have to be made of pixels. */
  if (are_planes && filters < FEW_FILTERS) return false;
  if (c->given == SHMT_BFLOAT16 && shmt__gemm_has_tiles() && (are_planes || filters > FEW_FILTERS)) return false;
  return shmt__loops[SHMT_LOOP_conv_weigh][c->dtype] && volume(s->kernel) > 1 && shmt__conv_is_near(c) &&
         reach <= PART_BYTES;
}

/* --- boxes -------------------------------------------------------------------------- */

/* Elements of a pixel that is laid out. */
static int64_t pixel_of(const job* j) {
  return j->is_apart ? round_up(j->some_channels, SHMT_PIXELS_LANES) : j->some_channels;
}

/* Rows of sums for n elements. */
static int64_t rows_of(const job* j, int64_t n) {
  return round_up(n, j->is_apart ? SHMT_WEIGH_ELEMENTS_APART : SHMT_WEIGH_ELEMENTS);
}

/* Lay out what n images from the first on have in the windows of a part. */
static void lay_images(job* j, const shmt__conv_part* p, int64_t first, int64_t n) {
  const shmt__conv_shape* s = &p->shape;
  const int64_t pixel = pixel_of(j), number[5] = {n, j->n_channels, s->in[0], s->in[1], s->in[2]};
  int64_t reach[5] = {n, pixel};
  bool is_whole = pixel == j->n_channels;

  for (int d = 0; d < 3; d++) {
    reach[2 + d] = shmt__conv_reach(s, d, s->out[d]);
    is_whole = is_whole && reach[2 + d] == s->in[d];
  }
  shmt__planes to = shmt__planes_of_pixels(j->image, j->c->dtype, reach);
  if (!is_whole) memset(j->image, 0, (size_t)(n * pixel * volume(reach + 2) * j->item));
  j->shape.step[0] = to.stride[0] / j->item;
  for (int d = 0; d < 3; d++) j->shape.step[1 + d] = to.stride[2 + d] / j->item * s->stride[d];
  for (int64_t e = 0; e < rows_of(j, j->n); e++) {
    const int64_t at = smaller(e, j->n - 1);
    const int64_t channel = j->is_apart ? 0 : j->is_last ? at % j->n_channels : at / j->size;
    const int64_t place = j->is_apart ? at : j->is_last ? at / j->n_channels : at % j->size;
    const int64_t w = place % s->kernel[2], h = place / s->kernel[2] % s->kernel[1];
    const int64_t d = place / (s->kernel[2] * s->kernel[1]);
    j->offset[e] = channel + (d * s->dilation[0] * to.stride[2] + h * s->dilation[1] * to.stride[3] +
                              w * s->dilation[2] * to.stride[4]) / j->item;
  }
  if (volume(s->in) == 0) return; /* nothing but padding */
  to = shmt__planes_at(&to, (int64_t[]){0, 0, s->padding[0], s->padding[1], s->padding[2]});
  const shmt__planes from = shmt__planes_at(j->images, (int64_t[]){first, j->first_channel, p->first[0], p->first[1], p->first[2]});
  shmt__planes_copy_shared(&to, &from, number);
}

/* Lay out the outputs of a part, block beside block of filters. */
static void lay_outputs(job* j, const shmt__conv_part* p, int64_t first, int64_t n) {
  const int64_t *out = p->shape.out, *whole = j->c->shape.out;
  const int64_t at[5] = {first, j->first_filter, p->at / (whole[1] * whole[2]), p->at / whole[2] % whole[1], p->at % whole[2]};
  const shmt__planes box = shmt__planes_at(j->outputs, at);

  memcpy(j->shape.n, (int64_t[]){n, out[0], out[1], out[2]}, sizeof j->shape.n);
  j->places = n * p->length;
  for (int64_t b = 0; b < j->n_blocks; b++) {
    const int64_t filters = smaller(j->block, j->n_filters - b * j->block);
    char* const data = j->output + b * j->places * j->block * j->item;
    const shmt__planes to = shmt__planes_of_pixels(data, j->c->dtype, (int64_t[]){n, j->block, out[0], out[1], out[2]});
    const shmt__planes from = shmt__planes_at(&box, (int64_t[]){0, b * j->block, 0, 0, 0});
    if (filters < j->block) memset(data, 0, (size_t)(j->places * j->block * j->item));
    shmt__planes_copy_shared(&to, &from, (int64_t[]){n, filters, out[0], out[1], out[2]});
  }
}

/* --- sums --------------------------------------------------------------------------- */

/* Tiles of elements, counted through the blocks of filters. */
static void run_elements(void* ctx, int64_t begin, int64_t end) {
  const job* j = ctx;
  const int64_t tiles = ceil_div(j->n, SHMT_WEIGH_ELEMENTS);
  shmt__weigh_shape s = j->shape;

  for (int64_t u = begin, some; u < end; u += some) {
    const int64_t b = u / tiles, first = u % tiles * SHMT_WEIGH_ELEMENTS;
    some = smaller(tiles - u % tiles, end - u);
    char* data[3] = {j->sums + (b * j->rows + first) * j->block * j->item, j->image,
                     j->output + b * j->places * j->block * j->item};
    s.offset = j->offset + first;
    shmt__loops[SHMT_LOOP_conv_weigh][j->c->dtype](data, NULL, smaller(some * SHMT_WEIGH_ELEMENTS, j->n - first), &s);
  }
}

/* Vectors of channels. */
static void run_channels(void* ctx, int64_t begin, int64_t end) {
  const job* j = ctx;
  const int64_t at = begin * SHMT_PIXELS_LANES * j->item;
  shmt__weigh_shape s = j->shape;
  char* data[3] = {j->sums + at, j->image + at, j->output + at};

  s.filters = (end - begin) * SHMT_PIXELS_LANES;
  shmt__loops[SHMT_LOOP_group_weigh][j->c->dtype](data, NULL, j->n, &s);
}

/* Sums of the filters at hand, whose groups lie side by side, to the weight. */
static void put_apart(const job* j) {
  const int64_t given = shmt__dtype_size[j->c->given], row = j->block * j->item;
  const int64_t channel = j->is_last ? 1 : j->size, place = j->is_last ? j->channels : 1;

  for (int64_t i = 0; i < j->channels; i++) {
    const shmt__planes to = {j->weight + (j->first_filter * j->k + i * channel) * given, j->c->given,
                             {0, j->k * given, 0, 0, place * given}};
    const shmt__planes from = {j->sums + i * rows_of(j, j->size) * row, j->c->dtype, {0, j->item, 0, 0, row}};
    shmt__planes_copy(&to, &from, (int64_t[]){1, j->n_filters, 1, 1, j->size});
  }
}

/* Sums of the filters and channels at hand to the weight. */
static void put_sums(const job* j) {
  const int64_t given = shmt__dtype_size[j->c->given];
  const int64_t pieces = j->is_last && j->n_channels < j->channels ? j->size : 1, run = j->n / pieces;

  for (int64_t b = 0; b < j->n_blocks; b++) {
    const int64_t filter = j->first_filter + b * j->block, filters = smaller(j->block, j->n_filters - b * j->block);
    for (int64_t i = 0; i < pieces; i++) {
      const int64_t channel = j->first_channel % j->channels;
      const int64_t at = j->is_last ? i * j->channels + channel : channel * j->size;
      const shmt__planes to = {j->weight + (filter * j->k + at) * given, j->c->given, {0, j->k * given, 0, 0, given}};
      const shmt__planes from = {j->sums + (b * j->rows + i * run) * j->block * j->item, j->c->dtype,
                                 {0, j->item, 0, 0, j->block * j->item}};
      shmt__planes_copy(&to, &from, (int64_t[]){1, filters, 1, 1, run});
    }
  }
}

/* The gradient of the filters and channels at hand. */
static void weigh(job* j) {
  const shmt__conv* c = j->c;

  j->n = j->is_apart ? j->size : j->n_channels * j->size;
  j->rows = rows_of(j, j->n) * (j->is_apart ? j->channels : 1);
  j->shape.offset = j->offset;
  j->shape.channels = j->channels;
  j->shape.filters = j->shape.pitch = j->block;
  for (int64_t i = 0; i < c->n_images; i += j->some) {
    const int64_t n = smaller(j->some, c->n_images - i);
    for (int64_t p = 0; p < j->n_parts; p++) {
      const shmt__conv_part part = shmt__conv_part_at(c, j->part, p);
      lay_images(j, &part, i, n);
      lay_outputs(j, &part, i, n);
      j->shape.adds = i + p > 0;
      if (j->is_apart)
        shmt__parallel_for(j->block / SHMT_PIXELS_LANES, WORTH_SHARING / (SHMT_PIXELS_LANES * j->k * j->places) + 1,
                           run_channels, j);
      else
        shmt__parallel_for(j->n_blocks * ceil_div(j->n, SHMT_WEIGH_ELEMENTS),
                           WORTH_SHARING / (SHMT_WEIGH_ELEMENTS * j->block * j->places) + 1, run_elements, j);
    }
  }
  (j->is_apart ? put_apart : put_sums)(j);
}

/* --- all ---------------------------------------------------------------------------- */

static void plan(job* j) {
  const shmt__conv* c = j->c;
  const int64_t vectors = ceil_div(j->filters, SHMT_PIXELS_LANES), each = j->size * j->item;

  if (j->is_apart) {
    j->some_channels = ceil_div(c->channels, ceil_div(c->channels, MOST_CHANNELS));
    j->some_channels = smaller(round_up(j->some_channels, SHMT_PIXELS_LANES), c->channels);
    j->n_blocks = 1;
    j->block = pixel_of(j);
  } else {
    j->n_blocks = ceil_div(vectors, SHMT_PIXELS_FILTERS / SHMT_PIXELS_LANES);
    j->block = ceil_div(vectors, j->n_blocks) * SHMT_PIXELS_LANES;
    j->n_blocks = ceil_div(j->filters, j->block);
    const int64_t fit = at_least(SUM_BYTES / (each * j->n_blocks * j->block), 1);
    j->some_channels = ceil_div(j->channels, ceil_div(j->channels, fit));
  }
  const int64_t filters = j->n_blocks * j->block;
  j->n_parts = shmt__conv_split(c, pixel_of(j) * j->item, filters * j->item, PART_BYTES, j->part);
  int64_t reach = pixel_of(j);
  for (int d = 0; d < 3; d++) reach *= shmt__conv_reach(&c->shape, d, j->part[d]);
  const int64_t image = (reach + volume(j->part) * filters) * j->item;
  j->some = j->n_parts == 1 ? at_least(smaller(PART_BYTES / image, c->n_images), 1) : 1;
  j->some = ceil_div(c->n_images, ceil_div(c->n_images, j->some));
  j->rows = j->is_apart ? rows_of(j, j->size) * j->channels : rows_of(j, j->some_channels * j->size);
  j->image_bytes = round_up(j->some * reach * j->item, LINE);
  j->output_bytes = round_up(j->some * volume(j->part) * filters * j->item, LINE);
  j->sum_bytes = j->rows * filters * j->item;
}

shmt_status shmt__conv_weigh(const shmt__conv* c, const shmt__planes* images, const shmt__planes* outputs, bool is_last,
                             void* weight) {
  job j = {.c = c, .images = images, .outputs = outputs, .weight = weight, .is_last = is_last, .is_apart = is_apart(c)};
  void* memory = NULL;

  j.item = shmt__dtype_size[c->dtype];
  j.size = volume(c->shape.kernel);
  j.channels = c->channels / c->groups;
  j.filters = c->filters / c->groups;
  j.k = j.channels * j.size;
  plan(&j);
  const uint64_t nbytes = (uint64_t)(j.image_bytes + j.output_bytes + j.sum_bytes + j.rows * (int64_t)sizeof *j.offset);
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  j.image = memory;
  j.output = j.image + j.image_bytes;
  j.sums = j.output + j.output_bytes;
  j.offset = (int64_t*)(void*)(j.sums + j.sum_bytes);
  for (int64_t channel = 0; channel < c->channels; channel += j.n_channels) {
    const int64_t left = j.is_apart ? c->channels - channel : j.channels - channel % j.channels;
    j.first_channel = channel;
    j.n_channels = smaller(j.some_channels, left);
    j.first_filter = j.is_apart ? channel : channel / j.channels * j.filters;
    j.n_filters = j.is_apart ? j.n_channels : j.filters;
    weigh(&j);
  }
  shmt__dealloc(memory, nbytes);
  return SHMT_OK;
}
