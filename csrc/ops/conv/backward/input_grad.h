/* ops/conv/backward/input_grad.h -- the way transposed of a convolution of stride 1, which is a convolution too. */
#ifndef SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_H
#define SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_H

#include "ops/conv/algorithm.h"

/* The convolution from outputs to images; false when there is none. */
bool shmt__conv_input_grad_as_conv(const shmt__conv* c, shmt__conv* transposed);
/* Its weight (channels, filters / groups, kernel), dense, from c's. Errors: SHMT_E_NOMEM. New reference. */
shmt_status shmt__conv_flip_weight(const shmt__conv* c, shmt_tensor* weight, shmt_tensor** out);

#endif
