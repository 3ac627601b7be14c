/* ops/conv/backward/input_grad_phases.h -- the way back of a convolution with strides, where channels are neighbours. */
#ifndef SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_PHASES_H
#define SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_PHASES_H

#include "ops/conv/algorithm.h"
#include "ops/conv/strided_images.h"

/* Are there strides, few, and a kernel that reads the windows' side as it lies? */
bool shmt__conv_has_phases(const shmt__conv* c, const shmt__planes* windows);
/* images (of any strides) = the gradient of, or a transposed convolution to, the image side; bias: of the images' channels, of
 * c->dtype, NULL: none. All else of c->given. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_phases(const shmt__conv* c, const shmt__planes* windows, shmt_tensor* weight, const void* bias,
                              const shmt__planes* images);

#endif
