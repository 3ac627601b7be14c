/* ops/conv/nhwc/grouped.c -- NHWC convolution, depthwise or in groups of a few filters.
 *
 * All weights are transposed at once: one row, of all filters, for each position of the kernel and channel of a group.
 * Threads share out outputs, counted through the images.
 */
#include "ops/conv/nhwc/grouped.h"

#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/copy/move.h"
#include "iter/threads.h"
#include "kernels/conv/nhwc.h"
#include "ops/conv/nhwc/nhwc.h"
#include "storage/allocator.h"

enum { GRAIN_PRODUCTS = 32768 }; /* multiplications that are worth a thread */

/* Does n divide the elements of a vector? Vectors of 16 bytes cannot be shuffled fast. */
static bool divides_vector(int64_t n, shmt_dtype dtype) {
  const int64_t lanes = (shmt__cpu_level == SHMT_CPU_V4 ? 64 : 32) / shmt__dtype_size[dtype];

  return shmt__cpu_level != SHMT_CPU_BASE && lanes % n == 0;
}

bool shmt__conv_groups_fill_vectors(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  const int64_t each = c->channels / c->groups;

  if (c->filters != c->channels || c->channels < SHMT_NHWC_LANES || !shmt__loops[SHMT_LOOP_conv_nhwc_grouped][c->dtype])
    return false;
  if (each == 1) return shmt__conv_is_depthwise(c);
  return c->groups > 1 && s->in[0] == 1 && s->kernel[0] == 1 && s->out[0] == 1 && s->padding[0] == 0 &&
         divides_vector(each, c->dtype) && shmt__conv_can_pad(c);
}

bool shmt__conv_has_nhwc_grouped(const shmt__conv* c) {
  return shmt__conv_groups_fill_vectors(c) && !shmt__conv_has_nhwc(c);
}

bool shmt__conv_is_nhwc_grouped(const shmt__conv* c) {
  return shmt__conv_has_nhwc_grouped(c) && c->io_dtype == c->dtype && c->channel_step == shmt__dtype_size[c->dtype];
}

typedef struct grouped_job {
  const shmt__conv* c;
  shmt__conv_nhwc_args shape;
  const char *images, *weights;
  char* output;
} grouped_job;

static void run_outputs(void* ctx, int64_t begin, int64_t end) {
  const grouped_job* j = ctx;
  shmt__conv_nhwc_args s = j->shape;
  char* data[3] = {j->output + begin * s.pitch * shmt__dtype_size[j->c->dtype], (char*)(uintptr_t)j->images,
                   (char*)(uintptr_t)j->weights};

  s.first = begin;
  shmt__loops[SHMT_LOOP_conv_nhwc_grouped][j->c->dtype](data, NULL, end - begin, &s);
}

shmt_status shmt__conv_nhwc_grouped(const shmt__conv* c, const void* images, const void* weight, void* output) {
  const int64_t positions = c->shape.kernel[1] * c->shape.kernel[2], filters = c->filters,
                each = c->channels / c->groups;
  const int64_t k = positions * each, item = shmt__dtype_size[c->dtype], io_item = shmt__dtype_size[c->io_dtype];
  const bool is_narrow = c->io_dtype != c->dtype;
  const uint64_t nbytes = (uint64_t)(filters * k * (item + (is_narrow ? io_item : 0)));
  grouped_job j = {.c = c, .images = images, .output = output};
  void* weights = NULL;

  j.shape = (shmt__conv_nhwc_args){.conv = &c->shape, .image_step = c->image_step / item, .channels = each,
                                   .channel_step = (c->weight_is_nhwc ? 1 : positions) * filters,
                                   .position_step = (c->weight_is_nhwc ? each : 1) * filters,
                                   .filters = filters, .pitch = filters, .bias = c->bias};
  for (int d = 0; d < 3; d++) j.shape.step[d] = c->step[d] / item;
  SHMT_TRY(shmt__alloc(nbytes, &weights));
  char* const transposed = is_narrow ? (char*)weights + filters * k * item : weights;
  shmt__move_transposed(transposed, filters * io_item, weight, k * io_item, k, filters, io_item);
  if (is_narrow) shmt__cast_loop(c->dtype, c->io_dtype)(weights, item, transposed, io_item, filters * k);
  j.weights = weights;
  shmt__parallel_for(c->n_images * c->shape.out[1] * c->shape.out[2], GRAIN_PRODUCTS / (filters * k + 1) + 1,
                     run_outputs, &j);
  shmt__dealloc(weights, nbytes);
  return SHMT_OK;
}
