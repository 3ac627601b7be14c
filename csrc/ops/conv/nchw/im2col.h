/* ops/conv/nchw/im2col.h -- convolution as matrix products of the weight with im2col matrices. */
#ifndef SHMT_OPS_CONV_NCHW_IM2COL_H
#define SHMT_OPS_CONV_NCHW_IM2COL_H

#include "ops/conv/problem.h"

/* Are AMX products the best way for a bfloat16 convolution of this shape? c->dtype is not looked at. */
bool shmt__conv_prefers_im2col_amx(const shmt__conv* c);
/* output = images * weight, plus c->bias where that is not NULL. This algorithm takes every shape and dtype. Errors:
 * SHMT_E_NOMEM. */
shmt_status shmt__conv_im2col(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
