/* ops/conv_depthwise.h -- convolution of every channel with filters of its own. */
#ifndef SHMT_OPS_CONV_DEPTHWISE_H
#define SHMT_OPS_CONV_DEPTHWISE_H

#include "ops/conv_core.h"

/* output = images * weight, where shmt__conv_is_depthwise: a product of one row is no product worth the columns, so planes
 * are filtered as they are. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_depthwise(const shmt__conv* c, const void* images, const void* weight, void* output);

/* Have channels a filter each, and is there a kernel that reads them where they are neighbours? */
bool shmt__conv_has_depthwise_pixels(const shmt__conv* c);
/* Are they that, and is nothing to be widened? */
bool shmt__conv_is_depthwise_pixels(const shmt__conv* c);
/* output = images * weight + c->bias, with channels as neighbours in both: Note [Pixels] in kernels/pixels.tmpl.h. Of
 * dtype `given` is only the weight. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_depthwise_pixels(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
