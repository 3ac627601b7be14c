/* ops/conv/backward/weight_grad_nhwc_amx.h -- the gradient of a convolution's weight by tiles, of bfloat16 images whose channels are neighbours. */
#ifndef SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_AMX_H
#define SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_AMX_H

#include "ops/conv/algorithm.h"
#include "ops/conv/strided_images.h"

/* Are there tiles, do images and outputs lie as they read them, and does it pay? */
bool shmt__conv_has_weight_grad_nhwc_amx(const shmt__conv* c, const shmt__image_view* images,
                                         const shmt__image_view* outputs);
/* weight (dense, of c->io_dtype) = its gradient, summed in float32; is_nhwc: its channels are neighbours. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weight_grad_nhwc_amx(const shmt__conv* c, const shmt__image_view* images,
                                            const shmt__image_view* outputs, bool is_nhwc, void* weight);

#endif
