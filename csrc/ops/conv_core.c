/* ops/conv_core.c -- images to columns, one product per group, and back.
 *
 * Note [Blocks of images]
 * A product is fast when it is wide. Small outputs are therefore taken several images at a time: their columns stand
 * side by side, and the product's result, in which an image's rows are apart, is copied to its place.
 * Blocks of images are shared out over the pool when there are enough of them; otherwise the products are.
 */
#include "ops/conv_core.h"

#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/copy.h"
#include "iter/threads.h"
#include "ops/blas.h"
#include "ops/conv_direct.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <string.h>

enum { WIDE_ENOUGH = 192, MAX_COLUMN_BYTES = 1 << 22 };

typedef enum direction { FORWARD, TO_IMAGES, TO_WEIGHT } direction;

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

bool shmt__conv_is_pointwise(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;

  for (int d = 0; d < 3; d++)
    if (s->kernel[d] != 1 || s->stride[d] != 1 || s->padding[d] != 0) return false;
  return true;
}

static void job_init(job* j, const shmt__conv* c, direction way) {
  *j = (job){.c = c, .direction = way, .item = shmt__dtype_size[c->dtype]};
  j->in_plane = c->shape.in[0] * c->shape.in[1] * c->shape.in[2];
  j->out_plane = c->shape.out[0] * c->shape.out[1] * c->shape.out[2];
  j->k = c->channels / c->groups * c->shape.kernel[0] * c->shape.kernel[1] * c->shape.kernel[2];
  j->is_1x1 = shmt__conv_is_pointwise(c);
  j->per_block = 1;
  const int64_t wide = j->is_1x1 ? WIDE_ENOUGH / 3 : WIDE_ENOUGH; /* columns of 1x1 need no memory of their own */
  if (j->out_plane < wide && j->out_plane > 0 && !c->channels_last) {
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
  return base + (image * j->c->channels * j->in_plane + first * (j->c->channels_last ? 1 : j->in_plane)) * j->item;
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

/* Rows of the outputs of a group, each full of its filter's bias. */
static void fill_bias(const job* j, int64_t group, int64_t width, char* to) {
  const int64_t filters = j->c->filters / j->c->groups;
  const char* bias = (const char*)j->c->bias + group * filters * j->item;

  for (int64_t f = 0; f < filters; f++, to += width * j->item)
    shmt__cast_loop(j->c->dtype, j->c->dtype)(to, j->item, bias + f * j->item, 0, width);
}

/* output block = weight @ columns. */
static void forward_block(const job* j, int64_t first, int64_t n, int64_t group, char* col, char* block) {
  const int64_t filters = j->c->filters / j->c->groups, width = n * j->out_plane;
  const char* weight = j->weight + group * filters * j->k * j->item;
  shmt__matrix columns = matrix(col, j->k, width, width);
  char* to = n == 1 ? (char*)(uintptr_t)output_of(j, j->to, first, group) : block;

  if (j->is_1x1 && n == 1)
    columns.data = (char*)(uintptr_t)image_of(j, j->images, first, group);
  else
    make_columns(j, first, n, group, col);
  if (j->c->channels_last) {
    columns.row_stride = 1;
    columns.column_stride = j->c->channels;
  }
  if (j->c->bias) fill_bias(j, group, width, to);
  (void)shmt__gemm(j->c->dtype, shmt__scalar_int(1), matrix(weight, filters, j->k, j->k),
                   columns, shmt__scalar_int(j->c->bias ? 1 : 0), matrix(to, filters, width, width));
  for (int64_t i = 0; n > 1 && i < n; i++)
    move_rows(j, block, n, i, (char*)(uintptr_t)output_of(j, j->to, first + i, group), false);
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
      if (j->direction == FORWARD) forward_block(j, first, n, g, memory, block);
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

/* --- tensors by blocks -------------------------------------------------------------- */

bool shmt__conv_has_blocks(const shmt__conv* c) { return shmt__conv_is_depthwise(c) || shmt__conv_direct_has_blocks(c); }

void shmt__conv_get_planes(const shmt__conv* c, const char* images, int64_t image, int64_t first, int64_t n, char* to) {
  const int64_t plane = c->shape.in[0] * c->shape.in[1] * c->shape.in[2];
  const int64_t item = shmt__dtype_size[c->given], wide = shmt__dtype_size[c->dtype];
  const int64_t channel = c->channels_last ? 1 : plane, position = c->channels_last ? c->channels : 1;

  for (int64_t i = 0; i < n; i++)
    shmt__cast_loop(c->dtype, c->given)(to + i * plane * wide, wide,
                                        images + (image * c->channels * plane + (first + i) * channel) * item,
                                        position * item, plane);
}

void shmt__conv_get_weight(const shmt__conv* c, const char* weight, int64_t first, int64_t n, char* to) {
  const int64_t item = shmt__dtype_size[c->given];

  shmt__cast_loop(c->dtype, c->given)(to, shmt__dtype_size[c->dtype], weight + first * item, item, n);
}

void shmt__conv_put_planes(const shmt__conv* c, char* from, int64_t first, int64_t n, char* output) {
  const int64_t plane = c->shape.out[0] * c->shape.out[1] * c->shape.out[2];
  const int64_t item = shmt__dtype_size[c->given], wide = shmt__dtype_size[c->dtype];
  const shmt_scalar one = shmt__scalar_int(1);

  for (int64_t i = 0; c->bias && i < n; i++) {
    char* const at = from + i * plane * wide;
    char* data[3] = {at, at, (char*)(uintptr_t)c->bias + (first + i) % c->filters * wide};
    shmt__loops[SHMT_LOOP_add][c->dtype](data, (const int64_t[]){wide, wide, 0}, plane, &one);
  }
  shmt__cast_loop(c->given, c->dtype)(output + first * plane * item, item, from, wide, n * plane);
}

/* --- one channel for each filter ---------------------------------------------------- */

/* A product of one row is no product worth the columns: planes are filtered as they are. */
bool shmt__conv_is_depthwise(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  return c->groups == c->channels && c->groups > 1 && s->in[0] == 1 && s->kernel[0] == 1 && s->out[0] == 1 &&
         shmt__loops[SHMT_LOOP_depthwise][c->dtype] != NULL;
}

/* With room for what a plane is made of and for itself where tensors are taken by blocks. */
static uint64_t padded_plane_bytes(const job* j) {
  const int64_t more = j->c->by_blocks ? j->in_plane + j->out_plane + j->k : 0;
  return (uint64_t)((shmt__depthwise_scratch(&j->c->shape) + more) * j->item);
}

/* Plane p of the output. */
static void filter_apart(const job* j, int64_t p, char* scratch) {
  const shmt__conv* c = j->c;
  const int64_t filter = p % c->filters;
  char* const from = scratch + shmt__depthwise_scratch(&c->shape) * j->item;
  char* const to = from + j->in_plane * j->item;
  char* const weight = to + j->out_plane * j->item;
  char* data[4] = {to, from, weight, scratch};

  shmt__conv_get_planes(c, j->images, p / c->filters, filter / (c->filters / c->groups), 1, from);
  shmt__conv_get_weight(c, j->weight, filter * j->k, j->k, weight);
  shmt__loops[SHMT_LOOP_depthwise][c->dtype](data, NULL, 1, &c->shape);
  shmt__conv_put_planes(c, to, p, 1, j->to);
}

/* Scratch space of one piece, or NULL when the job has failed. */
static void* padded_plane(job* j) {
  void* scratch = NULL;

  /* relaxed: read after the pool's own join. */
  if (shmt__alloc(padded_plane_bytes(j), &scratch) != SHMT_OK)
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
  return scratch;
}

static void filter_planes(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  const shmt__conv* c = j->c;
  void* const scratch = padded_plane(j);

  if (!scratch) return;
  for (int64_t p = begin; p < end; p++) {
    if (c->by_blocks) {
      filter_apart(j, p, scratch);
      continue;
    }
    const int64_t filter = p % c->filters, channel = filter / (c->filters / c->groups);
    char* data[4] = {j->to + p * j->out_plane * j->item,
                     (char*)(uintptr_t)image_of(j, j->images, p / c->filters, channel),
                     (char*)(uintptr_t)j->weight + filter * j->k * j->item, scratch};
    shmt__loops[SHMT_LOOP_depthwise][c->dtype](data, NULL, 1, &c->shape);
  }
  shmt__dealloc(scratch, padded_plane_bytes(j));
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
  job j;

  job_init(&j, c, FORWARD);
  j.images = images;
  j.weight = weight;
  j.to = output;
  if (c->channels_last && !c->by_blocks) return run(&j);
  if (shmt__conv_is_depthwise(c)) return run_depthwise(&j, filter_planes, c->n_images * c->filters);
  return shmt__conv_is_direct(c) ? shmt__conv_direct(c, images, weight, output) : run(&j);
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
