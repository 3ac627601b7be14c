/* ops/conv/relayout.h -- convolution of images, or to outputs, that are laid out in another way in between. */
#ifndef SHMT_OPS_CONV_RELAYOUT_H
#define SHMT_OPS_CONV_RELAYOUT_H

#include "ops/conv/strided_images.h"
#include "ops/conv/nhwc/nhwc.h"

/* Does it pay: is what is multiplied much beside what is laid out? */
bool shmt__conv_prefers_relayout_nhwc(const shmt__conv* c);
/* Are there tiles (ops/conv/nhwc/amx.h), and does it pay to turn images around for them? */
bool shmt__conv_prefers_relayout_nhwc_amx(const shmt__conv* c);
/* Is there a kernel? */
bool shmt__conv_has_relayout_nhwc(const shmt__conv* c);
/* outputs = images * weight + c->bias where shmt__conv_has_relayout_nhwc; both of any strides and of dtype c->io_dtype, as the weight, which is
 * dense. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_relayout_nhwc(const shmt__conv* c, const shmt__image_view* images, const shmt__image_view* weight,
                                     const shmt__image_view* outputs);

/* outputs = images * weight + c->bias, by the kernels of shmt__conv_nchw: outputs of any strides, of dtype c->io_dtype;
 * weight and bias as there. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_relayout_nchw(const shmt__conv* c, const void* images, const void* weight,
                                     const shmt__image_view* outputs);

#endif
