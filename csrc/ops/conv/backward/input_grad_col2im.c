/* ops/conv/backward/input_grad_col2im.c -- input gradient by matrix products whose columns are summed (col2im).
 *
 * This algorithm takes every shape, dtype and layout. Note [Boxes] in ops/conv/backward/boxes.h says how it is cut.
 */
#include "ops/conv/backward/input_grad_col2im.h"

#include "base/sizes.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/conv/backward/boxes.h"
#include "storage/allocator.h"

enum { WIDTH = 1024 }; /* outputs of a box */

/* n elements = the bias, or 0. */
static void fill_box(const shmt__conv_boxes* j, const shmt__image_view* to, const shmt__conv_box* b) {
  static const char ZERO[16];
  const shmt__image_view from = {(char*)(uintptr_t)(j->bias ? j->bias + b->begin[1] * j->item : ZERO), j->c->dtype,
                                 {0, j->bias ? j->item : 0}};

  shmt__image_view_copy(to, &from, b->n);
}

/* A box of the input gradient = the bias plus the sum of its columns. */
static void col2im(const shmt__conv_boxes* j, const shmt__conv_box_memory* r, const shmt__conv_box* b,
                   const shmt__conv_box* outputs_box, const shmt__image_view* to) {
  shmt__conv_shape shape = shmt__conv_box_shape(&j->c->shape, b, outputs_box);

  fill_box(j, to, b);
  (void)shmt__image_view_has_dense_rows(to, j->c->dtype, shape.step);
  for (int64_t i = 0; i < b->n[0]; i++) {
    char* data[2] = {r->columns + i * shmt__conv_box_positions(outputs_box) * j->item, to->data + i * to->stride[0]};
    shmt__loops[SHMT_LOOP_col2im][j->c->dtype](data, NULL, b->n[1] * j->size, &shape);
  }
}

/* Some channels of a box of the input gradient; outputs: the matrix of the outputs that read from it. */
static void input_grad(const shmt__conv_boxes* j, const shmt__conv_box_memory* r, shmt__conv_box b,
                       const shmt__conv_box* outputs_box, shmt__matrix outputs) {
  const int64_t rows = b.n[1] * j->size, width = outputs.columns, group = b.begin[1] / j->channels;
  const int64_t first = group * j->filters * j->k + (b.begin[1] - group * j->channels) * j->size;
  const int64_t io_item = shmt__dtype_size[j->c->io_dtype];
  const shmt__image_view result = shmt__image_view_at(&j->images, b.begin);
  const shmt__image_view to = j->is_staged ? shmt__image_view_cnhw(r->images, j->c->dtype, b.n) : result;
  shmt__matrix weight = shmt__conv_box_matrix(j->weight + first * io_item, j->filters, rows, j->k), columns;

  if (j->c->io_dtype != j->gemm_dtype) {
    for (int64_t f = 0; f < j->filters; f++)
      shmt__cast_loop(j->gemm_dtype, j->c->io_dtype)(r->weight + f * rows * j->gemm_item, j->gemm_item,
                                                     weight.data + f * j->k * io_item, io_item, rows);
    weight = shmt__conv_box_matrix(r->weight, j->filters, rows, rows);
  }
  if (!j->is_gemm)
    columns = shmt__conv_box_matrix(r->columns, rows, width, width);
  else
    columns = shmt__image_view_as_matrix(&to, b.n, j->c->dtype, NULL);
  if (j->is_gemm && j->bias) fill_box(j, &to, &b);
  shmt__conv_box_multiply(j, shmt__matrix_transposed(weight), outputs, j->is_gemm && j->bias, columns);
  if (!j->is_gemm) col2im(j, r, &b, outputs_box, &to);
  if (j->is_staged) shmt__image_view_copy(&result, &to, b.n);
}

/* Units [begin, end): boxes and, of each, blocks of channels. */
static void run_input_grad(void* ctx, int64_t begin, int64_t end) {
  shmt__conv_boxes* j = ctx;
  const shmt__conv* c = j->c;
  const int64_t n_blocks = j->n_blocks * c->groups;
  int64_t at_hand = -1;
  shmt__matrix outputs = {0};
  shmt__conv_box_memory r;

  if (!shmt__conv_box_memory_init(j, &r, j->reads_outputs ? 0 : j->filters * j->width * j->gemm_item,
                 j->is_gemm ? 0 : j->block * j->size * j->width * j->item,
                 j->is_staged ? j->block * j->positions * j->item : 0,
                 c->io_dtype == j->gemm_dtype ? 0 : j->filters * j->block * j->size * j->gemm_item))
    return;
  for (int64_t u = begin; u < end; u++) {
    const int64_t group = u % n_blocks / j->n_blocks, channel = u % j->n_blocks * j->block;
    const shmt__conv_box b = shmt__conv_box_at(j, u / n_blocks);
    const shmt__conv_box outputs_box =
        shmt__conv_box_outputs(&c->shape, shmt__conv_box_channels(b, group * j->filters, j->filters));
    if (at_hand != u / j->n_blocks) {
      const shmt__image_view from = shmt__image_view_at(&j->outputs, outputs_box.begin);
      outputs = shmt__image_view_as_matrix(&from, outputs_box.n, j->gemm_dtype, j->reads_outputs ? NULL : r.outputs);
      at_hand = u / j->n_blocks;
    }
    input_grad(
        j, &r,
        shmt__conv_box_channels(b, group * j->channels + channel, shmt__min_i64(j->block, j->channels - channel)),
        &outputs_box, outputs);
  }
  shmt__dealloc(r.memory, r.nbytes);
}

static void plan_input_grad(shmt__conv_boxes* j) {
  const shmt__conv_shape* s = &j->c->shape;
  const bool is_cast = j->images.dtype != j->c->dtype,
             is_plane = j->is_pointwise && shmt__conv_volume(s->in) >= SHMT_CONV_BOX_ENOUGH;
  const int64_t fits = shmt__max_i64(SHMT_CONV_BOX_BYTES / (j->filters * j->gemm_item), SHMT_CONV_BOX_ENOUGH);
  int64_t phases = 1;

  for (int d = 0; d < 3; d++) phases *= shmt__min_i64(s->stride[d], s->in[d]);
  shmt__conv_boxes_plan(j, s->in, shmt__conv_volume(s->in));
  if (!(is_plane && j->is_gemm && j->reads_outputs))
    shmt__conv_boxes_plan(j, s->in, phases * (j->reads_outputs ? WIDTH : shmt__min_i64(fits, WIDTH)));
  if (is_cast) j->is_gemm = j->is_pointwise;
  j->is_staged = is_cast || (!j->is_gemm && j->images.stride[4] != j->item);
  j->positions = j->width = j->step[0];
  for (int d = 0; d < 3; d++) {
    const int64_t reach = j->step[2 + d] + (s->kernel[d] - 1) * s->dilation[d];
    j->width *= shmt__min_i64(s->out[d], reach / s->stride[d] + 1);
    j->positions *= j->step[2 + d];
  }
  const int64_t columns = j->is_gemm ? 0 : j->size * j->width * j->item,
                made = j->is_staged ? j->positions * j->item : 0;
  const int64_t widened = j->c->io_dtype == j->gemm_dtype ? 0 : j->size * j->filters * j->gemm_item;
  shmt__conv_boxes_set_block(j, SHMT_CONV_BOX_BYTES, shmt__max_i64(shmt__max_i64(columns, made), widened));
}

shmt_status shmt__conv_input_grad_col2im(const shmt__conv* c, const shmt__image_view* outputs, const void* weight,
                                         const void* bias, const shmt__image_view* images) {
  const int64_t threads = shmt__num_threads();
  shmt__conv_boxes j;

  shmt__conv_boxes_init(&j, c, images, outputs);
  j.weight = (char*)(uintptr_t)weight;
  j.bias = bias;
  plan_input_grad(&j);
  if (j.n_boxes * c->groups * j.n_blocks < threads && j.channels >= 2 * threads) {
    j.block = shmt__ceil_div(j.channels, threads);
    j.n_blocks = shmt__ceil_div(j.channels, j.block);
  }
  const int64_t n = j.n_boxes * c->groups * j.n_blocks, work = j.width * j.filters * j.block * j.size;
  const int64_t share = shmt__min_i64(j.n_blocks, shmt__ceil_div(n, threads)),
                least = SHMT_CONV_BOX_WORTH_SHARING / (work + 1) + 1;
  if (n < threads) /* then the threads share out each product */
    run_input_grad(&j, 0, n);
  else
    shmt__parallel_for(n, shmt__max_i64(share, least), run_input_grad, &j);
  return shmt__conv_boxes_status(&j);
}
