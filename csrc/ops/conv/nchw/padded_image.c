/* ops/conv/nchw/padded_image.c -- the copy of an image that direct convolution reads: padded, and divided by stride
 * phases. */
#include "ops/conv/nchw/padded_image.h"

#include "base/sizes.h"
#include "generated/loops.h"

void shmt__conv_padded_layout(const shmt__conv* c, const int64_t* out, shmt__conv_direct_args* s) {
  const shmt__conv_shape* v = &c->shape;
  int64_t size[3];

  for (int d = 0; d < 3; d++) size[d] = shmt__ceil_div(shmt__conv_reach(v, d, out[d]), v->stride[d]);
  *s = (shmt__conv_direct_args){.conv = v, .filters = c->filters / c->groups};
  s->k = c->channels / c->groups * v->kernel[0] * v->kernel[1] * v->kernel[2];
  s->row = size[2];
  s->rows = size[1];
  s->volume = size[0] * size[1] * size[2];
  s->channel = v->stride[0] * v->stride[1] * v->stride[2] * s->volume;
}

void shmt__conv_padded_offsets(const shmt__conv* c, const shmt__conv_direct_args* s, int64_t* offset) {
  const shmt__conv_shape* v = &c->shape;
  const int64_t channels = c->channels / c->groups, kernel = s->k / channels;

  for (int64_t p = 0; p < s->k; p++) {
    const int64_t channel = c->weight_is_nhwc ? p % channels : p / kernel;
    const int64_t at = c->weight_is_nhwc ? p / channels : p % kernel;
    const int64_t w = at % v->kernel[2] * v->dilation[2], h = at / v->kernel[2] % v->kernel[1] * v->dilation[1];
    const int64_t d = at / (v->kernel[2] * v->kernel[1]) * v->dilation[0];
    const int64_t phase = (d % v->stride[0] * v->stride[1] + h % v->stride[1]) * v->stride[2] + w % v->stride[2];
    offset[p] = channel * s->channel + phase * s->volume +
                (d / v->stride[0] * s->rows + h / v->stride[1]) * s->row + w / v->stride[2];
  }
}

void shmt__conv_pad_image(const shmt__conv* c, const shmt__conv_direct_args* s, shmt__conv_tile* tile,
                          const char* images, int64_t at, char* padded, char* room) {
  const int64_t channels = c->channels / c->groups, item = shmt__dtype_size[c->dtype];
  const int64_t n_together = shmt__conv_reads_in_place(c) ? channels : shmt__conv_gathered_channels(c);
  shmt__conv_direct_args shape = *s;

  shape.conv = &tile->shape;
  for (int64_t i = 0; i < channels; i += n_together) {
    const int64_t n = channels - i < n_together ? channels - i : n_together;
    const char* view = shmt__conv_tile_input(c, tile, images, at / c->groups, at % c->groups * channels + i, n, room);
    char* data[2] = {padded + i * s->channel * item, (char*)(uintptr_t)view};
    shmt__loops[SHMT_LOOP_conv_direct_pad][c->dtype](data, NULL, n, &shape);
  }
}
