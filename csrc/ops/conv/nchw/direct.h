/* ops/conv/nchw/direct.h -- convolution without a column matrix: Note [Direct convolution] in
 * kernels/conv/direct.tmpl.h. */
#ifndef SHMT_OPS_CONV_NCHW_DIRECT_H
#define SHMT_OPS_CONV_NCHW_DIRECT_H

#include "ops/conv/problem.h"

/* Is there a kernel, and is enough of what it calculates wanted? The kernel also makes outputs between the ends of
 * padded rows, which are dropped. */
bool shmt__conv_prefers_direct(const shmt__conv* c);
/* output = images * weight, as shmt__conv_nchw(). Runs on panels (nchw/im2col_panels.h) where those are better. Errors:
 * SHMT_E_NOMEM. */
shmt_status shmt__conv_direct(const shmt__conv* c, const void* images, const void* weight, void* output);

#endif
