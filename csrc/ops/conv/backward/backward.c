/* ops/conv/backward/backward.c -- gradients of a convolution's images and weight, a box at a time.
 *
 * Note [Boxes]
 * Columns of whole images are many times as large as the images. Here a box of places (of several images, where planes
 * are small) and some channels are at hand at a time: what the box needs is gathered, and widened, from where it lies.
 *   to images    a box of the images; the windows that reach into it are multiplied by the weight and summed there
 *   to a weight  a box of windows, whose columns are multiplied by what belongs to them and added to the weight's gradient
 * Boxes of images share no element, so threads share them out. Of a weight, threads share out the channels.
 *
 * Where products of bfloat16 are made in tiles, what is multiplied keeps that dtype; the products and their sums are of
 * c->dtype, as everywhere.
 */
#include "ops/conv/backward/backward.h"

#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/matmul/blas.h"
#include "ops/matmul/gemm_amx.h"
#include "storage/allocator.h"

#include <stdatomic.h>
#include <string.h>

enum {
  ROOM = 192 << 10,          /* bytes of each kind of a thread's memory, about */
  WEIGHT_GRAD_ROOM = 448 << 10,   /* of columns to a weight */
  INPUT_GRAD_WIDTH = 1024,    /* out_box of a box */
  WEIGHT_GRAD_WIDTH = 256,     /* the same, at least */
  ENOUGH = 64,               /* places of a plane that is a matrix wide enough by itself */
  CHANNELS_TOGETHER = 16,         /* filters of a channel each, whose planes are gathered together */
  WORTH_SHARING = 1 << 18,   /* multiplications */
  FEW_FILTERS = 8,                   /* filters that leave tiles half empty */
  LINE = 64,                 /* bytes that pieces of memory are rounded up to */
};

typedef struct box {
  int64_t begin[5], n[5];
} box;

typedef struct job {
  const shmt__conv* c;
  shmt__image_view images, outputs;
  char* weight;              /* read, or written */
  const char* bias;
  int64_t item, size, k;     /* size: elements of a kernel; k: of a filter */
  shmt_dtype gemm_dtype;         /* of what is multiplied: c->dtype, or bfloat16 */
  int64_t gemm_item;
  int64_t channels, filters; /* of a group */
  int64_t whole[5], step[5]; /* sizes that boxes share out; of a box */
  int64_t n_boxes, n_blocks; /* n_blocks: of the channels of a group */
  int64_t block;             /* channels at hand */
  int64_t width, positions;      /* out_box of a box, elements of a channel of the images there; at most */
  bool is_pointwise;         /* an image is its own column matrix */
  bool is_gemm;           /* and where it is written, or read, a product can be */
  bool reads_outputs;        /* boxes of outputs are matrices as they are */
  bool is_staged;             /* boxes of images are made beside the result: in another dtype, or rows that it has not */
  atomic_bool failed;        /* out of memory */
} job;

/* A thread's memory. */
typedef struct room {
  char *memory, *outputs, *columns, *images, *weight;
  uint64_t nbytes;
} room;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t at_least(int64_t a, int64_t least) { return a > least ? a : least; }
static int64_t volume(const int64_t* size) { return size[0] * size[1] * size[2]; }
static int64_t n_positions(const int64_t* n) { return volume(n + 2); }

static void job_init(job* j, const shmt__conv* c, const shmt__image_view* images, const shmt__image_view* outputs) {
  const int64_t* kernel = c->shape.kernel;

  *j = (job){.c = c, .images = *images, .outputs = *outputs, .item = shmt__dtype_size[c->dtype]};
  j->size = kernel[0] * kernel[1] * kernel[2];
  j->channels = c->channels / c->groups;
  j->filters = c->filters / c->groups;
  j->k = j->channels * j->size;
  j->gemm_dtype = c->io_dtype == SHMT_BFLOAT16 && j->filters > FEW_FILTERS && shmt__gemm_has_amx() ? c->io_dtype : c->dtype;
  j->gemm_item = shmt__dtype_size[j->gemm_dtype];
  /* Padding of the output of a transposed convolution is beyond all out_box. */
  j->is_pointwise = shmt__conv_is_pointwise(c) && memcmp(c->shape.in, c->shape.out, sizeof c->shape.in) == 0;
}

/* Share `whole` out in boxes of `most` places or a little less: long rows first, and images last. */
static void set_boxes(job* j, const int64_t* size, int64_t most) {
  static const int ORDER[] = {4, 3, 2, 0};

  memcpy(j->whole, (int64_t[]){j->c->n_images, 1, size[0], size[1], size[2]}, sizeof j->whole);
  j->step[1] = 1;
  j->n_boxes = 1;
  for (int i = 0; i < 4; i++) {
    const int d = ORDER[i];
    const int64_t n = at_least(ceil_div(j->whole[d], most), 1);
    j->step[d] = at_least(ceil_div(j->whole[d], n), 1);
    j->n_boxes *= ceil_div(j->whole[d], j->step[d]);
    most = at_least(most / j->step[d], 1);
  }
}

static box box_at(const job* j, int64_t i) {
  box b;

  for (int d = 4; d >= 0; d--) {
    const int64_t n = ceil_div(j->whole[d], j->step[d]);
    b.begin[d] = i % n * j->step[d];
    b.n[d] = smaller(j->step[d], j->whole[d] - b.begin[d]);
    i /= n;
  }
  return b;
}

/* The box with other channels. */
static box with_channels(box b, int64_t begin, int64_t n) {
  b.begin[1] = begin;
  b.n[1] = n;
  return b;
}

/* The windows that reach into a box of images. */
static box outputs_reaching(const shmt__conv_shape* s, box b) {
  for (int d = 0; d < 3; d++) {
    const int64_t first = b.begin[2 + d] + s->padding[d] - (s->kernel[d] - 1) * s->dilation[d];
    const int64_t last = (b.begin[2 + d] + b.n[2 + d] - 1 + s->padding[d]) / s->stride[d];
    b.begin[2 + d] = first > 0 ? ceil_div(first, s->stride[d]) : 0;
    b.n[2 + d] = at_least(smaller(last + 1, s->out[d]) - b.begin[2 + d], 0);
  }
  return b;
}

/* The part of the images that a box of windows reaches. */
static box inputs_reached(const shmt__conv_shape* s, box b) {
  for (int d = 0; d < 3; d++) {
    const int64_t begin = b.begin[2 + d] * s->stride[d] - s->padding[d];
    const int64_t end = begin + shmt__conv_reach(s, d, b.n[2 + d]);
    b.begin[2 + d] = smaller(at_least(begin, 0), s->in[d]);
    b.n[2 + d] = at_least(smaller(end, s->in[d]) - b.begin[2 + d], 0);
  }
  return b;
}

/* The convolution of that part of the images to these windows. */
static shmt__conv_shape shape_of(const shmt__conv_shape* s, const box* images, const box* out_box) {
  shmt__conv_shape part = *s;

  for (int d = 0; d < 3; d++) {
    part.in[d] = images->n[2 + d];
    part.out[d] = out_box->n[2 + d];
    part.padding[d] = s->padding[d] + images->begin[2 + d] - out_box->begin[2 + d] * s->stride[d];
  }
  part.col_row = out_box->n[0] * n_positions(out_box->n);
  return part;
}

/* Can the kernels of the dtype use the planes where they are? Sets the steps if so. */
static bool has_dense_rows(const shmt__image_view* p, shmt_dtype dtype, int64_t* step) {
  const int64_t item = shmt__dtype_size[dtype];

  if (p->dtype != dtype || p->stride[4] != item) return false;
  for (int d = 0; d < 3; d++) step[d] = p->stride[1 + d] / item;
  return true;
}

static shmt__matrix matrix(const void* data, int64_t rows, int64_t columns, int64_t row_stride) {
  return (shmt__matrix){(char*)(uintptr_t)data, rows, columns, row_stride, 1};
}

static uint64_t round_to_cache_line(int64_t nbytes) { return ((uint64_t)nbytes + LINE - 1) / LINE * LINE; }

/* c = a @ b of what is multiplied, or that is added to c. */
static void multiply(const job* j, shmt__matrix a, shmt__matrix b, bool adds, shmt__matrix c) {
  if (j->gemm_dtype == j->c->dtype)
    shmt__gemm(j->c->dtype, shmt__scalar_int(1), a, b, shmt__scalar_int(adds), c);
  else
    shmt__gemm_bfloat16_float32(a, b, adds, c);
}

/* Memory for so many bytes of each kind. False: none; the job has failed. */
static bool room_init(job* j, room* r, int64_t outputs, int64_t columns, int64_t images, int64_t weight) {
  const uint64_t first = round_to_cache_line(outputs), second = round_to_cache_line(columns),
                 third = round_to_cache_line(images);
  void* memory = NULL;

  r->nbytes = first + second + third + round_to_cache_line(weight);
  if (shmt__alloc(r->nbytes, &memory) != SHMT_OK) {
    /* relaxed: read after the pool's own join. */
    atomic_store_explicit(&j->failed, true, memory_order_relaxed);
    return false;
  }
  r->memory = r->outputs = memory;
  r->columns = r->outputs + first;
  r->images = r->columns + second;
  r->weight = r->images + third;
  return true;
}

static shmt_status result_of(const job* j) {
  SHMT_REQUIRE(!atomic_load_explicit(&j->failed, memory_order_relaxed), SHMT_E_NOMEM,
               "convolution: no memory for columns of %lld elements", (long long)j->k);
  return SHMT_OK;
}

/* Is what any box needs of planes of that size a matrix where it lies? used: what all of them need of an image. Cut along
 * a dim, it is one where nothing lies around that dim. */
static bool in_place(const job* j, const shmt__image_view* p, shmt_dtype dtype, const int64_t* size, int64_t channels,
                     const int64_t* used) {
  const int64_t n[5] = {j->step[0], channels, size[0], size[1], size[2]};
  int64_t around = j->step[0];
  shmt__matrix m;

  for (int d = 2; d < 5; d++) {
    if (around != 1 && (j->step[d] != j->whole[d] || used[d] != n[d])) return false;
    around *= n[d];
  }
  return shmt__image_view_is_matrix(p, n, dtype, &m);
}

/* Share out, and see what can be read and written where it lies. */
static void plan_boxes(job* j, const int64_t* size, int64_t most) {
  const shmt__conv_shape* s = &j->c->shape;
  const box all = {{0}, {1, 1, size[0], size[1], size[2]}};
  const bool is_input_grad = size == s->in;
  const box out_box = is_input_grad ? outputs_reaching(s, all) : all;

  set_boxes(j, size, most);
  j->reads_outputs = in_place(j, &j->outputs, j->gemm_dtype, s->out, j->filters, out_box.n);
  j->is_gemm = j->is_pointwise && in_place(j, &j->images, is_input_grad ? j->c->dtype : j->gemm_dtype, s->in, j->channels,
                                           out_box.n);
}

/* --- images ------------------------------------------------------------------------- */

/* n elements = the bias, or 0. */
static void fill(const job* j, const shmt__image_view* to, const box* b) {
  static const char ZERO[16];
  const shmt__image_view from = {(char*)(uintptr_t)(j->bias ? j->bias + b->begin[1] * j->item : ZERO), j->c->dtype,
                                 {0, j->bias ? j->item : 0}};

  shmt__image_view_copy(to, &from, b->n);
}

/* The box of images, whose channels the columns belong to, = the columns' sum. */
static void col2im(const job* j, const room* r, const box* b, const box* out_box, const shmt__image_view* to) {
  shmt__conv_shape shape = shape_of(&j->c->shape, b, out_box);

  fill(j, to, b);
  (void)has_dense_rows(to, j->c->dtype, shape.step);
  for (int64_t i = 0; i < b->n[0]; i++) {
    char* data[2] = {r->columns + i * n_positions(out_box->n) * j->item, to->data + i * to->stride[0]};
    shmt__loops[SHMT_LOOP_col2im][j->c->dtype](data, NULL, b->n[1] * j->size, &shape);
  }
}

/* Some channels of a box of images; outputs: the windows' matrix. */
static void input_grad(const job* j, const room* r, box b, const box* out_box, shmt__matrix outputs) {
  const int64_t rows = b.n[1] * j->size, width = outputs.columns, group = b.begin[1] / j->channels;
  const int64_t first = group * j->filters * j->k + (b.begin[1] - group * j->channels) * j->size;
  const int64_t io_item = shmt__dtype_size[j->c->io_dtype];
  const shmt__image_view result = shmt__image_view_at(&j->images, b.begin);
  const shmt__image_view to = j->is_staged ? shmt__image_view_cnhw(r->images, j->c->dtype, b.n) : result;
  shmt__matrix weight = matrix(j->weight + first * io_item, j->filters, rows, j->k), columns;

  if (j->c->io_dtype != j->gemm_dtype) {
    for (int64_t f = 0; f < j->filters; f++)
      shmt__cast_loop(j->gemm_dtype, j->c->io_dtype)(r->weight + f * rows * j->gemm_item, j->gemm_item,
                                                     weight.data + f * j->k * io_item, io_item, rows);
    weight = matrix(r->weight, j->filters, rows, rows);
  }
  if (!j->is_gemm)
    columns = matrix(r->columns, rows, width, width);
  else
    columns = shmt__image_view_as_matrix(&to, b.n, j->c->dtype, NULL);
  if (j->is_gemm && j->bias) fill(j, &to, &b);
  multiply(j, shmt__matrix_transposed(weight), outputs, j->is_gemm && j->bias, columns);
  if (!j->is_gemm) col2im(j, r, &b, out_box, &to);
  if (j->is_staged) shmt__image_view_copy(&result, &to, b.n);
}

/* Boxes and, of each, blocks of channels. */
static void run_input_grad(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  const shmt__conv* c = j->c;
  const int64_t n_blocks = j->n_blocks * c->groups;
  int64_t at_hand = -1;
  shmt__matrix outputs = {0};
  room r;

  if (!room_init(j, &r, j->reads_outputs ? 0 : j->filters * j->width * j->gemm_item,
                 j->is_gemm ? 0 : j->block * j->size * j->width * j->item,
                 j->is_staged ? j->block * j->positions * j->item : 0,
                 c->io_dtype == j->gemm_dtype ? 0 : j->filters * j->block * j->size * j->gemm_item))
    return;
  for (int64_t u = begin; u < end; u++) {
    const int64_t group = u % n_blocks / j->n_blocks, channel = u % j->n_blocks * j->block;
    const box b = box_at(j, u / n_blocks);
    const box out_box = outputs_reaching(&c->shape, with_channels(b, group * j->filters, j->filters));
    if (at_hand != u / j->n_blocks) {
      const shmt__image_view from = shmt__image_view_at(&j->outputs, out_box.begin);
      outputs = shmt__image_view_as_matrix(&from, out_box.n, j->gemm_dtype, j->reads_outputs ? NULL : r.outputs);
      at_hand = u / j->n_blocks;
    }
    input_grad(j, &r, with_channels(b, group * j->channels + channel, smaller(j->block, j->channels - channel)),
               &out_box, outputs);
  }
  shmt__dealloc(r.memory, r.nbytes);
}

/* How many channels fit in `most` bytes, at least one, when one takes nbytes. */
static void set_block(job* j, int64_t most, int64_t nbytes) {
  j->block = smaller(at_least(most / at_least(nbytes, 1), 1), j->channels);
  j->n_blocks = ceil_div(j->channels, j->block);
  j->block = ceil_div(j->channels, j->n_blocks);
}

static void plan_input_grad(job* j) {
  const shmt__conv_shape* s = &j->c->shape;
  const bool is_cast = j->images.dtype != j->c->dtype, is_plane = j->is_pointwise && volume(s->in) >= ENOUGH;
  const int64_t fits = at_least(ROOM / (j->filters * j->gemm_item), ENOUGH);
  int64_t phases = 1;

  for (int d = 0; d < 3; d++) phases *= smaller(s->stride[d], s->in[d]);
  plan_boxes(j, s->in, volume(s->in));
  if (!(is_plane && j->is_gemm && j->reads_outputs))
    plan_boxes(j, s->in, phases * (j->reads_outputs ? INPUT_GRAD_WIDTH : smaller(fits, INPUT_GRAD_WIDTH)));
  if (is_cast) j->is_gemm = j->is_pointwise;
  j->is_staged = is_cast || (!j->is_gemm && j->images.stride[4] != j->item);
  j->positions = j->width = j->step[0];
  for (int d = 0; d < 3; d++) {
    const int64_t reach = j->step[2 + d] + (s->kernel[d] - 1) * s->dilation[d];
    j->width *= smaller(s->out[d], reach / s->stride[d] + 1);
    j->positions *= j->step[2 + d];
  }
  const int64_t columns = j->is_gemm ? 0 : j->size * j->width * j->item, made = j->is_staged ? j->positions * j->item : 0;
  const int64_t widened = j->c->io_dtype == j->gemm_dtype ? 0 : j->size * j->filters * j->gemm_item;
  set_block(j, ROOM, at_least(at_least(columns, made), widened));
}

shmt_status shmt__conv_input_grad_col2im(const shmt__conv* c, const shmt__image_view* outputs, const void* weight,
                                         const void* bias, const shmt__image_view* images) {
  const int64_t threads = shmt__num_threads();
  job j;

  job_init(&j, c, images, outputs);
  j.weight = (char*)(uintptr_t)weight;
  j.bias = bias;
  plan_input_grad(&j);
  if (j.n_boxes * c->groups * j.n_blocks < threads && j.channels >= 2 * threads) {
    j.block = ceil_div(j.channels, threads);
    j.n_blocks = ceil_div(j.channels, j.block);
  }
  const int64_t n = j.n_boxes * c->groups * j.n_blocks, work = j.width * j.filters * j.block * j.size;
  const int64_t share = smaller(j.n_blocks, ceil_div(n, threads)), least = WORTH_SHARING / (work + 1) + 1;
  if (n < threads) /* then the product is shared out */
    run_input_grad(&j, 0, n);
  else
    shmt__parallel_for(n, at_least(share, least), run_input_grad, &j);
  return result_of(&j);
}

/* --- weight ------------------------------------------------------------------------- */

/* The columns of a box of windows of some channels; images: the part that the box reaches. */
static shmt__matrix im2col(const job* j, const room* r, const box* images, const box* out_box) {
  const int64_t width = out_box->n[0] * n_positions(out_box->n), rows = images->n[1] * j->size;
  const int64_t one[5] = {1, images->n[1], images->n[2], images->n[3], images->n[4]};
  const shmt__image_view part = shmt__image_view_at(&j->images, images->begin);
  shmt__conv_shape shape = shape_of(&j->c->shape, images, out_box);

  if (j->is_pointwise) return shmt__image_view_as_matrix(&part, images->n, j->gemm_dtype, j->is_gemm ? NULL : r->columns);
  for (int64_t i = 0; i < out_box->n[0]; i++) {
    shmt__image_view image = part;
    image.data += i * part.stride[0];
    if (!has_dense_rows(&image, j->gemm_dtype, shape.step)) {
      const shmt__image_view to = shmt__image_view_cnhw(r->images, j->gemm_dtype, one);
      shmt__image_view_copy(&to, &image, one);
      image = to;
      (void)has_dense_rows(&image, j->gemm_dtype, shape.step);
    }
    char* data[2] = {r->columns + i * n_positions(out_box->n) * j->gemm_item, image.data};
    shmt__loops[SHMT_LOOP_im2col][j->gemm_dtype](data, NULL, rows, &shape);
  }
  return matrix(r->columns, rows, width, width);
}

/* The weight's gradient of some channels, summed over all boxes. */
static void weight_grad(const job* j, const room* r, int64_t channel, int64_t n) {
  const shmt__conv* c = j->c;
  const int64_t group = channel / j->channels, rows = n * j->size, io_item = shmt__dtype_size[c->io_dtype];
  char* const to = j->weight + (group * j->filters * j->k + channel % j->channels * j->size) * io_item;
  const shmt__matrix sums = c->io_dtype == c->dtype ? matrix(to, j->filters, rows, j->k)
                                                 : matrix(r->weight, j->filters, rows, rows);

  for (int64_t i = 0; i < j->n_boxes; i++) {
    const box out_box = with_channels(box_at(j, i), group * j->filters, j->filters);
    const box images = with_channels(inputs_reached(&c->shape, out_box), channel, n);
    const shmt__image_view from = shmt__image_view_at(&j->outputs, out_box.begin);
    const shmt__matrix outputs =
        shmt__image_view_as_matrix(&from, out_box.n, j->gemm_dtype, j->reads_outputs ? NULL : r->outputs);
    const shmt__matrix columns = im2col(j, r, &images, &out_box);
    multiply(j, outputs, shmt__matrix_transposed(columns), i > 0, sums);
  }
  for (int64_t f = 0; sums.data != to && f < j->filters; f++)
    shmt__cast_loop(c->io_dtype, c->dtype)(to + f * j->k * io_item, io_item, sums.data + f * rows * j->item, j->item, rows);
}

/* Channels, counted through the groups. */
static void run_weight_grad(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  const shmt__conv* c = j->c;
  int64_t step[3];
  room r;

  if (!room_init(
          j, &r, j->reads_outputs ? 0 : j->filters * j->width * j->gemm_item,
          j->is_gemm ? 0 : j->block * j->size * j->width * j->gemm_item,
          j->is_pointwise || has_dense_rows(&j->images, j->gemm_dtype, step) ? 0 : j->block * j->positions * j->gemm_item,
          c->io_dtype == c->dtype ? 0 : j->filters * j->block * j->size * j->item))
    return;
  for (int64_t channel = begin, n; channel < end; channel += n) {
    n = smaller(smaller(j->block, j->channels - channel % j->channels), end - channel);
    weight_grad(j, &r, channel, n);
  }
  shmt__dealloc(r.memory, r.nbytes);
}

static void plan_weight_grad(job* j) {
  const shmt__conv_shape* s = &j->c->shape;
  const int64_t fits = at_least(ROOM / (j->filters * j->gemm_item), ENOUGH), plane = volume(s->out);
  /* What is widened takes twice the memory of the tensors. */
  const int64_t bytes = j->gemm_dtype == j->c->io_dtype ? WEIGHT_GRAD_ROOM : WEIGHT_GRAD_ROOM * 3 / 4;
  int64_t step[3];

  plan_boxes(j, s->out, plane);
  if (!(j->is_gemm && j->reads_outputs && plane >= ENOUGH)) {
    int64_t most = at_least(bytes / (j->k * j->gemm_item), WEIGHT_GRAD_WIDTH);
    if (j->reads_outputs && plane >= ENOUGH) most = smaller(most, plane);
    plan_boxes(j, s->out, j->reads_outputs ? most : smaller(fits, most));
  }
  j->width = j->step[0] * n_positions(j->step);
  j->positions = 1;
  for (int d = 0; d < 3; d++) j->positions *= smaller(s->in[d], shmt__conv_reach(s, d, j->step[2 + d]));
  const int64_t columns = j->is_gemm ? 0 : j->size * j->width * j->gemm_item;
  const int64_t gathered =
      j->is_pointwise || has_dense_rows(&j->images, j->gemm_dtype, step) ? 0 : j->positions * j->gemm_item;
  const int64_t sums = j->c->io_dtype == j->c->dtype ? 0 : j->size * j->filters * j->item;
  set_block(j, bytes, at_least(at_least(columns, gathered), sums));
}

/* --- one channel for each filter ---------------------------------------------------- */

/* n planes as the kernel reads them, `pitch` elements apart: where they are, or copied to `own`. */
static const char* planes_at(const job* j, const shmt__image_view* p, int64_t image, int64_t channel, const int64_t* size,
                             int64_t n, char* own, int64_t* pitch) {
  const int64_t number[5] = {1, n, size[0], size[1], size[2]};
  const shmt__image_view from = shmt__image_view_at(p, (int64_t[]){image, channel, 0, 0, 0});
  shmt__image_view to = shmt__image_view_cnhw(own, j->c->dtype, number);
  const bool is_dense = from.dtype == to.dtype && from.stride[4] == j->item && (size[1] == 1 || from.stride[3] == to.stride[3]);

  if (is_dense)
    to = from;
  else
    shmt__image_view_copy(&to, &from, number);
  *pitch = to.stride[1];
  return to.data;
}

/* Blocks of filters, each summed over the images in order. */
static void depthwise_weight_grad(void* ctx, int64_t begin, int64_t end) {
  job* j = ctx;
  const shmt__conv* c = j->c;
  const int64_t in = volume(c->shape.in), out = volume(c->shape.out);
  room r;

  if (!room_init(j, &r, j->block * out * j->item, j->block * j->k * j->item, j->block * in * j->item,
                 shmt__conv_depthwise_scratch(&c->shape) * j->item))
    return;
  for (int64_t first = begin * j->block; first < smaller(end * j->block, c->filters); first += j->block) {
    const int64_t n = smaller(j->block, c->filters - first), channel = first / j->filters;
    const int64_t last = (first + n - 1) / j->filters, io_item = shmt__dtype_size[c->io_dtype];
    memset(r.columns, 0, (size_t)(n * j->k * j->item));
    for (int64_t i = 0; i < c->n_images; i++) {
      int64_t image_pitch, pitch;
      const char* images = planes_at(j, &j->images, i, channel, c->shape.in, last + 1 - channel, r.images, &image_pitch);
      const char* outputs = planes_at(j, &j->outputs, i, first, c->shape.out, n, r.outputs, &pitch);
      for (int64_t f = first; f < first + n; f++) {
        char* data[4] = {r.columns + (f - first) * j->k * j->item,
                         (char*)(uintptr_t)images + (f / j->filters - channel) * image_pitch,
                         (char*)(uintptr_t)outputs + (f - first) * pitch, r.weight};
        shmt__loops[SHMT_LOOP_conv_depthwise_weight_grad][c->dtype](data, NULL, 1, &c->shape);
      }
    }
    shmt__cast_loop(c->io_dtype, c->dtype)(j->weight + first * j->k * io_item, io_item, r.columns, j->item, n * j->k);
  }
  shmt__dealloc(r.memory, r.nbytes);
}

shmt_status shmt__conv_weight_grad_im2col(const shmt__conv* c, const shmt__image_view* images,
                                          const shmt__image_view* outputs, void* weight) {
  const int64_t threads = shmt__num_threads(), out = volume(c->shape.out);
  job j;

  job_init(&j, c, images, outputs);
  j.weight = weight;
  if (shmt__conv_is_depthwise(c)) {
    j.block = smaller(at_least(ROOM / ((volume(c->shape.in) + out) * j.item), 1), CHANNELS_TOGETHER);
    const int64_t work = j.block * out * j.k * c->n_images;
    shmt__parallel_for(ceil_div(c->filters, j.block), WORTH_SHARING / (work + 1) + 1, depthwise_weight_grad, &j);
    return result_of(&j);
  }
  plan_weight_grad(&j);
  const int64_t work = c->n_images * out * j.filters * j.size;
  if (c->channels < 2 * threads) /* then the products are shared out */
    run_weight_grad(&j, 0, c->channels);
  else
    shmt__parallel_for(c->channels, at_least(ceil_div(c->channels, threads), WORTH_SHARING / (work + 1) + 1),
                       run_weight_grad, &j);
  return result_of(&j);
}
