/* ops/conv/nchw/direct.c -- convolution without a column matrix, on padded images.
 *
 * Threads share out tiles of images and groups, or the filters of one tile where there are few tiles.
 */
#include "ops/conv/nchw/direct.h"

#include "base/sizes.h"
#include "generated/loops.h"
#include "iter/threads.h"
#include "kernels/conv/direct.h"
#include "ops/conv/nchw/im2col_panels.h"
#include "ops/conv/nchw/padded_image.h"
#include "storage/allocator.h"

#include <stdatomic.h>

enum {
  FEW_CHANNELS = 32,               /* with more, a 1 x 1 kernel is a matrix product, which a BLAS does better */
  WORTH_SHARING = 1 << 18,         /* multiplications */
  OUTPUT_LANES = 16,               /* outputs of a run that are computed together */
  TILE_BYTES = 512 << 10,          /* at most, of a tile's memory, */
  TILE_BYTES_IN_PLACE = 640 << 10, /* and where nothing is gathered first */
};

typedef struct direct_job {
  const shmt__conv* c;
  shmt__conv_direct_args shape;
  const char* images;
  const char* weight;
  char* output;
  int64_t item, channels, out_plane;
  int64_t size[3], n_tiles; /* of an image */
  int64_t task;             /* whose filters the threads share out, */
  shmt__conv_tile tile;     /* its tile, */
  char* image;              /* and its input */
  atomic_bool failed; /* out of memory */
} direct_job;

/* Can the kernel read images where they lie, without padding, stride phases or widening? */
static bool can_read_in_place(const shmt__conv* c) {
  const shmt__conv_shape* v = &c->shape;
  int64_t step = shmt__dtype_size[c->dtype];

  if (c->io_dtype != c->dtype) return false;
  for (int d = 2; d >= 0; step *= v->in[d], d--)
    if (v->stride[d] != 1 || v->padding[d] != 0 || shmt__conv_reach(v, d, v->out[d]) > v->in[d] ||
        (v->in[d] != 1 && c->step[d] != step))
      return false;
  return true;
}

/* The layout of images that are read where they lie. */
static void shape_in_place(const shmt__conv* c, shmt__conv_direct_args* s) {
  const int64_t* in = c->shape.in;

  s->row = in[2];
  s->rows = in[1];
  s->volume = in[0] * in[1] * in[2];
  s->channel = c->channel_step / shmt__dtype_size[c->dtype];
  s->is_in_place = true;
}

bool shmt__conv_prefers_direct(const shmt__conv* c) {
  const shmt__conv_shape* v = &c->shape;
  const int64_t kernel = v->kernel[0] * v->kernel[1] * v->kernel[2];
  shmt__conv_direct_args s;

  if (shmt__loops[SHMT_LOOP_conv_direct][c->dtype] == NULL || c->filters == 0 || c->channels == 0) return false;
  if (kernel == 1 && c->channels / c->groups > FEW_CHANNELS) return false;
  if (v->out[0] <= 0 || v->out[1] <= 0 || v->out[2] <= 0) return false;
  if (!shmt__conv_can_pad(c)) return false;
  shmt__conv_padded_layout(c, v->out, &s);
  const double wanted = (double)(v->out[1] * v->out[2] * s.filters);
  const double made = (double)shmt__round_up(shmt__conv_padded_run(&s, v->out), OUTPUT_LANES) *
                      (double)shmt__round_up(s.filters, SHMT_DIRECT_FILTERS / 2);
  return wanted >= 0.6 * made;
}

/* The padded channels; behind them is memory for the channels that are gathered to be padded. */
static int64_t padded_bytes(const direct_job* j) {
  return (j->channels * j->shape.channel + SHMT_DIRECT_SLACK) * j->item;
}

static uint64_t image_bytes(const direct_job* j) {
  if (j->shape.is_in_place) return 0;
  return (uint64_t)(padded_bytes(j) + shmt__conv_tile_input_bytes(j->c, j->size, shmt__conv_gathered_channels(j->c)));
}

/* Sets *tile, and returns its input: padded, or where it lies. */
static char* pad(const direct_job* j, int64_t task, shmt__conv_tile* tile, char* padded) {
  const shmt__conv* c = j->c;
  const int64_t at = task / j->n_tiles;

  *tile = shmt__conv_tile_at(c, j->size, task % j->n_tiles);
  if (j->shape.is_in_place)
    return (char*)(uintptr_t)shmt__conv_tile_input(c, tile, j->images, at / c->groups, at % c->groups * j->channels,
                                                   j->channels, NULL);
  shmt__conv_pad_image(c, &j->shape, tile, j->images, at, padded, padded + padded_bytes(j));
  return padded;
}

/* Outputs of filters [begin, end) of a tile's group. */
static bool filter(const direct_job* j, int64_t task, const shmt__conv_tile* tile, char* image, int64_t begin,
                   int64_t end) {
  const shmt__conv* c = j->c;
  const bool is_narrow = c->io_dtype != c->dtype;
  const int64_t filters = j->shape.filters, entry = task / j->n_tiles / c->groups;
  const int64_t first = task / j->n_tiles % c->groups * filters;
  const int64_t pitch = shmt__round_up(shmt__conv_padded_run(&j->shape, tile->shape.out), SHMT_DIRECT_BLOCK);
  const int64_t own = pitch * SHMT_DIRECT_FILTERS + SHMT_DIRECT_SLACK;
  const int64_t more = is_narrow ? SHMT_DIRECT_FILTERS * (tile->length + j->shape.k) : 0;
  const int64_t filters_at_once = is_narrow ? SHMT_DIRECT_FILTERS : end - begin;
  const uint64_t nbytes = (uint64_t)((own + more) * j->item);
  shmt__conv_direct_args shape = j->shape;
  void* scratch = NULL;

  if (shmt__alloc(nbytes, &scratch) != SHMT_OK) return false;
  char* const block = (char*)scratch + own * j->item;
  char* const weights = block + SHMT_DIRECT_FILTERS * tile->length * j->item;
  shape.conv = &tile->shape;
  shape.pitch = is_narrow ? tile->length : j->out_plane;
  for (int64_t f = begin; f < end; f += filters_at_once) {
    const int64_t n = end - f < filters_at_once ? end - f : filters_at_once;
    char* to = j->output + ((entry * c->filters + first + f) * j->out_plane + tile->at) * j->item;
    const char* weight = shmt__conv_cast_weight(c, j->weight, (first + f) * shape.k, n * shape.k, weights);
    char* data[4] = {is_narrow ? block : to, image, (char*)(uintptr_t)weight, scratch};
    shmt__loops[SHMT_LOOP_conv_direct][c->dtype](data, NULL, n, &shape);
    if (is_narrow)
      shmt__conv_store_outputs(c, block, tile->length, entry, first + f, n, tile->at, tile->length, j->output);
  }
  shmt__dealloc(scratch, nbytes);
  return true;
}

static void run_tasks(void* ctx, int64_t begin, int64_t end) {
  direct_job* j = ctx;
  const uint64_t nbytes = image_bytes(j);
  void* padded = NULL;
  bool done = nbytes == 0 || shmt__alloc(nbytes, &padded) == SHMT_OK;

  for (int64_t task = begin; done && task < end; task++) {
    shmt__conv_tile tile;
    char* const image = pad(j, task, &tile, padded);
    done = filter(j, task, &tile, image, 0, j->shape.filters);
  }
  if (padded) shmt__dealloc(padded, nbytes);
  /* relaxed: read after the pool's own join. */
  if (!done) atomic_store_explicit(&j->failed, true, memory_order_relaxed);
}

/* Blocks of filters of j->task. */
static void run_filters(void* ctx, int64_t begin, int64_t end) {
  direct_job* j = ctx;
  const int64_t first = begin * SHMT_DIRECT_FILTERS, last = end * SHMT_DIRECT_FILTERS;

  if (!filter(j, j->task, &j->tile, j->image, first, last < j->shape.filters ? last : j->shape.filters))
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
}

/* One task after the other; the threads share out its filters. */
static shmt_status run_each_task(direct_job* j, int64_t n) {
  const int64_t blocks = shmt__ceil_div(j->shape.filters, SHMT_DIRECT_FILTERS);
  void* padded = NULL;

  if (image_bytes(j) > 0) SHMT_TRY(shmt__alloc(image_bytes(j), &padded));
  for (j->task = 0; j->task < n; j->task++) {
    j->image = pad(j, j->task, &j->tile, padded);
    shmt__parallel_for(blocks, shmt__ceil_div(blocks, shmt__num_threads()), run_filters, j);
  }
  if (padded) shmt__dealloc(padded, image_bytes(j));
  return SHMT_OK;
}

static shmt_status run_tiles(direct_job* j) {
  const int64_t n = j->c->n_images * j->c->groups * j->n_tiles, threads = shmt__num_threads();
  const int64_t work = j->out_plane / j->n_tiles * j->shape.k * j->shape.filters;

  /* A few tiles of one image are not shared out evenly; those of several images are. */
  if (work > WORTH_SHARING && (n < threads || (j->c->n_images * j->c->groups < threads && n < 8 * threads)))
    SHMT_TRY(run_each_task(j, n));
  else
    shmt__parallel_for(n, WORTH_SHARING / (work + 1) + 1, run_tasks, j);
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for a padded image of %llu bytes", (unsigned long long)image_bytes(j));
  return SHMT_OK;
}

shmt_status shmt__conv_direct(const shmt__conv* c, const void* images, const void* weight, void* output) {
  const shmt__conv_shape* v = &c->shape;
  direct_job j = {.c = c, .images = images, .weight = weight, .output = output, .item = shmt__dtype_size[c->dtype]};
  void* offsets = NULL;

  if (c->n_images == 0) return SHMT_OK;
  j.channels = c->channels / c->groups;
  j.out_plane = v->out[0] * v->out[1] * v->out[2];
  shmt__conv_padded_layout(c, v->out, &j.shape);
  const bool is_panel = shmt__conv_prefers_im2col_panels(
      c, &j.shape, v->out[0] * shmt__round_up(shmt__conv_padded_run(&j.shape, v->out), OUTPUT_LANES));
  if (!is_panel) {
    const bool is_narrow = c->io_dtype != c->dtype;
    const int64_t per_input = (j.channels + shmt__conv_gathered_channels(c)) * j.item,
                  block = SHMT_DIRECT_FILTERS * j.item;
    /* Tiles are larger where weights fill the caches, and where weights are widened again for each tile. */
    const int64_t factor = block * j.shape.k > TILE_BYTES / 2 ? 4 : is_narrow ? 3 : 2;
    const int64_t most = factor * (shmt__conv_reads_in_place(c) ? TILE_BYTES_IN_PLACE : TILE_BYTES) / 2;
    j.n_tiles = shmt__conv_tile_size(c, per_input, (is_narrow ? 2 : 1) * block, most, j.size);
    shmt__conv_padded_layout(c, j.size, &j.shape);
    if (can_read_in_place(c)) shape_in_place(c, &j.shape);
  }
  const uint64_t nbytes = (uint64_t)j.shape.k * sizeof(int64_t);
  SHMT_TRY(shmt__alloc(nbytes, &offsets));
  shmt__conv_padded_offsets(c, &j.shape, offsets);
  j.shape.offset = offsets;
  const shmt_status status = is_panel ? shmt__conv_im2col_panels(c, &j.shape, images, weight, output) : run_tiles(&j);
  shmt__dealloc(offsets, nbytes);
  return status;
}
