/* ops/conv/backward/weight_grad_nhwc_amx.h -- the gradient of a convolution's weight by tiles, of bfloat16 images whose channels are neighbours. */
#ifndef SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_AMX_H
#define SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_AMX_H

#include "ops/conv/algorithm.h"
#include "ops/conv/strided_images.h"

/* Are there tiles, do images and outputs lie as they read them, and does it pay? */
bool shmt__conv_is_weighed_by_tiles(const shmt__conv* c, const shmt__planes* images, const shmt__planes* outputs);
/* weight (dense, of c->given) = its gradient, summed in float32; is_last: its channels are neighbours. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weigh_tiles(const shmt__conv* c, const shmt__planes* images, const shmt__planes* outputs, bool is_last,
                                   void* weight);

#endif
