/* ops/conv/backward/input_grad_phases.h -- input gradient with strides, in NHWC: one convolution for each phase. */
#ifndef SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_PHASES_H
#define SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_PHASES_H

#include "ops/conv/problem.h"
#include "ops/conv/image_view.h"

/* Are there strides with few phases, is `outputs` NHWC, and is there an NHWC kernel? */
bool shmt__conv_has_input_grad_phases(const shmt__conv* c, const shmt__image_view* outputs);
/* images (of any strides) = the input gradient of `outputs`, or the transposed convolution of them; bias: one for each
 * channel of `images`, of c->dtype, NULL: none. All else has c->io_dtype. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_input_grad_phases(const shmt__conv* c, const shmt__image_view* outputs, shmt_tensor* weight,
                                         const void* bias, const shmt__image_view* images);

#endif
