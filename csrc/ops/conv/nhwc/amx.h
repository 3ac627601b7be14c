/* ops/conv/nhwc/amx.h -- convolution of bfloat16 images whose channels are neighbours, by tiles (ops/matmul/gemm_amx.h). */
#ifndef SHMT_OPS_CONV_NHWC_AMX_H
#define SHMT_OPS_CONV_NHWC_AMX_H

#include "ops/conv/algorithm.h"
#include "ops/conv/strided_images.h"

/* Are there tiles, and is what is copied for them no more than is worth it? Only c->io_dtype is asked for the dtype. */
bool shmt__conv_has_nhwc_amx(const shmt__conv* c);
/* The same, of images whose channels are neighbours. */
bool shmt__conv_is_nhwc_amx(const shmt__conv* c);
/* output = images * weight + c->bias, of dtype c->io_dtype and dense, but with filters as neighbours: (images, places, filters);
 * weight (filters, channels of a group, kernel) of any strides, the bias of c->dtype. One that is turned is (channels, filters
 * of a group, kernel), and places of the kernel are evenly apart. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_nhwc_amx(const shmt__conv* c, const void* images, const shmt__image_view* weight, void* output);

#endif
