/* ops/conv/backward/weight_grad_depthwise.c -- weight gradient where every filter has one channel of its own.
 *
 * The kernel sums a plane of the input with a plane of the output's gradient, without a column matrix. Threads share
 * out blocks of filters.
 */
#include "ops/conv/backward/weight_grad_depthwise.h"

#include "base/sizes.h"
#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/conv/backward/boxes.h"
#include "storage/allocator.h"

enum { FILTERS_TOGETHER = 16 }; /* at most, whose planes are gathered together */

/* n planes as the kernel reads them, `pitch` elements apart: where they are, or copied to `own`. */
static const char* planes_at(const shmt__conv_boxes* j, const shmt__image_view* p, int64_t image, int64_t channel,
                             const int64_t* size, int64_t n, char* own, int64_t* pitch) {
  const int64_t number[5] = {1, n, size[0], size[1], size[2]};
  const shmt__image_view from = shmt__image_view_at(p, (int64_t[]){image, channel, 0, 0, 0});
  shmt__image_view to = shmt__image_view_cnhw(own, j->c->dtype, number);
  const bool is_dense =
      from.dtype == to.dtype && from.stride[4] == j->item && (size[1] == 1 || from.stride[3] == to.stride[3]);

  if (is_dense)
    to = from;
  else
    shmt__image_view_copy(&to, &from, number);
  *pitch = to.stride[1];
  return to.data;
}

/* Blocks of filters, each summed over the images in order. */
static void run_filters(void* ctx, int64_t begin, int64_t end) {
  shmt__conv_boxes* j = ctx;
  const shmt__conv* c = j->c;
  const int64_t in = shmt__conv_volume(c->shape.in), out = shmt__conv_volume(c->shape.out);
  shmt__conv_box_memory r;

  if (!shmt__conv_box_memory_init(j, &r, j->block * out * j->item, j->block * j->k * j->item, j->block * in * j->item,
                 shmt__conv_depthwise_scratch(&c->shape) * j->item))
    return;
  for (int64_t first = begin * j->block; first < shmt__min_i64(end * j->block, c->filters); first += j->block) {
    const int64_t n = shmt__min_i64(j->block, c->filters - first), channel = first / j->filters;
    const int64_t last = (first + n - 1) / j->filters, io_item = shmt__dtype_size[c->io_dtype];
    memset(r.columns, 0, (size_t)(n * j->k * j->item));
    for (int64_t i = 0; i < c->n_images; i++) {
      int64_t image_pitch, pitch;
      const char* images =
          planes_at(j, &j->images, i, channel, c->shape.in, last + 1 - channel, r.images, &image_pitch);
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

shmt_status shmt__conv_weight_grad_depthwise(const shmt__conv* c, const shmt__image_view* images,
                                             const shmt__image_view* outputs, void* weight) {
  const int64_t in = shmt__conv_volume(c->shape.in), out = shmt__conv_volume(c->shape.out);
  shmt__conv_boxes j;

  shmt__conv_boxes_init(&j, c, images, outputs);
  j.weight = weight;
  j.block = shmt__min_i64(shmt__max_i64(SHMT_CONV_BOX_BYTES / ((in + out) * j.item), 1), FILTERS_TOGETHER);
  const int64_t work = j.block * out * j.k * c->n_images;
  shmt__parallel_for(shmt__ceil_div(c->filters, j.block), SHMT_CONV_BOX_WORTH_SHARING / (work + 1) + 1, run_filters,
                     &j);
  return shmt__conv_boxes_status(&j);
}
