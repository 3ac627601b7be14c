/* ops/conv/backward/input_grad_flipped.h -- input gradient with stride 1: a forward convolution with the flipped
 * weight. */
#ifndef SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_FLIPPED_H
#define SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_FLIPPED_H

#include "ops/conv/problem.h"

/* *transposed = the forward convolution that takes the output's gradient to the input's. False where there is none: the
 * stride is not 1, or the padding is larger than the kernel. */
bool shmt__conv_input_grad_as_conv(const shmt__conv* c, shmt__conv* transposed);
/* Its weight, of size (channels, filters / groups, kernel) and dense: that of c with channels and filters swapped and
 * each kernel flipped. Errors: SHMT_E_NOMEM. New reference. */
shmt_status shmt__conv_flip_weight(const shmt__conv* c, shmt_tensor* weight, shmt_tensor** out);

#endif
