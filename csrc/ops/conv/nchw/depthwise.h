/* ops/conv/nchw/depthwise.h -- depthwise convolution: every channel has filters of its own. */
#ifndef SHMT_OPS_CONV_NCHW_DEPTHWISE_H
#define SHMT_OPS_CONV_NCHW_DEPTHWISE_H

#include "ops/conv/problem.h"

/* output = images * weight, as shmt__conv_nchw(), where shmt__conv_is_depthwise(). A matrix product with one row would
 * not be worth its columns, so the kernel filters planes as they are. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_depthwise(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
