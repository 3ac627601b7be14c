/* ops/conv/backward/input_grad_col2im.h -- input gradient, or transposed convolution, by matrix products and col2im. */
#ifndef SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_COL2IM_H
#define SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_COL2IM_H

#include "ops/conv/image_view.h"
#include "ops/conv/problem.h"

/* images = the input gradient of `outputs`, or the transposed convolution of them; each element is rounded once.
 * `outputs` and `images` may have any strides, and any dtype that is cast from or to c->dtype.
 *
 * weight  dense, of c->io_dtype
 * bias    one for each channel of `images`, of c->dtype; NULL: none
 * images  of c->dtype or c->io_dtype
 *
 * Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_input_grad_col2im(const shmt__conv* c, const shmt__image_view* outputs, const void* weight,
                                         const void* bias, const shmt__image_view* images);

#endif
