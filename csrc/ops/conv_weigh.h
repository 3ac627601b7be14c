/* ops/conv_weigh.h -- the gradient of a convolution's weight, without columns: Note [Weighing] in kernels/weigh.tmpl.h. */
#ifndef SHMT_OPS_CONV_WEIGH_H
#define SHMT_OPS_CONV_WEIGH_H

#include "ops/conv_planes.h"
#include "ops/conv_core.h"

/* Is there a kernel, and does it pay? */
bool shmt__conv_is_weighed(const shmt__conv* c, const shmt__planes* images);
/* weight (dense, of c->given) = its gradient, summed in c->dtype; is_last: its channels are neighbours. Images and outputs of
 * any strides and of c->given. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weigh(const shmt__conv* c, const shmt__planes* images, const shmt__planes* outputs, bool is_last,
                             void* weight);

#endif
