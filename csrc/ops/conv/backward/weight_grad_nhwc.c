/* ops/conv/backward/weight_grad_nhwc.c -- weight gradient in NHWC.
 *
 * All threads work on one tile of outputs at a time. The tile and its padded input are copied as NHWC, and widened on
 * the way. Threads share out the elements of filters. The sums of some channels are in memory at a time, those of a
 * block of filters beside each other; they are stored in the weight at the end.
 */
#include "ops/conv/backward/weight_grad_nhwc.h"

#include "base/sizes.h"
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
  TILE_BYTES = 384 << 10,     /* of the input and outputs of a tile */
  SUM_BYTES = 768 << 10,      /* of the sums in memory */
  FEW_FILTERS = 8,            /* which leave AMX tiles and vectors half empty */
  MOST_CHANNELS = 128,        /* at a time, of a depthwise convolution */
  WORTH_SHARING = 1 << 18,    /* multiplications that are worth a thread */
  LINE = 64,
};

typedef struct weight_grad_job {
  const shmt__conv* c;
  const shmt__image_view *images, *outputs;
  char* weight;
  bool is_nhwc, is_grouped;  /* is_grouped: a row of sums holds several groups, for one channel of each */
  int64_t item, size, k;     /* size: elements of a kernel; k: of a filter */
  int64_t channels, filters; /* of a group */
  int64_t block,
      n_blocks; /* filters of a row of sums, a multiple of SHMT_NHWC_LANES; blocks of a group, or of all filters */
  int64_t channels_at_once;  /* at most */
  int64_t tile[3], n_tiles, images_at_once; /* outputs of a tile; tiles of an image; images of a tile */
  int64_t first_filter, n_filters, first_channel, n_channels; /* those whose sums are in memory */
  int64_t n, rows;           /* elements of their filters (is_grouped: of a kernel); rows of sums of a block */
  int64_t positions;         /* outputs of the tile */
  shmt__weight_grad_args shape;
  int64_t* offset;
  char *image, *output, *sums;
  int64_t image_bytes, output_bytes, sum_bytes;
} weight_grad_job;

static int64_t volume(const int64_t* n) { return n[0] * n[1] * n[2]; }

/* Does a vector hold filters of several groups? */
static bool is_grouped(const shmt__conv* c) {
  return c->filters == c->channels && (shmt__conv_is_depthwise(c) || shmt__conv_groups_fill_vectors(c));
}

bool shmt__conv_prefers_weight_grad_nhwc(const shmt__conv* c, const shmt__image_view* images) {
  const shmt__conv_shape* s = &c->shape;
  double reach = (double)c->channels / (double)c->groups * (double)shmt__dtype_size[c->dtype];

  for (int d = 0; d < 3; d++) reach *= (double)shmt__conv_reach(s, d, 1);
  const int64_t filters = c->filters / c->groups;
  const bool is_nchw = images->stride[1] != shmt__dtype_size[c->io_dtype];
  if (shmt__conv_is_depthwise(c) || (is_grouped(c) && !is_nchw))
    return is_grouped(c) && reach / (double)filters <= TILE_BYTES / SHMT_NHWC_LANES;
  /* Few filters leave vectors nearly empty. AMX products are faster, except where im2col would read NHWC images. */
  if (is_nchw && filters < FEW_FILTERS) return false;
  if (c->io_dtype == SHMT_BFLOAT16 && shmt__gemm_has_amx() && (is_nchw || filters > FEW_FILTERS)) return false;
  return shmt__loops[SHMT_LOOP_conv_weight_grad_nhwc][c->dtype] && volume(s->kernel) > 1 && shmt__conv_can_pad(c) &&
         reach <= TILE_BYTES;
}

/* --- boxes -------------------------------------------------------------------------- */

/* Elements of a position of the NHWC copy. */
static int64_t pixel_of(const weight_grad_job* j) {
  return j->is_grouped ? shmt__round_up(j->channels_at_once, SHMT_NHWC_LANES) : j->channels_at_once;
}

/* Rows of sums for n elements of filters. */
static int64_t rows_of(const weight_grad_job* j, int64_t n) {
  return shmt__round_up(n, j->is_grouped ? SHMT_WEIGHT_GRAD_ELEMENTS_GROUPED : SHMT_WEIGHT_GRAD_ELEMENTS);
}

/* Copy the input of a tile of n images from the first on, padded. */
static void pack_images(weight_grad_job* j, const shmt__conv_tile* p, int64_t first, int64_t n) {
  const shmt__conv_shape* s = &p->shape;
  const int64_t pixel = pixel_of(j), number[5] = {n, j->n_channels, s->in[0], s->in[1], s->in[2]};
  int64_t reach[5] = {n, pixel};
  bool is_whole = pixel == j->n_channels;

  for (int d = 0; d < 3; d++) {
    reach[2 + d] = shmt__conv_reach(s, d, s->out[d]);
    is_whole = is_whole && reach[2 + d] == s->in[d];
  }
  shmt__image_view to = shmt__image_view_nhwc(j->image, j->c->dtype, reach);
  if (!is_whole) memset(j->image, 0, (size_t)(n * pixel * volume(reach + 2) * j->item));
  j->shape.step[0] = to.stride[0] / j->item;
  for (int d = 0; d < 3; d++) j->shape.step[1 + d] = to.stride[2 + d] / j->item * s->stride[d];
  for (int64_t e = 0; e < rows_of(j, j->n); e++) {
    const int64_t at = shmt__min_i64(e, j->n - 1);
    const int64_t channel = j->is_grouped ? 0 : j->is_nhwc ? at % j->n_channels : at / j->size;
    const int64_t place = j->is_grouped ? at : j->is_nhwc ? at / j->n_channels : at % j->size;
    const int64_t w = place % s->kernel[2], h = place / s->kernel[2] % s->kernel[1];
    const int64_t d = place / (s->kernel[2] * s->kernel[1]);
    j->offset[e] = channel + (d * s->dilation[0] * to.stride[2] + h * s->dilation[1] * to.stride[3] +
                              w * s->dilation[2] * to.stride[4]) / j->item;
  }
  if (volume(s->in) == 0) return; /* nothing but padding */
  to = shmt__image_view_at(&to, (int64_t[]){0, 0, s->padding[0], s->padding[1], s->padding[2]});
  const shmt__image_view from =
      shmt__image_view_at(j->images, (int64_t[]){first, j->first_channel, p->first[0], p->first[1], p->first[2]});
  shmt__image_view_copy_parallel(&to, &from, number);
}

/* Copy the outputs of a tile, block after block of filters. */
static void pack_outputs(weight_grad_job* j, const shmt__conv_tile* p, int64_t first, int64_t n) {
  const int64_t *out = p->shape.out, *whole = j->c->shape.out;
  const int64_t at[5] = {first, j->first_filter, p->at / (whole[1] * whole[2]), p->at / whole[2] % whole[1],
                         p->at % whole[2]};
  const shmt__image_view box = shmt__image_view_at(j->outputs, at);

  memcpy(j->shape.n, (int64_t[]){n, out[0], out[1], out[2]}, sizeof j->shape.n);
  j->positions = n * p->length;
  for (int64_t b = 0; b < j->n_blocks; b++) {
    const int64_t filters = shmt__min_i64(j->block, j->n_filters - b * j->block);
    char* const data = j->output + b * j->positions * j->block * j->item;
    const shmt__image_view to =
        shmt__image_view_nhwc(data, j->c->dtype, (int64_t[]){n, j->block, out[0], out[1], out[2]});
    const shmt__image_view from = shmt__image_view_at(&box, (int64_t[]){0, b * j->block, 0, 0, 0});
    if (filters < j->block) memset(data, 0, (size_t)(j->positions * j->block * j->item));
    shmt__image_view_copy_parallel(&to, &from, (int64_t[]){n, filters, out[0], out[1], out[2]});
  }
}

/* --- sums --------------------------------------------------------------------------- */

/* Groups of SHMT_WEIGHT_GRAD_ELEMENTS elements, counted through the blocks of filters. */
static void run_elements(void* ctx, int64_t begin, int64_t end) {
  const weight_grad_job* j = ctx;
  const int64_t tiles = shmt__ceil_div(j->n, SHMT_WEIGHT_GRAD_ELEMENTS);
  shmt__weight_grad_args s = j->shape;

  for (int64_t u = begin, n_elements; u < end; u += n_elements) {
    const int64_t b = u / tiles, first = u % tiles * SHMT_WEIGHT_GRAD_ELEMENTS;
    n_elements = shmt__min_i64(tiles - u % tiles, end - u);
    char* data[3] = {j->sums + (b * j->rows + first) * j->block * j->item, j->image,
                     j->output + b * j->positions * j->block * j->item};
    s.offset = j->offset + first;
    shmt__loops[SHMT_LOOP_conv_weight_grad_nhwc][j->c->dtype](
        data, NULL, shmt__min_i64(n_elements * SHMT_WEIGHT_GRAD_ELEMENTS, j->n - first), &s);
  }
}

/* Vectors of channels [begin, end). */
static void run_channels(void* ctx, int64_t begin, int64_t end) {
  const weight_grad_job* j = ctx;
  const int64_t at = begin * SHMT_NHWC_LANES * j->item;
  shmt__weight_grad_args s = j->shape;
  char* data[3] = {j->sums + at, j->image + at, j->output + at};

  s.filters = (end - begin) * SHMT_NHWC_LANES;
  shmt__loops[SHMT_LOOP_conv_weight_grad_grouped][j->c->dtype](data, NULL, j->n, &s);
}

/* Store the sums of some filters, whose groups lie side by side, in the weight. */
static void store_grouped(const weight_grad_job* j) {
  const int64_t io_item = shmt__dtype_size[j->c->io_dtype], row = j->block * j->item;
  const int64_t channel = j->is_nhwc ? 1 : j->size, place = j->is_nhwc ? j->channels : 1;

  for (int64_t i = 0; i < j->channels; i++) {
    const shmt__image_view to = {j->weight + (j->first_filter * j->k + i * channel) * io_item, j->c->io_dtype,
                                 {0, j->k * io_item, 0, 0, place * io_item}};
    const shmt__image_view from = {j->sums + i * rows_of(j, j->size) * row, j->c->dtype, {0, j->item, 0, 0, row}};
    shmt__image_view_copy(&to, &from, (int64_t[]){1, j->n_filters, 1, 1, j->size});
  }
}

/* Store the sums of some filters and channels in the weight. */
static void store_weight_grad(const weight_grad_job* j) {
  const int64_t io_item = shmt__dtype_size[j->c->io_dtype];
  const int64_t pieces = j->is_nhwc && j->n_channels < j->channels ? j->size : 1, run = j->n / pieces;

  for (int64_t b = 0; b < j->n_blocks; b++) {
    const int64_t filter = j->first_filter + b * j->block,
                  filters = shmt__min_i64(j->block, j->n_filters - b * j->block);
    for (int64_t i = 0; i < pieces; i++) {
      const int64_t channel = j->first_channel % j->channels;
      const int64_t at = j->is_nhwc ? i * j->channels + channel : channel * j->size;
      const shmt__image_view to = {
          j->weight + (filter * j->k + at) * io_item, j->c->io_dtype, {0, j->k * io_item, 0, 0, io_item}};
      const shmt__image_view from = {j->sums + (b * j->rows + i * run) * j->block * j->item, j->c->dtype,
                                     {0, j->item, 0, 0, j->block * j->item}};
      shmt__image_view_copy(&to, &from, (int64_t[]){1, filters, 1, 1, run});
    }
  }
}

/* The weight gradient of j->n_filters filters and j->n_channels channels. */
static void weight_grad(weight_grad_job* j) {
  const shmt__conv* c = j->c;

  j->n = j->is_grouped ? j->size : j->n_channels * j->size;
  j->rows = rows_of(j, j->n) * (j->is_grouped ? j->channels : 1);
  j->shape.offset = j->offset;
  j->shape.channels = j->channels;
  j->shape.filters = j->shape.pitch = j->block;
  for (int64_t i = 0; i < c->n_images; i += j->images_at_once) {
    const int64_t n = shmt__min_i64(j->images_at_once, c->n_images - i);
    for (int64_t p = 0; p < j->n_tiles; p++) {
      const shmt__conv_tile tile = shmt__conv_tile_at(c, j->tile, p);
      pack_images(j, &tile, i, n);
      pack_outputs(j, &tile, i, n);
      j->shape.adds = i + p > 0;
      if (j->is_grouped)
        shmt__parallel_for(j->block / SHMT_NHWC_LANES, WORTH_SHARING / (SHMT_NHWC_LANES * j->k * j->positions) + 1,
                           run_channels, j);
      else
        shmt__parallel_for(j->n_blocks * shmt__ceil_div(j->n, SHMT_WEIGHT_GRAD_ELEMENTS),
                           WORTH_SHARING / (SHMT_WEIGHT_GRAD_ELEMENTS * j->block * j->positions) + 1, run_elements, j);
    }
  }
  (j->is_grouped ? store_grouped : store_weight_grad)(j);
}

/* --- all ---------------------------------------------------------------------------- */

static void plan(weight_grad_job* j) {
  const shmt__conv* c = j->c;
  const int64_t vectors = shmt__ceil_div(j->filters, SHMT_NHWC_LANES), each = j->size * j->item;

  if (j->is_grouped) {
    j->channels_at_once = shmt__ceil_div(c->channels, shmt__ceil_div(c->channels, MOST_CHANNELS));
    j->channels_at_once = shmt__min_i64(shmt__round_up(j->channels_at_once, SHMT_NHWC_LANES), c->channels);
    j->n_blocks = 1;
    j->block = pixel_of(j);
  } else {
    j->n_blocks = shmt__ceil_div(vectors, SHMT_NHWC_FILTERS / SHMT_NHWC_LANES);
    j->block = shmt__ceil_div(vectors, j->n_blocks) * SHMT_NHWC_LANES;
    j->n_blocks = shmt__ceil_div(j->filters, j->block);
    const int64_t fit = shmt__max_i64(SUM_BYTES / (each * j->n_blocks * j->block), 1);
    j->channels_at_once = shmt__ceil_div(j->channels, shmt__ceil_div(j->channels, fit));
  }
  const int64_t filters = j->n_blocks * j->block;
  j->n_tiles = shmt__conv_tile_size(c, pixel_of(j) * j->item, filters * j->item, TILE_BYTES, j->tile);
  int64_t reach = pixel_of(j);
  for (int d = 0; d < 3; d++) reach *= shmt__conv_reach(&c->shape, d, j->tile[d]);
  const int64_t image = (reach + volume(j->tile) * filters) * j->item;
  j->images_at_once = j->n_tiles == 1 ? shmt__max_i64(shmt__min_i64(TILE_BYTES / image, c->n_images), 1) : 1;
  j->images_at_once = shmt__ceil_div(c->n_images, shmt__ceil_div(c->n_images, j->images_at_once));
  j->rows = j->is_grouped ? rows_of(j, j->size) * j->channels : rows_of(j, j->channels_at_once * j->size);
  j->image_bytes = shmt__round_up(j->images_at_once * reach * j->item, LINE);
  j->output_bytes = shmt__round_up(j->images_at_once * volume(j->tile) * filters * j->item, LINE);
  j->sum_bytes = j->rows * filters * j->item;
}

shmt_status shmt__conv_weight_grad_nhwc(const shmt__conv* c, const shmt__image_view* images,
                                        const shmt__image_view* outputs, bool is_nhwc, void* weight) {
  weight_grad_job j = {
      .c = c, .images = images, .outputs = outputs, .weight = weight, .is_nhwc = is_nhwc, .is_grouped = is_grouped(c)};
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
    const int64_t left = j.is_grouped ? c->channels - channel : j.channels - channel % j.channels;
    j.first_channel = channel;
    j.n_channels = shmt__min_i64(j.channels_at_once, left);
    j.first_filter = j.is_grouped ? channel : channel / j.channels * j.filters;
    j.n_filters = j.is_grouped ? j.n_channels : j.filters;
    weight_grad(&j);
  }
  shmt__dealloc(memory, nbytes);
  return SHMT_OK;
}
