/* ops/conv/backward/weight_grad_depthwise.h -- weight gradient where every filter has one channel of its own. */
#ifndef SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_DEPTHWISE_H
#define SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_DEPTHWISE_H

#include "ops/conv/image_view.h"
#include "ops/conv/problem.h"

/* The same as shmt__conv_weight_grad_im2col(), where shmt__conv_is_depthwise(). Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weight_grad_depthwise(const shmt__conv* c, const shmt__image_view* images,
                                             const shmt__image_view* outputs, void* weight);

#endif
