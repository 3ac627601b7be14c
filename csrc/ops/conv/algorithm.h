/* ops/conv/algorithm.h -- convolutions: what they are of, the ways to make them. */
#ifndef SHMT_OPS_CONV_ALGORITHM_H
#define SHMT_OPS_CONV_ALGORITHM_H

#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* The image side has `channels`, the other side `filters`; a weight is (filters, channels / groups, kernel). A
 * convolution goes from images to filters' outputs, a transposed one the other way.
 *
 * All tensors' data is dense and of dtype; forwards, images may have any strides, and all tensors but the bias may be of
 * another dtype `given`. */
typedef struct shmt__conv {
  shmt__conv_shape shape;
  shmt_dtype dtype;
  int64_t n_images, channels, filters, groups;
  const void* bias; /* of the filters, added by shmt__conv_nchw where that rounds; NULL: none */
  shmt_dtype io_dtype;
  int64_t image_step, channel_step, step[3]; /* of the images, in bytes */
  bool weight_is_nhwc; /* the channels of a filter are neighbours; only of shmt__conv_prefers_direct */
  bool flips_weight;                        /* it is that of the convolution the other way; only of shmt__conv_nhwc_amx */
} shmt__conv;

/* Say that the images lie dense in c->dtype: of shape.in, as they are when it is changed. Where so many elements have no
 * room (they are one that was expanded), the steps are of no use. */
void shmt__conv_set_dense(shmt__conv* c);

/* Has every filter one channel of its own, and is there a kernel for that? */
bool shmt__conv_is_depthwise(const shmt__conv* c);

/* Is what the windows of an image reach, laid out with padding and remainders of strides, not much more than what it is
 * made of and what is made? Else strides, padding or dilation are far larger than the image, and only columns are made. */
bool shmt__conv_can_pad(const shmt__conv* c);

/* Is an image its own matrix of columns: one element of a kernel, no padding, all positions? */
bool shmt__conv_is_pointwise(const shmt__conv* c);

/* output (images, filters, places), dense, += the bias of its filter. */
void shmt__conv_add_bias(shmt_dtype dtype, void* output, int64_t n_images, int64_t filters, int64_t places,
                         const void* bias);

/* output = images * weight. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_nchw(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
