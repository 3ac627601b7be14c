/* ops/conv/backward/weight_grad_nhwc_amx.h -- weight gradient of bfloat16 NHWC images on AMX tiles. */
#ifndef SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_AMX_H
#define SHMT_OPS_CONV_BACKWARD_WEIGHT_GRAD_NHWC_AMX_H

#include "ops/conv/problem.h"
#include "ops/conv/image_view.h"

/* Is there AMX, are `images` and `outputs` NHWC as it reads them, and does it pay? */
bool shmt__conv_has_weight_grad_nhwc_amx(const shmt__conv* c, const shmt__image_view* images,
                                         const shmt__image_view* outputs);
/* weight (dense, of c->io_dtype) = its gradient, summed in float32; is_nhwc: the weight is NHWC. Errors:
 * SHMT_E_NOMEM. */
shmt_status shmt__conv_weight_grad_nhwc_amx(const shmt__conv* c, const shmt__image_view* images,
                                            const shmt__image_view* outputs, bool is_nhwc, void* weight);

#endif
