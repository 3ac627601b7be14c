/* ops/conv/backward/input_grad_flipped.c -- input gradient with stride 1: the forward convolution to run, and its
 * weight. */
#include "ops/conv/backward/input_grad_flipped.h"

#include "generated/loops.h"
#include "iter/copy/copy.h"
#include "iter/threads.h"
#include "ops/conv/image_view.h"

enum {
  CHANNELS_TOGETHER = 16, /* whose weights are flipped together: they are neighbours in a filter */
  MANY_WEIGHTS = 1 << 15, /* worth a thread */
};

bool shmt__conv_input_grad_as_conv(const shmt__conv* c, shmt__conv* transposed) {
  *transposed = *c;
  transposed->channels = c->filters;
  transposed->filters = c->channels;
  for (int d = 0; d < 3; d++) {
    const int64_t reach = c->shape.dilation[d] * (c->shape.kernel[d] - 1);
    transposed->shape.in[d] = c->shape.out[d];
    transposed->shape.out[d] = c->shape.in[d];
    transposed->shape.padding[d] = reach - c->shape.padding[d];
    if (c->shape.stride[d] != 1 || transposed->shape.padding[d] < 0 || c->shape.out[d] <= 0) return false;
    if (transposed->shape.in[d] + 2 * transposed->shape.padding[d] - reach != transposed->shape.out[d]) return false;
  }
  shmt__conv_set_dense(transposed);
  return true;
}

typedef struct flip {
  shmt__conv_flip_args shape;
  const char* from;
  char* to;
  shmt_dtype dtype;
  int64_t channels; /* of a group */
} flip;

/* Channels [begin, end), counted through the groups. */
static void run_flip(void* ctx, int64_t begin, int64_t end) {
  const flip* f = ctx;
  const shmt__conv_flip_args* s = &f->shape;
  const int64_t item = shmt__dtype_size[f->dtype];

  for (int64_t at = begin, n; at < end; at += n) {
    const int64_t group = at / f->channels, channel = at % f->channels;
    n = f->channels - channel < CHANNELS_TOGETHER ? f->channels - channel : CHANNELS_TOGETHER;
    n = end - at < n ? end - at : n;
    char* data[2] = {
        f->to + at * s->filters * s->size * item,
        (char*)(uintptr_t)f->from + (group * s->filters * s->filter_step + channel * s->channel_step) * item};
    shmt__loops[SHMT_LOOP_conv_flip][f->dtype](data, NULL, n, s);
  }
}

shmt_status shmt__conv_flip_weight(const shmt__conv* c, shmt_tensor* weight, shmt_tensor** out) {
  const int64_t *kernel = c->shape.kernel, channels = c->channels / c->groups;
  SHMT_AUTO(shmt_tensor) dense = NULL;
  shmt__image_view from = shmt__image_view_of(weight);
  shmt__matrix m; /* of a filter: (channels, positions) */

  if (!shmt__image_view_is_matrix(&from, (int64_t[]){1, channels, kernel[0], kernel[1], kernel[2]}, weight->dtype,
                                  &m)) {
    SHMT_TRY(shmt__tensor_contiguous(weight, SHMT_CONTIGUOUS_FORMAT, &dense));
    from = shmt__image_view_of(dense);
    m.row_stride = kernel[0] * kernel[1] * kernel[2];
    m.column_stride = 1;
  }
  int64_t sizes[5] = {c->channels, c->filters / c->groups};
  for (int d = 2; d < weight->n_dims; d++) sizes[d] = weight->sizes[d];
  SHMT_TRY(
      shmt__tensor_empty((shmt_ints){sizes, weight->n_dims}, weight->dtype, SHMT_CPU, SHMT_CONTIGUOUS_FORMAT, out));
  const int64_t size = kernel[0] * kernel[1] * kernel[2], filters = c->filters / c->groups;
  flip f = {.from = from.data, .to = shmt__tensor_data(*out), .dtype = weight->dtype, .channels = channels};
  f.shape = (shmt__conv_flip_args){filters, size, from.stride[0] / shmt__dtype_size[weight->dtype], m.row_stride,
                                   m.column_stride};
  shmt__parallel_for(c->channels, MANY_WEIGHTS / (filters * size + 1) + 1, run_flip, &f);
  return SHMT_OK;
}
