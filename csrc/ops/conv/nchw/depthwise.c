/* ops/conv/nchw/depthwise.c -- depthwise convolution: every channel has filters of its own. */
#include "ops/conv/nchw/depthwise.h"

#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/iter.h"
#include "ops/conv/tile.h"
#include "storage/allocator.h"

#include <stdatomic.h>

enum {
  GRAIN_PRODUCTS = 32768, /* multiplications that are worth a thread */
  TILE_BYTES = 256 << 10, /* of a tile's memory */
  CHANNELS_AT_ONCE = 16,  /* neighbouring channels that are gathered together */
};

typedef struct depthwise_job {
  const shmt__conv* c;
  const char* images;
  const char* weight;
  char* output;
  int64_t item, out_plane, k;
  int64_t n_together, blocks;      /* channels that are filtered together, blocks of those in an image */
  int64_t size[3], n_tiles;        /* of an image */
  uint64_t view, scratch, weights; /* bytes of a thread's room */
  atomic_bool failed;              /* out of memory */
} depthwise_job;

/* One tile of the output plane of one filter; view: the input of that tile. */
static void filter_plane(const depthwise_job* j, const shmt__conv_tile* p, const char* view, int64_t image,
                         int64_t filter, char* room) {
  const shmt__conv* c = j->c;
  const bool is_narrow = c->io_dtype != c->dtype;
  char *const scratch = room + j->view, *const weights = scratch + j->scratch, *const made = weights + j->weights;
  char* const to = j->output + ((image * c->filters + filter) * j->out_plane + p->at) * j->item;
  const char* weight = shmt__conv_cast_weight(c, j->weight, filter * j->k, j->k, weights);
  char* data[4] = {is_narrow ? made : to, (char*)(uintptr_t)view, (char*)(uintptr_t)weight, scratch};

  shmt__loops[SHMT_LOOP_conv_depthwise][c->dtype](data, NULL, 1, &p->shape);
  if (is_narrow) shmt__conv_store_outputs(c, made, p->length, image, filter, 1, p->at, p->length, j->output);
}

/* Tiles of blocks of channels of images, counted in that order. */
static void filter_blocks(const depthwise_job* j, int64_t begin, int64_t end, char* room) {
  const shmt__conv* c = j->c;
  const int64_t each = c->filters / c->groups;
  shmt__conv_tile p;

  for (int64_t at = begin; at < end; at++) {
    const int64_t image = at / (j->n_tiles * j->blocks), first = at / j->n_tiles % j->blocks * j->n_together;
    const int64_t n = c->channels - first < j->n_together ? c->channels - first : j->n_together;
    if (at == begin || j->n_tiles > 1) p = shmt__conv_tile_at(c, j->size, at % j->n_tiles);
    const char* view = shmt__conv_tile_input(c, &p, j->images, image, first, n, room);
    for (int64_t i = 0; i < n * each; i++)
      filter_plane(j, &p, view + i / each * p.shape.step[0] * j->item, image, first * each + i, room);
  }
}

static void run_depthwise_blocks(void* ctx, int64_t begin, int64_t end) {
  depthwise_job* j = ctx;
  const int64_t made = j->c->io_dtype == j->c->dtype ? 0 : j->size[1] * j->size[2] * j->item;
  const uint64_t nbytes = j->view + j->scratch + j->weights + (uint64_t)made;
  void* room = NULL;

  if (shmt__alloc(nbytes, &room) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  filter_blocks(j, begin, end, room);
  shmt__dealloc(room, nbytes);
}

static uint64_t round_to_cache_line(int64_t nbytes) { return ((uint64_t)nbytes + 63) / 64 * 64; }

shmt_status shmt__conv_depthwise(const shmt__conv* c, const void* images, const void* weight, void* output) {
  const shmt__conv_shape* s = &c->shape;
  const bool is_transposed = !shmt__conv_reads_in_place(c) && c->channel_step == shmt__dtype_size[c->io_dtype];
  depthwise_job j = {.c = c, .images = images, .weight = weight, .output = output, .item = shmt__dtype_size[c->dtype]};

  j.out_plane = s->out[0] * s->out[1] * s->out[2];
  if (j.out_plane == 0) return SHMT_OK;
  j.k = s->kernel[1] * s->kernel[2];
  /* Channels that are neighbours are gathered together. */
  j.n_together = is_transposed ? CHANNELS_AT_ONCE : 1;
  if (j.n_together > c->channels) j.n_together = c->channels;
  j.blocks = (c->channels + j.n_together - 1) / j.n_together;
  j.n_tiles = shmt__conv_tile_size(c, (j.n_together + 1) * j.item, j.item, TILE_BYTES, j.size);
  shmt__conv_shape largest = shmt__conv_tile_at(c, j.size, 0).shape;
  for (int d = 0; d < 3; d++) largest.in[d] = largest.padding[d] = 0;
  j.view = round_to_cache_line(shmt__conv_tile_input_bytes(c, j.size, j.n_together));
  j.scratch = round_to_cache_line(shmt__conv_depthwise_scratch(&largest) * j.item);
  j.weights = c->io_dtype == c->dtype ? 0 : round_to_cache_line(j.k * j.item);
  const int64_t work = j.size[1] * j.size[2] * j.k * j.n_together * (c->filters / c->groups);
  shmt__parallel_for(c->n_images * j.blocks * j.n_tiles, GRAIN_PRODUCTS / (work + 1) + 1, run_depthwise_blocks, &j);
  SHMT_REQUIRE(!atomic_load_explicit(&j.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for a padded plane of %llu bytes", (unsigned long long)j.scratch);
  return SHMT_OK;
}
