/* ops/conv/nhwc/grouped.h -- NHWC convolution, depthwise or in groups of a few filters. */
#ifndef SHMT_OPS_CONV_NHWC_GROUPED_H
#define SHMT_OPS_CONV_NHWC_GROUPED_H

#include "ops/conv/problem.h"

/* Are there kernels that hold several groups in one vector? Groups must have as many filters as channels: one, or a
 * divisor of the vector's elements. */
bool shmt__conv_groups_fill_vectors(const shmt__conv* c);
/* The same, and has a group too few filters for nhwc/nhwc.c? */
bool shmt__conv_has_nhwc_grouped(const shmt__conv* c);
/* The same, and can the kernel read the images where they lie: NHWC, without widening? */
bool shmt__conv_is_nhwc_grouped(const shmt__conv* c);
/* output = images * weight + c->bias, both NHWC: Note [Grouped NHWC convolution] in kernels/conv/filter_vectors.tmpl.h.
 * Only the weight has c->io_dtype, all else c->dtype. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_nhwc_grouped(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
