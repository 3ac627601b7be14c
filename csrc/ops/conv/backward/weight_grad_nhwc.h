/* ops/conv/backward/weight_grad_nhwc.h -- the gradient of a convolution's weight, without columns: Note [Weighing] in kernels/conv/weight_grad_nhwc.tmpl.h. */
#ifndef SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_H
#define SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_H

#include "ops/conv/strided_images.h"
#include "ops/conv/algorithm.h"

/* Is there a kernel, and does it pay? */
bool shmt__conv_prefers_weight_grad_nhwc(const shmt__conv* c, const shmt__image_view* images);
/* weight (dense, of c->io_dtype) = its gradient, summed in c->dtype; is_nhwc: its channels are neighbours. Images and outputs of
 * any strides and of c->io_dtype. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weight_grad_nhwc(const shmt__conv* c, const shmt__image_view* images, const shmt__image_view* outputs,
                                        bool is_nhwc, void* weight);

#endif
