/* ops/conv/relayout.h -- convolution of images, or to outputs, that are laid out in another way in between. */
#ifndef SHMT_OPS_CONV_RELAYOUT_H
#define SHMT_OPS_CONV_RELAYOUT_H

#include "ops/conv/strided_images.h"
#include "ops/conv/nhwc/nhwc.h"

/* Does it pay: is what is multiplied much beside what is laid out? */
bool shmt__conv_is_laid(const shmt__conv* c);
/* Are there tiles (ops/conv/nhwc/amx.h), and does it pay to turn images around for them? */
bool shmt__conv_is_turned_for_tiles(const shmt__conv* c);
/* Is there a kernel? */
bool shmt__conv_has_laid(const shmt__conv* c);
/* outputs = images * weight + c->bias where shmt__conv_has_laid; both of any strides and of dtype c->given, as the weight, which is
 * dense. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_laid(const shmt__conv* c, const shmt__planes* images, const shmt__planes* weight,
                            const shmt__planes* outputs);

/* outputs = images * weight + c->bias, by the kernels of shmt__conv_forward: outputs of any strides, of dtype c->given;
 * weight and bias as there. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_spread(const shmt__conv* c, const void* images, const void* weight, const shmt__planes* outputs);

#endif
