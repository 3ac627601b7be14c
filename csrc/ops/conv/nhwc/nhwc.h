/* ops/conv/nhwc/nhwc.h -- convolution of images whose channels are neighbours: Note [Pixels] in kernels/conv/nhwc.tmpl.h. */
#ifndef SHMT_OPS_CONV_NHWC_NHWC_H
#define SHMT_OPS_CONV_NHWC_NHWC_H

#include "ops/conv/algorithm.h"

/* Is there a kernel, and do filters fill its vectors? */
bool shmt__conv_has_nhwc(const shmt__conv* c);
/* Are the channels of the images neighbours, and is nothing to be widened? */
bool shmt__conv_is_nhwc(const shmt__conv* c);
/* output = images * weight + c->bias as shmt__conv_nchw, but with filters as neighbours: (images, places, filters). Of
 * dtype `given` is only the weight. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_nhwc(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
