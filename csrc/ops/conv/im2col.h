/* ops/conv/im2col.h -- convolution by products of matrices. */
#ifndef SHMT_OPS_CONV_IM2COL_H
#define SHMT_OPS_CONV_IM2COL_H

#include "ops/conv/algorithm.h"

/* Is a convolution of bfloat16 (whatever c->dtype is) best made of products in tiles? */
bool shmt__conv_prefers_im2col_amx(const shmt__conv* c);
/* output = images * weight. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_im2col(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
