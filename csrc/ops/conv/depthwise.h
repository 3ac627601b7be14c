/* ops/conv/depthwise.h -- convolution of every channel with filters of its own. */
#ifndef SHMT_OPS_CONV_DEPTHWISE_H
#define SHMT_OPS_CONV_DEPTHWISE_H

#include "ops/conv/algorithm.h"

/* output = images * weight, where shmt__conv_is_depthwise: a product of one row is no product worth the columns, so planes
 * are filtered as they are. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_depthwise(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
