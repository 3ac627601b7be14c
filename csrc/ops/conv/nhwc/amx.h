/* ops/conv/nhwc/amx.h -- NHWC convolution of bfloat16 images on AMX tiles (ops/matmul/gemm_amx.h). */
#ifndef SHMT_OPS_CONV_NHWC_AMX_H
#define SHMT_OPS_CONV_NHWC_AMX_H

#include "ops/conv/problem.h"
#include "ops/conv/image_view.h"

/* Is there AMX, is c->io_dtype bfloat16, and do the products pay for the im2col copies? */
bool shmt__conv_has_nhwc_amx(const shmt__conv* c);
/* The same, and are the images NHWC? */
bool shmt__conv_is_nhwc_amx(const shmt__conv* c);
/* output = images * weight + c->bias, with an NHWC input and a dense NHWC output, all of c->io_dtype but the bias,
 * which has c->dtype. The weight (filters, channels of a group, kernel) has any strides. Where c->flips_weight, it is
 * (channels, filters of a group, kernel), and the positions of its kernel are evenly apart. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_nhwc_amx(const shmt__conv* c, const void* images, const shmt__image_view* weight, void* output);

#endif
