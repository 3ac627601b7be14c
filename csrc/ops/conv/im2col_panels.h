/* ops/conv/im2col_panels.h -- convolution by columns of a few outputs at a time: see Note [Panels] in ops/conv/im2col_panels.c. */
#ifndef SHMT_OPS_CONV_IM2COL_PANELS_H
#define SHMT_OPS_CONV_IM2COL_PANELS_H

#include "kernels/conv/direct.h"
#include "ops/conv/algorithm.h"

/* Is it better than outputs along padded rows, of which `made` are calculated for an image and a filter? */
bool shmt__conv_prefers_im2col_panels(const shmt__conv* c, const shmt__conv_direct_args* s, int64_t made);
/* output = images * weight; s: the layout of a padded image, with its offsets. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_im2col_panels(const shmt__conv* c, const shmt__conv_direct_args* s, const void* images,
                                     const void* weight, void* output);

#endif
