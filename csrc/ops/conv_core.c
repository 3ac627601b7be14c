/* ops/conv_core.c -- the ways of a convolution, and products for its gradients.
 *
 * Blocks of images: see Note [Columns of parts] in ops/conv_columns.c. Here they are of whole images.
 */
#include "ops/conv_core.h"

#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/threads.h"
#include "ops/blas.h"
#include "ops/conv_columns.h"
#include "ops/conv_depthwise.h"
#include "ops/conv_direct.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <string.h>

enum { WIDE_ENOUGH = 192, MAX_COLUMN_BYTES = 1 << 22 };

typedef enum direction { TO_IMAGES, TO_WEIGHT } direction;

typedef struct job {
  const shmt__conv* c;
  direction direction;
  const char* images;
  const char* weight;
  const char* output;
  char* to;
  int64_t item, in_plane, out_plane; /* elements of a channel */
  int64_t k;                         /* rows of the columns of one group */
  int64_t per_block;                 /* images */
  bool is_1x1;                       /* the image is its own column matrix */
  atomic_bool failed;                /* out of memory */
} job;

void shmt__conv_set_dense(shmt__conv* c) {
  const int64_t item = shmt__dtype_size[c->dtype];

  shmt__conv_shape_dense(&c->shape);
  c->given = c->dtype;
  c->weight_last = false;
  c->step[2] = item;
  c->step[1] = c->shape.step[2] * item;
  c->step[0] = c->shape.step[1] * item;
  c->channel_step = c->shape.step[0] * item;
  c->image_step = c->channels * c->channel_step;
}

static void job_init(job* j, const shmt__conv* c, direction way) {
  *j = (job){.c = c, .direction = way, .item = shmt__dtype_size[c->dtype]};
  j->in_plane = c->shape.in[0] * c->shape.in[1] * c->shape.in[2];
  j->out_plane = c->shape.out[0] * c->shape.out[1] * c->shape.out[2];
  j->k = c->channels / c->groups * c->shape.kernel[0] * c->shape.kernel[1] * c->shape.kernel[2];
  j->is_1x1 = shmt__conv_is_pointwise(c);
  j->per_block = 1;
  const int64_t wide = j->is_1x1 ? WIDE_ENOUGH / 3 : WIDE_ENOUGH; /* columns of 1x1 need no memory of their own */
  if (j->out_plane < wide && j->out_plane > 0) {
    j->per_block = (WIDE_ENOUGH + j->out_plane - 1) / j->out_plane;
    const int64_t fits = MAX_COLUMN_BYTES / (j->k * j->out_plane * j->item + 1);
    if (j->per_block > fits) j->per_block = fits > 0 ? fits : 1;
    /* Every thread should have a block. */
    const int64_t share = (c->n_images + shmt__num_threads() - 1) / shmt__num_threads();
    if (j->per_block > share) j->per_block = share > 0 ? share : 1;
  }
}

static const char* image_of(const job* j, const char* base, int64_t image, int64_t group) {
  const int64_t first = group * (j->c->channels / j->c->groups);
  return base + (image * j->c->channels * j->in_plane + first * j->in_plane) * j->item;
}

static const char* output_of(const job* j, const char* base, int64_t image, int64_t group) {
  return base + (image * j->c->filters + group * (j->c->filters / j->c->groups)) * j->out_plane * j->item;
}

static shmt__matrix matrix(const void* data, int64_t rows, int64_t columns, int64_t row_stride) {
  return (shmt__matrix){(char*)(uintptr_t)data, rows, columns, row_stride, 1};
}

/* The columns of n images side by side. */
static void make_columns(const job* j, int64_t first, int64_t n, int64_t group, char* col) {
  shmt__conv_shape shape = j->c->shape;

  shape.col_row = n * j->out_plane;
  for (int64_t i = 0; i < n; i++) {
    char* data[2] = {col + i * j->out_plane * j->item, (char*)(uintptr_t)image_of(j, j->images, first + i, group)};
    shmt__loops[SHMT_LOOP_im2col][j->c->dtype](data, NULL, j->k, &shape);
  }
}

/* Rows of an image's outputs to and from a block, where images stand side by side. */
static void move_rows(const job* j, char* block, int64_t n, int64_t i, char* rows, bool to_block) {
  const size_t nbytes = (size_t)(j->out_plane * j->item);
  const int64_t filters = j->c->filters / j->c->groups;

  for (int64_t f = 0; f < filters; f++) {
    char* at = block + (f * n + i) * (int64_t)nbytes;
    char* row = rows + f * (int64_t)nbytes;
    if (to_block)
      memcpy(at, row, nbytes);
    else
      memcpy(row, at, nbytes);
  }
}

/* columns = weight^T @ output block, summed into the images. */
static void to_images_block(const job* j, int64_t first, int64_t n, int64_t group, char* col, char* block) {
  const int64_t filters = j->c->filters / j->c->groups, width = n * j->out_plane;
  const char* weight = j->weight + group * filters * j->k * j->item;
  const char* from = n == 1 ? output_of(j, j->output, first, group) : block;
  char* columns = j->is_1x1 && n == 1 ? (char*)(uintptr_t)image_of(j, j->to, first, group) : col;
  shmt__conv_shape shape = j->c->shape;

  for (int64_t i = 0; n > 1 && i < n; i++)
    move_rows(j, block, n, i, (char*)(uintptr_t)output_of(j, j->output, first + i, group), true);
  (void)shmt__gemm(j->c->dtype, shmt__scalar_int(1), shmt__matrix_transposed(matrix(weight, filters, j->k, j->k)),
                   matrix(from, filters, width, width), shmt__scalar_int(0), matrix(columns, j->k, width, width));
  if (columns != col) return;
  shape.col_row = width;
  for (int64_t i = 0; i < n; i++) {
    char* data[2] = {col + i * j->out_plane * j->item, (char*)(uintptr_t)image_of(j, j->to, first + i, group)};
    memset(data[1], 0, (size_t)(j->c->channels / j->c->groups * j->in_plane * j->item));
    shmt__loops[SHMT_LOOP_col2im][j->c->dtype](data, NULL, j->k, &shape);
  }
}

/* weight += output block @ columns^T. */
static void to_weight_block(const job* j, int64_t first, int64_t n, int64_t group, char* col, char* block) {
  const int64_t filters = j->c->filters / j->c->groups, width = n * j->out_plane;
  char* weight = j->to + group * filters * j->k * j->item;
  const char* from = n == 1 ? output_of(j, j->output, first, group) : block;
  const char* columns = col;

  for (int64_t i = 0; n > 1 && i < n; i++)
    move_rows(j, block, n, i, (char*)(uintptr_t)output_of(j, j->output, first + i, group), true);
  if (j->is_1x1 && n == 1)
    columns = image_of(j, j->images, first, group);
  else
    make_columns(j, first, n, group, col);
  (void)shmt__gemm(j->c->dtype, shmt__scalar_int(1), matrix(from, filters, width, width),
                   shmt__matrix_transposed(matrix(columns, j->k, width, width)), shmt__scalar_int(first == 0 ? 0 : 1),
                   matrix(weight, filters, j->k, j->k));
}

static void run_blocks(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  const int64_t width = j->per_block * j->out_plane;
  const bool is_alone = j->per_block == 1; /* then a block is the output itself, and an image its own columns */
  const uint64_t col_bytes = j->is_1x1 && is_alone ? 0 : (uint64_t)(j->k * width * j->item);
  const uint64_t block_bytes = is_alone ? 0 : (uint64_t)(j->c->filters / j->c->groups * width * j->item);
  void* memory = NULL;

  if (shmt__alloc(col_bytes + block_bytes, &memory) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return;
  }
  char* block = (char*)memory + col_bytes;
  for (int64_t b = begin; b < end; b++) {
    const int64_t first = b * j->per_block;
    const int64_t n = j->c->n_images - first < j->per_block ? j->c->n_images - first : j->per_block;
    for (int64_t g = 0; g < j->c->groups; g++) {
      if (j->direction == TO_IMAGES) to_images_block(j, first, n, g, memory, block);
      if (j->direction == TO_WEIGHT) to_weight_block(j, first, n, g, memory, block);
    }
  }
  shmt__dealloc(memory, col_bytes + block_bytes);
}

static shmt_status run(job* j) {
  const int64_t n_blocks = (j->c->n_images + j->per_block - 1) / j->per_block;

  if (n_blocks == 0 || j->out_plane == 0) return SHMT_OK;
  /* Blocks of a weight's gradient all add to the same place, so only their products are split. */
  if (j->direction == TO_WEIGHT || n_blocks < shmt__num_threads())
    run_blocks(j, 0, n_blocks);
  else
    shmt__parallel_for(n_blocks, 1, run_blocks, j);
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for %lld bytes of columns",
               (long long)(j->k * j->per_block * j->out_plane * j->item));
  return SHMT_OK;
}

/* --- one channel for each filter ---------------------------------------------------- */

static uint64_t padded_plane_bytes(const job* j) {
  return (uint64_t)(shmt__depthwise_scratch(&j->c->shape) * j->item);
}

/* Scratch space of one piece, or NULL when the job has failed. */
static void* padded_plane(job* j) {
  void* scratch = NULL;

  /* relaxed: read after the pool's own join. */
  if (shmt__alloc(padded_plane_bytes(j), &scratch) != SHMT_OK)
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
  return scratch;
}

/* Gradients of filters, each summed over the images in order. */
static void weigh_filters(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  const shmt__conv* c = j->c;
  void* const scratch = padded_plane(j);

  if (!scratch) return;
  for (int64_t filter = begin; filter < end; filter++) {
    char* to = j->to + filter * j->k * j->item;
    memset(to, 0, (size_t)(j->k * j->item));
    for (int64_t i = 0; i < c->n_images; i++) {
      char* data[4] = {to, (char*)(uintptr_t)image_of(j, j->images, i, filter / (c->filters / c->groups)),
                       (char*)(uintptr_t)j->output + (i * c->filters + filter) * j->out_plane * j->item, scratch};
      shmt__loops[SHMT_LOOP_depthwise_weight][c->dtype](data, NULL, 1, &c->shape);
    }
  }
  shmt__dealloc(scratch, padded_plane_bytes(j));
}

static shmt_status run_depthwise(job* j, void (*piece)(void*, int64_t, int64_t), int64_t n) {
  enum { GRAIN = 32768 }; /* multiplications below which another thread does not pay */
  const int64_t work = j->out_plane * j->k;

  if (j->out_plane == 0) return SHMT_OK;
  shmt__parallel_for(n, GRAIN / (work + 1) + 1, piece, j);
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for a padded plane of %llu bytes",
               (unsigned long long)padded_plane_bytes(j));
  return SHMT_OK;
}

shmt_status shmt__conv_forward(const shmt__conv* c, const void* images, const void* weight, void* output) {
  if (shmt__conv_is_depthwise(c)) return shmt__conv_depthwise(c, images, weight, output);
  return (shmt__conv_is_direct(c) ? shmt__conv_direct : shmt__conv_columns)(c, images, weight, output);
}

shmt_status shmt__conv_to_images(const shmt__conv* c, const void* output, const void* weight, void* images) {
  job j;

  job_init(&j, c, TO_IMAGES);
  j.output = output;
  j.weight = weight;
  j.to = images;
  if (shmt__conv_is_direct_back(c)) return shmt__conv_direct_back(c, output, weight, images);
  if (j.out_plane == 0) memset(images, 0, (size_t)(c->n_images * c->channels * j.in_plane * j.item));
  return run(&j);
}

shmt_status shmt__conv_to_weight(const shmt__conv* c, const void* images, const void* output, void* weight) {
  job j;

  job_init(&j, c, TO_WEIGHT);
  j.images = images;
  j.output = output;
  j.to = weight;
  if (c->n_images == 0 || j.out_plane == 0) memset(weight, 0, (size_t)(c->filters * j.k * j.item));
  if (shmt__conv_is_depthwise(c)) return run_depthwise(&j, weigh_filters, c->filters);
  return run(&j);
}
