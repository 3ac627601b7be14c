/* ops/conv/nhwc/nhwc.h -- NHWC convolution: Note [NHWC convolution] in kernels/conv/nhwc.tmpl.h. */
#ifndef SHMT_OPS_CONV_NHWC_NHWC_H
#define SHMT_OPS_CONV_NHWC_NHWC_H

#include "ops/conv/problem.h"

/* Is there a kernel, and are there filters enough to fill its vectors? */
bool shmt__conv_has_nhwc(const shmt__conv* c);
/* The same, and can it read the images where they lie: NHWC, without widening? */
bool shmt__conv_is_nhwc(const shmt__conv* c);
/* output = images * weight + c->bias, with an NHWC input and a dense NHWC output. Only the weight has c->io_dtype, all
 * else c->dtype. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_nhwc(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
