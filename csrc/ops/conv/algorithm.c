/* ops/conv/algorithm.c -- the ways of a convolution. */
#include "ops/conv/algorithm.h"

#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/loops.h"
#include "iter/iter.h"
#include "ops/conv/im2col.h"
#include "ops/conv/depthwise.h"
#include "ops/conv/direct.h"

#include <math.h>

/* Elements of a channel: laid out for each that is read or made; always worth it; beyond all memory. */
static const double MANY = 8, FEW = 1 << 16, TOO_MANY = 1e12;

void shmt__conv_set_dense(shmt__conv* c) {
  const int64_t item = shmt__dtype_size[c->dtype];

  shmt__conv_shape_dense(&c->shape);
  c->io_dtype = c->dtype;
  c->weight_is_nhwc = c->flips_weight = false;
  c->step[2] = item;
  c->step[1] = shmt__wrap_mul_i64(c->shape.step[2], item);
  c->step[0] = shmt__wrap_mul_i64(c->shape.step[1], item);
  c->channel_step = shmt__wrap_mul_i64(c->shape.step[0], item);
  c->image_step = shmt__wrap_mul_i64(c->channels, c->channel_step);
}

bool shmt__conv_can_pad(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  double laid = 1, read = 1, made = 1;

  for (int d = 0; d < 3; d++) {
    const double reach = (double)shmt__conv_reach(s, d, s->out[d]), in = (double)s->in[d], step = (double)s->stride[d];
    laid *= ceil(reach / step) * step;
    read *= reach < in ? reach : in;
    made *= (double)s->out[d];
  }
  return laid <= MANY * (read + made) + FEW && laid <= TOO_MANY;
}

void shmt__conv_add_bias(shmt_dtype dtype, void* output, int64_t n_images, int64_t filters, int64_t places,
                         const void* bias) {
  const shmt_scalar one = shmt__scalar_int(1);
  const int64_t item = shmt__dtype_size[dtype];

  for (int64_t i = 0; i < n_images * filters; i++) {
    char* line = (char*)output + i * places * item;
    char* data[3] = {line, line, (char*)(uintptr_t)bias + i % filters * item};
    shmt__loops[SHMT_LOOP_add][dtype](data, (const int64_t[]){item, item, 0}, places, &one);
  }
}

shmt_status shmt__conv_nchw(const shmt__conv* c, const void* images, const void* weight, void* output) {
  if (shmt__conv_is_depthwise(c)) return shmt__conv_depthwise(c, images, weight, output);
  return (shmt__conv_prefers_direct(c) ? shmt__conv_direct : shmt__conv_im2col)(c, images, weight, output);
}
