/* ops/conv/relayout.h -- convolution with a layout conversion: tiles are computed as NHWC or NCHW, whatever the tensors
 * are. */
#ifndef SHMT_OPS_CONV_RELAYOUT_H
#define SHMT_OPS_CONV_RELAYOUT_H

#include "ops/conv/image_view.h"
#include "ops/conv/problem.h"

/* Does conversion to NHWC pay: are there enough multiplications for each element that is converted? */
bool shmt__conv_prefers_relayout_nhwc(const shmt__conv* c);
/* The same for the AMX kernel (ops/conv/nhwc/amx.h), where there is one. */
bool shmt__conv_prefers_relayout_nhwc_amx(const shmt__conv* c);
/* Is there an NHWC kernel of any kind? */
bool shmt__conv_has_relayout_nhwc(const shmt__conv* c);
/* outputs = images * weight + c->bias by an NHWC kernel, where shmt__conv_has_relayout_nhwc(). All have c->io_dtype;
 * images and outputs have any strides, the weight is dense. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_relayout_nhwc(const shmt__conv* c, const shmt__image_view* images,
                                     const shmt__image_view* weight, const shmt__image_view* outputs);

/* outputs = images * weight + c->bias by shmt__conv_nchw(), whose weight and bias these are; outputs have any strides
 * and c->io_dtype. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_relayout_nchw(const shmt__conv* c, const void* images, const void* weight,
                                     const shmt__image_view* outputs);

#endif
