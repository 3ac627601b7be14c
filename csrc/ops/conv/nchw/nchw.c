/* ops/conv/nchw/nchw.c -- forward convolution to a dense NCHW output: depthwise, direct or im2col. */
#include "ops/conv/nchw/nchw.h"

#include "ops/conv/nchw/depthwise.h"
#include "ops/conv/nchw/direct.h"
#include "ops/conv/nchw/im2col.h"

shmt_status shmt__conv_nchw(const shmt__conv* c, const void* images, const void* weight, void* output) {
  if (shmt__conv_is_depthwise(c)) return shmt__conv_depthwise(c, images, weight, output);
  return (shmt__conv_prefers_direct(c) ? shmt__conv_direct : shmt__conv_im2col)(c, images, weight, output);
}
