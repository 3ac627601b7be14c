/* ops/conv/problem.c -- properties of a convolution that several algorithms ask for. */
#include "ops/conv/problem.h"

#include "base/overflow.h"
#include "base/scalar.h"
#include "generated/operator_loops.h"

#include <math.h>

/* Elements of a padded channel: so many for each one that is read or made are fine, so many are always fine, and so
 * many never fit into memory. */
static const double PADDED_PER_USED = 8, FEW_PADDED = 1 << 16, MOST_PADDED = 1e12;

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

void shmt__conv_set_input(shmt__conv* c, const shmt_tensor* input) {
  const int64_t item = shmt__tensor_item_bytes(input);

  c->io_dtype = input->dtype;
  c->image_step = shmt__wrap_mul_i64(input->strides[0], item);
  c->channel_step = shmt__wrap_mul_i64(input->strides[1], item);
  for (int d = 0; d < input->n_dims - 2; d++)
    c->step[d + 5 - input->n_dims] = shmt__wrap_mul_i64(input->strides[2 + d], item);
}

bool shmt__conv_is_depthwise(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  return c->groups == c->channels && c->groups > 1 && s->in[0] == 1 && s->kernel[0] == 1 && s->out[0] == 1 &&
         s->padding[0] == 0 && shmt__loops[SHMT_LOOP_conv_depthwise][c->dtype] != NULL && shmt__conv_can_pad(c);
}

bool shmt__conv_is_pointwise(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;

  for (int d = 0; d < 3; d++)
    if (s->kernel[d] != 1 || s->stride[d] != 1 || s->padding[d] != 0 || s->out[d] > s->in[d]) return false;
  return true;
}

bool shmt__conv_can_pad(const shmt__conv* c) {
  const shmt__conv_shape* s = &c->shape;
  double padded = 1, read = 1, made = 1;

  for (int d = 0; d < 3; d++) {
    const double reach = (double)shmt__conv_reach(s, d, s->out[d]), in = (double)s->in[d], step = (double)s->stride[d];
    padded *= ceil(reach / step) * step;
    read *= reach < in ? reach : in;
    made *= (double)s->out[d];
  }
  return padded <= PADDED_PER_USED * (read + made) + FEW_PADDED && padded <= MOST_PADDED;
}

void shmt__conv_add_bias(shmt_dtype dtype, void* output, int64_t n_images, int64_t filters, int64_t positions,
                         const void* bias) {
  const shmt_scalar one = shmt__scalar_int(1);
  const int64_t item = shmt__dtype_size[dtype];

  for (int64_t i = 0; i < n_images * filters; i++) {
    char* plane = (char*)output + i * positions * item;
    char* data[3] = {plane, plane, (char*)(uintptr_t)bias + i % filters * item};
    shmt__loops[SHMT_LOOP_add][dtype](data, (const int64_t[]){item, item, 0}, positions, &one);
  }
}
