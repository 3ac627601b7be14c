/* ops/conv/backward/weight_grad_im2col.h -- weight gradient by matrix products with im2col matrices. */
#ifndef SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_IM2COL_H
#define SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_IM2COL_H

#include "ops/conv/image_view.h"
#include "ops/conv/problem.h"

/* weight (dense, of c->io_dtype) = its gradient, summed in c->dtype. `images` and `outputs` may have any strides, and
 * any dtype that is cast to c->dtype. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weight_grad_im2col(const shmt__conv* c, const shmt__image_view* images,
                                          const shmt__image_view* outputs, void* weight);

#endif
