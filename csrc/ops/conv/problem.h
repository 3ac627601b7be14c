/* ops/conv/problem.h -- what a convolution is of: sizes, dtypes, strides of the input. */
#ifndef SHMT_OPS_CONV_PROBLEM_H
#define SHMT_OPS_CONV_PROBLEM_H

#include "kernels/loop_args.h"
#include "tensor/tensor.h"

/* Describes one convolution to all algorithms.
 *
 * The input has n_images of `channels` channels, the output has `filters` channels; the weight is (filters, channels /
 * groups, kernel). A forward convolution goes from the input to the output. The input gradient and a transposed
 * convolution go the other way, with the same description.
 *
 * Tensors are stored as io_dtype, except the bias, which has dtype; sums are calculated in dtype. Where the two differ,
 * the algorithm widens what it reads and rounds what it writes. The input of a forward convolution may have any
 * strides; all other tensors are dense unless a function says otherwise. */
typedef struct shmt__conv {
  shmt__conv_shape shape;
  shmt_dtype dtype, io_dtype;
  int64_t n_images, channels, filters, groups;
  const void* bias;                          /* one for each filter, in dtype; NULL: none */
  int64_t image_step, channel_step, step[3]; /* bytes between images, channels, planes, rows and columns of the input */
  bool weight_is_nhwc; /* the channels of a filter are neighbours; only where shmt__conv_takes_nhwc_weight() */
  bool flips_weight;   /* the weight is that of the convolution whose input gradient this is; only of AMX kernels */
} shmt__conv;

/* Describe the input as dense NCHW of c->dtype with the sizes shape.in. The steps wrap, and are not to be used, where
 * so many elements do not fit into memory (an expanded tensor has few). */
void shmt__conv_set_dense(shmt__conv* c);
/* Describe the input as this tensor lies in memory, in its dtype. */
void shmt__conv_set_input(shmt__conv* c, const shmt_tensor* input);

/* Has every filter one channel of its own, and is there a kernel for that? */
bool shmt__conv_is_depthwise(const shmt__conv* c);
/* Is the kernel 1 x 1 with stride 1 and without padding, so that an image is its own im2col matrix? */
bool shmt__conv_is_pointwise(const shmt__conv* c);
/* Is a padded copy of an image not much larger than the image and the output? Only where strides, padding or dilation
 * are far larger than the image it is; such convolutions are left to im2col. */
bool shmt__conv_can_pad(const shmt__conv* c);

/* output (images, filters, positions), dense, += the bias of each filter. */
void shmt__conv_add_bias(shmt_dtype dtype, void* output, int64_t n_images, int64_t filters, int64_t positions,
                         const void* bias);

#endif
