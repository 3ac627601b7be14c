/* ops/conv/backward/weight_grad_im2col.c -- weight gradient by matrix products with im2col matrices.
 *
 * This algorithm takes every shape, dtype and layout. Note [Boxes] in ops/conv/backward/boxes.h says how it is cut.
 */
#include "ops/conv/backward/weight_grad_im2col.h"

#include "base/sizes.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/conv/backward/boxes.h"
#include "storage/allocator.h"

enum {
  COLUMN_BYTES = 448 << 10, /* of an im2col matrix */
  WIDTH = 256,              /* outputs of a box, at least */
};

/* The im2col matrix of some channels for a box of outputs; images: the box of the input that it reads. */
static shmt__matrix im2col(const shmt__conv_boxes* j, const shmt__conv_box_memory* r, const shmt__conv_box* images,
                           const shmt__conv_box* outputs_box) {
  const int64_t width = outputs_box->n[0] * shmt__conv_box_positions(outputs_box), rows = images->n[1] * j->size;
  const int64_t one[5] = {1, images->n[1], images->n[2], images->n[3], images->n[4]};
  const shmt__image_view part = shmt__image_view_at(&j->images, images->begin);
  shmt__conv_shape shape = shmt__conv_box_shape(&j->c->shape, images, outputs_box);

  if (j->is_pointwise)
    return shmt__image_view_as_matrix(&part, images->n, j->gemm_dtype, j->is_gemm ? NULL : r->columns);
  for (int64_t i = 0; i < outputs_box->n[0]; i++) {
    shmt__image_view image = part;
    image.data += i * part.stride[0];
    if (!shmt__image_view_has_dense_rows(&image, j->gemm_dtype, shape.step)) {
      const shmt__image_view to = shmt__image_view_cnhw(r->images, j->gemm_dtype, one);
      shmt__image_view_copy(&to, &image, one);
      image = to;
      (void)shmt__image_view_has_dense_rows(&image, j->gemm_dtype, shape.step);
    }
    char* data[2] = {r->columns + i * shmt__conv_box_positions(outputs_box) * j->gemm_item, image.data};
    shmt__loops[SHMT_LOOP_im2col][j->gemm_dtype](data, NULL, rows, &shape);
  }
  return shmt__conv_box_matrix(r->columns, rows, width, width);
}

/* The weight gradient of some channels, summed over all boxes. */
static void weight_grad(const shmt__conv_boxes* j, const shmt__conv_box_memory* r, int64_t channel, int64_t n) {
  const shmt__conv* c = j->c;
  const int64_t group = channel / j->channels, rows = n * j->size, io_item = shmt__dtype_size[c->io_dtype];
  char* const to = j->weight + (group * j->filters * j->k + channel % j->channels * j->size) * io_item;
  const shmt__matrix sums = c->io_dtype == c->dtype ? shmt__conv_box_matrix(to, j->filters, rows, j->k)
                                                 : shmt__conv_box_matrix(r->weight, j->filters, rows, rows);

  for (int64_t i = 0; i < j->n_boxes; i++) {
    const shmt__conv_box outputs_box = shmt__conv_box_channels(shmt__conv_box_at(j, i), group * j->filters, j->filters);
    const shmt__conv_box images = shmt__conv_box_channels(shmt__conv_box_inputs(&c->shape, outputs_box), channel, n);
    const shmt__image_view from = shmt__image_view_at(&j->outputs, outputs_box.begin);
    const shmt__matrix outputs =
        shmt__image_view_as_matrix(&from, outputs_box.n, j->gemm_dtype, j->reads_outputs ? NULL : r->outputs);
    const shmt__matrix columns = im2col(j, r, &images, &outputs_box);
    shmt__conv_box_multiply(j, outputs, shmt__matrix_transposed(columns), i > 0, sums);
  }
  for (int64_t f = 0; sums.data != to && f < j->filters; f++)
    shmt__cast_loop(c->io_dtype, c->dtype)(to + f * j->k * io_item, io_item, sums.data + f * rows * j->item, j->item,
                                           rows);
}

/* Channels, counted through the groups. */
static void run_weight_grad(void* ctx, int64_t begin, int64_t end) {
  shmt__conv_boxes* j = ctx;
  const shmt__conv* c = j->c;
  int64_t step[3];
  shmt__conv_box_memory r;

  if (!shmt__conv_box_memory_init(j, &r, j->reads_outputs ? 0 : j->filters * j->width * j->gemm_item,
                                  j->is_gemm ? 0 : j->block * j->size * j->width * j->gemm_item,
                                  j->is_pointwise || shmt__image_view_has_dense_rows(&j->images, j->gemm_dtype, step)
                                      ? 0
                                      : j->block * j->positions * j->gemm_item,
                                  c->io_dtype == c->dtype ? 0 : j->filters * j->block * j->size * j->item))
    return;
  for (int64_t channel = begin, n; channel < end; channel += n) {
    n = shmt__min_i64(shmt__min_i64(j->block, j->channels - channel % j->channels), end - channel);
    weight_grad(j, &r, channel, n);
  }
  shmt__dealloc(r.memory, r.nbytes);
}

static void plan_weight_grad(shmt__conv_boxes* j) {
  const shmt__conv_shape* s = &j->c->shape;
  const int64_t fits = shmt__max_i64(SHMT_CONV_BOX_BYTES / (j->filters * j->gemm_item), SHMT_CONV_BOX_ENOUGH),
                plane = shmt__conv_volume(s->out);
  /* Elements that are widened take twice the memory. */
  const int64_t bytes = j->gemm_dtype == j->c->io_dtype ? COLUMN_BYTES : COLUMN_BYTES * 3 / 4;
  int64_t step[3];

  shmt__conv_boxes_plan(j, s->out, plane);
  if (!(j->is_gemm && j->reads_outputs && plane >= SHMT_CONV_BOX_ENOUGH)) {
    int64_t most = shmt__max_i64(bytes / (j->k * j->gemm_item), WIDTH);
    if (j->reads_outputs && plane >= SHMT_CONV_BOX_ENOUGH) most = shmt__min_i64(most, plane);
    shmt__conv_boxes_plan(j, s->out, j->reads_outputs ? most : shmt__min_i64(fits, most));
  }
  j->width = j->step[0] * shmt__conv_volume(j->step + 2);
  j->positions = 1;
  for (int d = 0; d < 3; d++) j->positions *= shmt__min_i64(s->in[d], shmt__conv_reach(s, d, j->step[2 + d]));
  const int64_t columns = j->is_gemm ? 0 : j->size * j->width * j->gemm_item;
  const int64_t gathered = j->is_pointwise || shmt__image_view_has_dense_rows(&j->images, j->gemm_dtype, step)
                               ? 0
                               : j->positions * j->gemm_item;
  const int64_t sums = j->c->io_dtype == j->c->dtype ? 0 : j->size * j->filters * j->item;
  shmt__conv_boxes_set_block(j, bytes, shmt__max_i64(shmt__max_i64(columns, gathered), sums));
}

shmt_status shmt__conv_weight_grad_im2col(const shmt__conv* c, const shmt__image_view* images,
                                          const shmt__image_view* outputs, void* weight) {
  const int64_t threads = shmt__num_threads(), out = shmt__conv_volume(c->shape.out);
  shmt__conv_boxes j;

  shmt__conv_boxes_init(&j, c, images, outputs);
  j.weight = weight;
  plan_weight_grad(&j);
  const int64_t work = c->n_images * out * j.filters * j.size;
  if (c->channels < 2 * threads) /* then the threads share out each product */
    run_weight_grad(&j, 0, c->channels);
  else
    shmt__parallel_for(
        c->channels, shmt__max_i64(shmt__ceil_div(c->channels, threads), SHMT_CONV_BOX_WORTH_SHARING / (work + 1) + 1),
        run_weight_grad, &j);
  return shmt__conv_boxes_status(&j);
}
