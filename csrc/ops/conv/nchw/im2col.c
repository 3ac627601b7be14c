/* ops/conv/nchw/im2col.c -- convolution as matrix products of the weight with im2col matrices.
 *
 * Note [im2col blocks]
 * A matrix product is fast when it is wide. Images with small outputs are therefore taken several at a time: their
 * columns stand side by side, and the rows of the product are copied to the images that they belong to. Images with
 * large outputs are taken one tile at a time, so that the columns take no more memory than a wide product needs. The
 * threads share out such blocks where there are enough of them; otherwise they share out each product.
 */
#include "ops/conv/nchw/im2col.h"

#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/matmul/gemm.h"
#include "ops/conv/tile.h"
#include "ops/matmul/gemm_amx.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <string.h>

enum {
  WIDE_ENOUGH = 192,            /* columns of a product */
  COLUMN_BYTES = 1 << 20,       /* of an im2col matrix */
  WIDE_ENOUGH_AMX = 64,         /* AMX products are fast when narrower */
  COLUMN_BYTES_AMX = 512 << 10,
  FEW_FILTERS = 8,              /* which leave AMX tiles half empty */
};

typedef struct im2col_job {
  const shmt__conv* c;
  const char* images;
  const char* weight;
  char* output;
  int64_t item, out_plane, k, channels, filters; /* k: rows of columns; channels and filters of a group */
  int64_t size[3], n_tiles;                      /* of an image */
  int64_t per_block;                             /* images of a block */
  bool is_in_place;                              /* an image is its own im2col matrix */
  uint64_t columns, view, block, weights;        /* bytes of a thread's memory */
  atomic_bool failed;                            /* out of memory */
} im2col_job;

bool shmt__conv_prefers_im2col_amx(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const int64_t k = c->channels / c->groups * s->kernel[0] * s->kernel[1] * s->kernel[2];
  const int64_t wide = s->out[2] < WIDE_ENOUGH_AMX ? s->out[2] : WIDE_ENOUGH_AMX;

  /* The columns of the shortest piece of a row should not be large. */
  return c->groups == 1 && c->filters > FEW_FILTERS && (double)k * (double)wide * 2 <= COLUMN_BYTES &&
         shmt__gemm_has_amx();
}

/* The channels of a group of one image as an im2col matrix, where positions are evenly apart. */
static shmt__matrix image_matrix(const im2col_job* j, int64_t image, int64_t group) {
  const shmt__conv* c = j->c;
  const char* data = j->images + image * c->image_step + group * j->channels * c->channel_step;

  return (shmt__matrix){(char*)(uintptr_t)data, j->k, j->out_plane, c->channel_step / j->item, c->step[2] / j->item};
}

static bool has_even_positions(const shmt__conv* c) {
  const int64_t* in = c->shape.in;

  return (in[1] == 1 || c->step[1] == in[2] * c->step[2]) && (in[0] == 1 || c->step[0] == in[1] * in[2] * c->step[2]);
}

/* Is the product made in a block of its own, because it cannot write the result where it lies? */
static bool has_block(const im2col_job* j) { return j->per_block > 1 || j->c->io_dtype != j->c->dtype; }

static void job_init(im2col_job* j, const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const int64_t item = shmt__dtype_size[c->dtype];

  *j = (im2col_job){.c = c, .item = item, .out_plane = s->out[0] * s->out[1] * s->out[2], .per_block = 1, .n_tiles = 1};
  j->channels = c->channels / c->groups;
  j->filters = c->filters / c->groups;
  j->k = j->channels * s->kernel[0] * s->kernel[1] * s->kernel[2];
  if (j->out_plane == 0) return;
  for (int d = 0; d < 3; d++) j->size[d] = s->out[d];
  /* An input with output_padding is larger than what the outputs read. */
  j->is_in_place = shmt__conv_is_pointwise(c) && memcmp(s->in, s->out, sizeof s->in) == 0 && c->io_dtype == c->dtype &&
                   has_even_positions(c) && shmt__matrix_is_blas(image_matrix(j, 0, 0));
  const bool uses_amx = c->dtype == SHMT_BFLOAT16 && shmt__conv_prefers_im2col_amx(c);
  const int64_t column = j->k * item, enough = uses_amx ? WIDE_ENOUGH_AMX : WIDE_ENOUGH;
  const int64_t wide = j->is_in_place ? WIDE_ENOUGH / 3 : WIDE_ENOUGH,
                bytes = uses_amx ? COLUMN_BYTES_AMX : COLUMN_BYTES;
  if (j->out_plane < wide) {
    const int64_t fits = bytes / (column * j->out_plane), threads = shmt__num_threads();
    j->per_block = (WIDE_ENOUGH + j->out_plane - 1) / j->out_plane;
    if (j->per_block > fits) j->per_block = fits;
    const int64_t share = (c->n_images + threads - 1) / threads; /* every thread gets a block */
    if (j->per_block > share) j->per_block = share;
    if (j->per_block < 1) j->per_block = 1;
  } else if (!j->is_in_place) {
    const int64_t most = column * enough > bytes ? column * enough : bytes;
    j->n_tiles = shmt__conv_tile_size(c, shmt__conv_gathered_channels(c) * item, column, most, j->size);
  }
  j->is_in_place = j->is_in_place && j->per_block == 1;
  const int64_t width = j->per_block * j->size[0] * j->size[1] * j->size[2];
  if (!j->is_in_place) j->columns = (uint64_t)(column * width);
  if (!j->is_in_place) j->view = (uint64_t)shmt__conv_tile_input_bytes(c, j->size, shmt__conv_gathered_channels(c));
  if (c->io_dtype != c->dtype) j->weights = (uint64_t)(j->filters * column);
  if (has_block(j)) j->block = (uint64_t)(j->filters * width * item);
}

/* The im2col matrix of a tile of one image, in rows of `width`. */
static void im2col(const im2col_job* j, int64_t image, int64_t group, shmt__conv_tile* p, int64_t width, char* to,
                   char* room) {
  const int64_t n_together = shmt__conv_reads_in_place(j->c) ? j->channels : shmt__conv_gathered_channels(j->c),
                rows = j->k / j->channels;

  p->shape.col_row = width;
  for (int64_t i = 0; i < j->channels; i += n_together) {
    const int64_t n = j->channels - i < n_together ? j->channels - i : n_together;
    const char* view = shmt__conv_tile_input(j->c, p, j->images, image, group * j->channels + i, n, room);
    char* data[2] = {to + i * rows * width * j->item, (char*)(uintptr_t)view};
    shmt__loops[SHMT_LOOP_im2col][j->c->dtype](data, NULL, n * rows, &p->shape);
  }
}

/* Fill each row with the bias of its filter. */
static void fill_bias(const im2col_job* j, int64_t group, shmt__matrix rows) {
  const char* bias = (const char*)j->c->bias + group * j->filters * j->item;

  for (int64_t f = 0; f < rows.rows; f++)
    shmt__cast_loop(j->c->dtype, j->c->dtype)(rows.data + f * rows.row_stride * j->item, j->item, bias + f * j->item, 0,
                                              rows.columns);
}

/* Outputs of a tile of n images = weight @ im2col matrix. */
static void run_block(const im2col_job* j, int64_t first, int64_t n, int64_t group, shmt__conv_tile* p, char* room) {
  const shmt__conv* c = j->c;
  const bool is_narrow = c->io_dtype != c->dtype, is_apart = n > 1 || is_narrow;
  const int64_t width = n * p->length, filter = group * j->filters;
  char *const view = room + j->columns, *const block = view + j->view, *const wide = block + j->block;
  char* const to = j->output + ((first * c->filters + filter) * j->out_plane + p->at) * j->item;
  /* Where outputs are rounded, shmt__conv_store_outputs() adds the bias before. */
  const bool has_bias = c->bias && !is_narrow;
  shmt__matrix columns = {room, j->k, width, width, 1};
  const char* weight = shmt__conv_cast_weight(c, j->weight, filter * j->k, j->filters * j->k, wide);
  const shmt__matrix weights = {(char*)(uintptr_t)weight, j->filters, j->k, j->k, 1};
  const shmt__matrix made = {is_apart ? block : to, j->filters, width, is_apart ? width : j->out_plane, 1};

  if (j->is_in_place)
    columns = image_matrix(j, first, group);
  else if (n == 1 && shmt__conv_is_pointwise(c) && !shmt__conv_reads_in_place(c))
    (void)shmt__conv_tile_input(c, p, j->images, first, group * j->channels, j->channels, room);
  else
    for (int64_t i = 0; i < n; i++) im2col(j, first + i, group, p, width, room + i * p->length * j->item, view);
  if (has_bias) fill_bias(j, group, made);
  shmt__gemm(c->dtype, shmt__scalar_int(1), weights, columns, shmt__scalar_int(has_bias), made);
  if (!is_apart) return;
  for (int64_t i = 0; i < n; i++)
    shmt__conv_store_outputs(c, block + i * p->length * j->item, width, first + i, filter, j->filters, p->at, p->length,
                             j->output);
}

static uint64_t room_bytes(const im2col_job* j) { return j->columns + j->view + j->block + j->weights; }

/* Tiles of blocks of images, counted in that order. */
static void run_im2col_blocks(void* ctx, int64_t begin, int64_t end) {
  im2col_job* j = ctx;
  const uint64_t nbytes = room_bytes(j);
  void* room = NULL;

  if (nbytes > 0 && shmt__alloc(nbytes, &room) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t b = begin; b < end; b++) {
    const int64_t first = b / j->n_tiles * j->per_block, left = j->c->n_images - first;
    shmt__conv_tile p = shmt__conv_tile_at(j->c, j->size, b % j->n_tiles);
    for (int64_t g = 0; g < j->c->groups; g++)
      run_block(j, first, left < j->per_block ? left : j->per_block, g, &p, room);
  }
  if (room) shmt__dealloc(room, nbytes);
}

shmt_status shmt__conv_im2col(const shmt__conv* c, const void* images, const void* weight, void* output) {
  im2col_job j;

  job_init(&j, c);
  if (j.out_plane == 0) return SHMT_OK;
  j.images = images;
  j.weight = weight;
  j.output = output;
  const int64_t n_blocks = (c->n_images + j.per_block - 1) / j.per_block, n = n_blocks * j.n_tiles;
  const int64_t threads = shmt__num_threads();
  /* A few tiles of one image are not shared out evenly. */
  if (n < threads || (n_blocks < threads && n < 4 * threads))
    run_im2col_blocks(&j, 0, n);
  else
    shmt__parallel_for(n, 1, run_im2col_blocks, &j);
  SHMT_REQUIRE(!atomic_load_explicit(&j.failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for %llu bytes of columns and what is beside them",
               (unsigned long long)room_bytes(&j));
  return SHMT_OK;
}
