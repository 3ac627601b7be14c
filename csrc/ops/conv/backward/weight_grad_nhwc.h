/* ops/conv/backward/weight_grad_nhwc.h -- weight gradient in NHWC: Note [NHWC weight gradient] in
 * kernels/conv/weight_grad_nhwc.tmpl.h. */
#ifndef SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_H
#define SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_H

#include "ops/conv/image_view.h"
#include "ops/conv/problem.h"

/* Is there a kernel, and is it better than im2col? */
bool shmt__conv_prefers_weight_grad_nhwc(const shmt__conv* c, const shmt__image_view* images);
/* weight (dense, of c->io_dtype) = its gradient, summed in c->dtype; is_nhwc: the weight is NHWC. `images` and
 * `outputs` have c->io_dtype and any strides: they are converted to NHWC a tile at a time. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weight_grad_nhwc(const shmt__conv* c, const shmt__image_view* images,
                                        const shmt__image_view* outputs, bool is_nhwc, void* weight);

#endif
