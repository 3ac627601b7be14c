/* ops/conv_core.h -- convolution of dense tensors by matrix products. */
#ifndef SHMT_OPS_CONV_CORE_H
#define SHMT_OPS_CONV_CORE_H

#include "kernels/shapes.h"
#include "tensor/tensor.h"

/* The image side has `channels`, the other side `filters`; a weight is (filters, channels / groups, kernel). A
 * convolution goes from images to filters' outputs, a transposed one the other way. */
typedef struct shmt__conv {
  shmt__conv_shape shape;
  shmt_dtype dtype;
  int64_t n_images, channels, filters, groups;
  const void* bias;   /* of the filters, added by shmt__conv_forward; NULL: none */
  bool channels_last; /* the images' channels are neighbours; forwards, where shmt__conv_is_pointwise or by_blocks */
  bool by_blocks;     /* forwards, where shmt__conv_has_blocks: tensors are of `given`, read and written a block at a time */
  shmt_dtype given;
} shmt__conv;

/* Has every filter one channel of its own, and is there a kernel for that? */
bool shmt__conv_is_depthwise(const shmt__conv* c);

/* Is an image its own matrix of columns: one element of a kernel, no padding, all positions? */
bool shmt__conv_is_pointwise(const shmt__conv* c);

/* Is the way forwards one that needs only a block of the tensors at a time in c->dtype? */
bool shmt__conv_has_blocks(const shmt__conv* c);

/* All tensors' data is dense, of c->dtype, unless c says otherwise. */

/* output = images * weight. Of 16-bit floats products only: groups == 1. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_forward(const shmt__conv* c, const void* images, const void* weight, void* output);
/* images = the gradient of (or a transposed convolution to) the image side. */
shmt_status shmt__conv_to_images(const shmt__conv* c, const void* output, const void* weight, void* images);
/* weight = the gradient of the weight. */
shmt_status shmt__conv_to_weight(const shmt__conv* c, const void* images, const void* output, void* weight);

/* Of c->by_blocks: n channels of an image, from the first on, dense in c->dtype. */
void shmt__conv_get_planes(const shmt__conv* c, const char* images, int64_t image, int64_t first, int64_t n, char* to);
/* Elements of the weight, in c->dtype. */
void shmt__conv_get_weight(const shmt__conv* c, const char* weight, int64_t first, int64_t n, char* to);
/* n planes of the output from that one on (image * filters + filter), from c->dtype; the bias is added. */
void shmt__conv_put_planes(const shmt__conv* c, char* from, int64_t first, int64_t n, char* output);

#endif
