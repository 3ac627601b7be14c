/* ops/conv/nchw/nchw.h -- forward convolution to a dense NCHW output. */
#ifndef SHMT_OPS_CONV_NCHW_NCHW_H
#define SHMT_OPS_CONV_NCHW_NCHW_H

#include "ops/conv/problem.h"

/* output = images * weight, by nchw/depthwise.c, nchw/direct.c or nchw/im2col.c. c->bias is added where the result is
 * rounded to a 16-bit dtype; elsewhere by im2col only, so a caller leaves it NULL and adds it afterwards. Errors:
 * SHMT_E_NOMEM. */
shmt_status shmt__conv_nchw(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
