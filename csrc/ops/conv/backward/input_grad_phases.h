/* ops/conv/backward/input_grad_phases.h -- the way back of a convolution with strides, where channels are neighbours. */
#ifndef SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_PHASES_H
#define SHMT_OPS_CONV_BACKWARD_INPUT_GRAD_PHASES_H

#include "ops/conv/algorithm.h"
#include "ops/conv/strided_images.h"

/* Are there strides, few, and a kernel that reads the windows' side as it lies? */
bool shmt__conv_has_input_grad_phases(const shmt__conv* c, const shmt__image_view* outputs);
/* images (of any strides) = the gradient of, or a transposed convolution to, the image side; bias: of the images' channels, of
 * c->dtype, NULL: none. All else of c->io_dtype. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_input_grad_phases(const shmt__conv* c, const shmt__image_view* outputs, shmt_tensor* weight,
                                         const void* bias, const shmt__image_view* images);

#endif
