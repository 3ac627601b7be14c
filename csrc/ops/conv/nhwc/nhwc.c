/* ops/conv/nhwc/nhwc.c -- NHWC convolution: packs weights into rows, and shares out the work.
 *
 * Threads share out outputs, counted through the images, of blocks of filters. A block packs rows of its weights (Note
 * [NHWC convolution] in kernels/conv/nhwc.tmpl.h) that fit a near cache. Longer filters are taken in pieces, whose
 * products are added to the outputs.
 */
#include "ops/conv/nhwc/nhwc.h"

#include "base/sizes.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/copy/move.h"
#include "iter/threads.h"
#include "kernels/conv/nhwc.h"
#include "os/cpu.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <string.h>

enum {
  WEIGHT_BYTES = 96 << 10,         /* of packed rows */
  FEW_CHANNELS = 64,               /* that are cheap to reorder */
  TILE = 8,                        /* outputs that are shared out together */
  CHUNK = 64,                      /* the same, of all groups */
  CHUNK_BYTES = 512 << 10,         /* of the weights of all groups */
  WORTH_SHARING = 1 << 18,         /* multiplications that are worth a thread */
  WORTH_SHARING_PACKING = 1 << 15, /* weights to pack that are worth a thread */
  LINE = 64,
};

typedef struct nhwc_job {
  const shmt__conv* c;
  shmt__conv_shape even;             /* where all positions are evenly apart: one row of them */
  const char* images;
  const char* weight;
  char* output;
  int64_t item, kernel, wide;        /* kernel, wide: elements of a kernel, of one of its rows */
  int64_t channels, filters;         /* of a group */
  int64_t n_outputs, tiles;          /* in all images */
  int64_t vectors, n_blocks;         /* of the filters of a group, in SHMT_NHWC_LANES; blocks of those */
  int64_t block;                     /* the filters of such a block, at most */
  int64_t rows_at_once, channels_at_once;  /* of a kernel, at a time */
  bool by_positions; /* rows of weights are ordered by (position, channel), else by (channel, position) */
  shmt__conv_nhwc_args shape;
  const char* zeros;                 /* the channels of a position in the padding */
  char* rooms;                       /* packed weights of all blocks; only for chunks */
  atomic_bool failed;                /* out of memory */
} nhwc_job;

bool shmt__conv_has_nhwc(const shmt__conv* c) {
  const int64_t filters = c->filters / c->groups, made = shmt__round_up(filters, SHMT_NHWC_LANES);
  /* Half a row is one vector of 32 bytes. With vectors of 64 bytes half of the work would be wasted. */
  const bool is_full = shmt__cpu_level == SHMT_CPU_V4 ? filters * 2 > made : filters * 2 >= made;

  return is_full && shmt__loops[SHMT_LOOP_conv_nhwc][c->dtype] && !shmt__conv_is_depthwise(c) && shmt__conv_can_pad(c);
}

bool shmt__conv_is_nhwc(const shmt__conv* c) {
  return shmt__conv_has_nhwc(c) && c->io_dtype == c->dtype && c->channel_step == shmt__dtype_size[c->dtype];
}

/* A pointwise convolution of images whose positions are all evenly apart is one row of outputs. */
static void merge_even_positions(nhwc_job* j) {
  const shmt__conv* c = j->c;
  const shmt__conv_shape* v = &c->shape;
  int64_t apart = c->step[2] * v->in[2];

  for (int d = 0; d < 3; d++)
    if (v->kernel[d] != 1 || v->stride[d] != 1 || v->padding[d] != 0 || v->out[d] != v->in[d]) return;
  for (int d = 1; d >= 0; apart *= v->in[d], d--)
    if (v->in[d] != 1 && c->step[d] != apart) return;
  if (c->n_images != 1 && c->image_step != apart) return;
  j->even = *v;
  for (int d = 0; d < 3; d++) j->even.in[d] = j->even.out[d] = d < 2 ? 1 : j->n_outputs;
  j->shape.conv = &j->even;
}

/* Pack rows [begin, end) of the kernel and some channels of n filters, one row of weights for each element; room: for
 * the rows before they are widened. */
static void pack_filters(const nhwc_job* j, int64_t filter, int64_t n, int64_t begin, int64_t end, int64_t channel,
                         int64_t channels, char* made, char* room) {
  const shmt_dtype io_dtype = j->c->io_dtype, dtype = j->c->dtype;
  const int64_t item = shmt__dtype_size[io_dtype], positions = (end - begin) * j->wide, first = begin * j->wide;
  const int64_t row = shmt__round_up(n, SHMT_NHWC_LANES) * item, k = j->kernel * j->channels * item;
  const char* from = j->weight + filter * k;
  char* to = io_dtype == dtype ? made : room;

  if (n * item < row) memset(to, 0, (size_t)(positions * channels * row));
  if (!j->by_positions)
    shmt__move_transposed(to, row, from + channel * j->kernel * item, k, channels * positions, n, item);
  else if (j->c->weight_is_nhwc || j->kernel == 1)
    for (int64_t p = 0; p < positions; p++)
      shmt__move_transposed(to + p * channels * row, row, from + ((first + p) * j->channels + channel) * item, k,
                            channels, n, item);
  else
    for (int64_t i = 0; i < channels; i++)
      shmt__move_transposed(to + i * row, channels * row, from + ((channel + i) * j->kernel + first) * item, k,
                            positions, n, item);
  if (to != made) shmt__cast_loop(dtype, io_dtype)(made, j->item, to, item, positions * channels * row / item);
}

/* The rows of packed weights, at most: one for each element of a filter. */
static int64_t rows_of_weights(const nhwc_job* j) { return j->rows_at_once * j->wide * j->channels_at_once; }

/* The first filter of a block. */
static int64_t block_at(const nhwc_job* j, int64_t i) {
  return shmt__min_i64(j->vectors * i / j->n_blocks * SHMT_NHWC_LANES, j->filters);
}

/* Bytes of a row of bias, of the packed rows of weights, and of those before they are widened. */
static int64_t room_bytes(const nhwc_job* j) {
  const int64_t narrow = j->c->io_dtype == j->c->dtype ? 0 : shmt__dtype_size[j->c->io_dtype];

  return j->block * (j->item + rows_of_weights(j) * (j->item + narrow));
}

/* The number of filters of a block, counted through the groups, and its first filter. */
static int64_t filters_of(const nhwc_job* j, int64_t block) {
  return block_at(j, block % j->n_blocks + 1) - block_at(j, block % j->n_blocks);
}
static int64_t first_filter(const nhwc_job* j, int64_t block) {
  return block / j->n_blocks * j->filters + block_at(j, block % j->n_blocks);
}

/* Pack bias and weights of a block of filters, from row r of the kernel and channel i on. */
static void pack_weights(const nhwc_job* j, int64_t block, int64_t r, int64_t i, char* room) {
  const shmt__conv* c = j->c;
  const int64_t filters = filters_of(j, block), at = first_filter(j, block);
  const int64_t row = shmt__round_up(filters, SHMT_NHWC_LANES) * j->item,
                end = shmt__min_i64(r + j->rows_at_once, j->kernel / j->wide);
  char* const weights = room + row;

  memset(room, 0, (size_t)row);
  if (c->bias) memcpy(room, (const char*)c->bias + at * j->item, (size_t)(filters * j->item));
  pack_filters(j, at, filters, r, end, i, shmt__min_i64(j->channels_at_once, j->channels - i), weights,
               weights + rows_of_weights(j) * row);
}

/* n outputs from the first on, with the weights that were packed. */
static void run_outputs(const nhwc_job* j, int64_t block, int64_t r, int64_t i, int64_t first, int64_t n,
                        const char* room) {
  const shmt__conv* c = j->c;
  const int64_t group = block / j->n_blocks, filters = filters_of(j, block), at = first_filter(j, block);
  const int64_t row = shmt__round_up(filters, SHMT_NHWC_LANES), rows = j->kernel / j->wide;
  shmt__conv_nhwc_args s = j->shape;

  s.zeros = j->zeros;
  s.first = first;
  s.filters = filters;
  s.begin[0] = r / c->shape.kernel[1];
  s.begin[1] = r % c->shape.kernel[1];
  s.rows = shmt__min_i64(j->rows_at_once, rows - r);
  s.channels = shmt__min_i64(j->channels_at_once, j->channels - i);
  s.channel_step = (j->by_positions ? 1 : j->kernel) * row;
  s.position_step = (j->by_positions ? s.channels : 1) * row;
  s.adds = r + i > 0;
  s.bias = c->bias && r + s.rows == rows && i + s.channels == j->channels ? room : NULL;
  char* data[3] = {j->output + (first * c->filters + at) * j->item,
                   (char*)(uintptr_t)j->images + (group * j->channels + i) * j->item,
                   (char*)(uintptr_t)room + row * j->item};
  shmt__loops[SHMT_LOOP_conv_nhwc][c->dtype](data, NULL, n, &s);
}

/* Tiles of outputs [begin, end), counted through the blocks of filters of all groups. */
static void run_tiles(void* ctx, int64_t begin, int64_t end) {
  nhwc_job* j = ctx;
  const int64_t rows = j->kernel / j->wide;
  void* room = NULL;

  if (shmt__alloc((uint64_t)room_bytes(j), &room) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t t = begin, n; t < end; t += n) {
    const int64_t block = t / j->tiles, first = t % j->tiles * TILE;
    n = shmt__min_i64(j->tiles - t % j->tiles, end - t);
    for (int64_t r = 0; r < rows; r += j->rows_at_once) {
      for (int64_t i = 0; i < j->channels; i += j->channels_at_once) {
        pack_weights(j, block, r, i, room);
        run_outputs(j, block, r, i, first, shmt__min_i64(n * TILE, j->n_outputs - first), room);
      }
    }
  }
  shmt__dealloc(room, (uint64_t)room_bytes(j));
}

static void pack_blocks(void* ctx, int64_t begin, int64_t end) {
  const nhwc_job* j = ctx;

  for (int64_t b = begin; b < end; b++) pack_weights(j, b, 0, 0, j->rooms + b * room_bytes(j));
}

/* Chunks of outputs [begin, end), each of all blocks of filters: the input of the next group is then still in a near
 * cache. */
static void run_chunks(void* ctx, int64_t begin, int64_t end) {
  const nhwc_job* j = ctx;

  for (int64_t at = begin * CHUNK; at < shmt__min_i64(end * CHUNK, j->n_outputs); at += CHUNK)
    for (int64_t b = 0; b < j->c->groups * j->n_blocks; b++)
      run_outputs(j, b, 0, 0, at, shmt__min_i64(CHUNK, j->n_outputs - at), j->rooms + b * room_bytes(j));
}

/* Are there several groups whose weights can all be packed at once, and chunks for all threads? */
static bool suits_chunks(const nhwc_job* j) {
  return j->c->groups > 1 && j->channels_at_once == j->channels && j->rows_at_once == j->kernel / j->wide &&
         j->c->groups * j->n_blocks * room_bytes(j) <= CHUNK_BYTES && j->n_outputs >= CHUNK * shmt__num_threads();
}

/* Give each thread one piece, so that it packs weights once; work: multiplications of each of n. */
static void share_out(nhwc_job* j, int64_t n, int64_t work, void (*run)(void* ctx, int64_t begin, int64_t end)) {
  shmt__parallel_for(n, shmt__max_i64(shmt__ceil_div(n, shmt__num_threads()), WORTH_SHARING / (work + 1) + 1), run, j);
}

shmt_status shmt__conv_nhwc(const shmt__conv* c, const void* images, const void* weight, void* output) {
  const shmt__conv_shape* v = &c->shape;
  nhwc_job j = {.c = c, .images = images, .weight = weight, .output = output, .item = shmt__dtype_size[c->dtype]};

  j.wide = v->kernel[2];
  j.kernel = v->kernel[0] * v->kernel[1] * j.wide;
  j.channels = c->channels / c->groups;
  j.filters = c->filters / c->groups;
  j.n_outputs = c->n_images * v->out[0] * v->out[1] * v->out[2];
  j.tiles = shmt__ceil_div(j.n_outputs, TILE);
  j.vectors = shmt__ceil_div(j.filters, SHMT_NHWC_LANES);
  j.n_blocks = shmt__ceil_div(j.filters, SHMT_NHWC_FILTERS);
  j.block = shmt__ceil_div(j.vectors, j.n_blocks) * SHMT_NHWC_LANES;
  const int64_t fits = shmt__max_i64(WEIGHT_BYTES / (j.block * j.item), 1);
  j.by_positions = c->weight_is_nhwc || j.kernel == 1 || j.channels <= FEW_CHANNELS;
  /* Weights ordered by channel stay so, with all positions of each channel. Only few channels are reordered: ordered by
   * position, runs are longer. */
  const int64_t rows = j.kernel / j.wide, least = j.by_positions ? j.wide : j.kernel;
  const int64_t pieces = shmt__min_i64(shmt__ceil_div(least * j.channels, fits), j.channels);
  j.channels_at_once = shmt__ceil_div(j.channels, pieces);
  j.rows_at_once = !j.by_positions ? rows
                   : pieces > 1    ? 1
                                   : shmt__ceil_div(rows, shmt__ceil_div(rows * j.wide * j.channels, fits));
  j.shape = (shmt__conv_nhwc_args){.conv = v, .image_step = c->image_step / j.item, .pitch = c->filters};
  for (int d = 0; d < 3; d++) j.shape.step[d] = c->step[d] / j.item;
  merge_even_positions(&j);
  const int64_t work = j.block * j.channels * j.kernel, n_blocks = j.n_blocks * c->groups;
  const bool by_chunks = suits_chunks(&j);
  const int64_t zeros = shmt__round_up(j.channels_at_once * j.item, LINE);
  const uint64_t nbytes = (uint64_t)(zeros + (by_chunks ? n_blocks * room_bytes(&j) : 0));
  void* memory = NULL;
  SHMT_TRY(shmt__alloc(nbytes, &memory));
  memset(memory, 0, (size_t)zeros);
  j.zeros = memory;
  j.rooms = (char*)memory + zeros;
  if (by_chunks) {
    shmt__parallel_for(n_blocks, WORTH_SHARING_PACKING / (work + 1) + 1, pack_blocks, &j);
    share_out(&j, shmt__ceil_div(j.n_outputs, CHUNK), CHUNK * n_blocks * work, run_chunks);
  } else {
    share_out(&j, j.tiles * n_blocks, TILE * work, run_tiles);
  }
  shmt__dealloc(memory, nbytes);
  SHMT_REQUIRE(!atomic_load_explicit(&j.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for the weights of %lld filters", (long long)j.block);
  return SHMT_OK;
}
