/* ops/conv/nhwc/grouped.h -- convolution of images whose channels are neighbours, in groups of one filter or a few. */
#ifndef SHMT_OPS_CONV_NHWC_GROUPED_H
#define SHMT_OPS_CONV_NHWC_GROUPED_H

#include "ops/conv/algorithm.h"

/* Have groups as many filters as channels, one or so many that they divide a vector, and are there kernels that have them
 * beside each other in one? */
bool shmt__conv_groups_fill_vectors(const shmt__conv* c);
/* Have they, and are they too few for the kernel of pixels? */
bool shmt__conv_has_nhwc_grouped(const shmt__conv* c);
/* Have they, are channels neighbours, and is nothing to be widened? */
bool shmt__conv_is_nhwc_grouped(const shmt__conv* c);
/* output = images * weight + c->bias, with channels as neighbours in both: Note [Groups of pixels] in
 * kernels/conv/filter_vectors.tmpl.h. Of dtype `given` is only the weight. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_nhwc_grouped(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
