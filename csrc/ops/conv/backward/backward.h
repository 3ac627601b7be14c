/* ops/conv/backward/backward.h -- the way back of a convolution: gradients of images (or a transposed convolution) and of the weight.
 * Tensors of images and of outputs may have any strides and dtypes that c->dtype is cast from. */
#ifndef SHMT_OPS_CONV_BACKWARD_BACKWARD_H
#define SHMT_OPS_CONV_BACKWARD_BACKWARD_H

#include "ops/conv/algorithm.h"
#include "ops/conv/strided_images.h"

/* images = the gradient of (or a transposed convolution to) the image side; each element is rounded once.
 *
 * weight  dense, of c->io_dtype
 * bias    of the images' channels, of c->dtype; NULL: none
 * images  of c->dtype or c->io_dtype
 *
 * Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_input_grad_col2im(const shmt__conv* c, const shmt__image_view* outputs, const void* weight,
                                         const void* bias, const shmt__image_view* images);

/* weight (dense, of c->io_dtype) = its gradient, summed in c->dtype. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weight_grad_im2col(const shmt__conv* c, const shmt__image_view* images,
                                          const shmt__image_view* outputs, void* weight);

#endif
