/* ops/conv/nchw/im2col_panels.h -- direct convolution on im2col panels: Note [im2col panels] in im2col_panels.c. */
#ifndef SHMT_OPS_CONV_NCHW_IM2COL_PANELS_H
#define SHMT_OPS_CONV_NCHW_IM2COL_PANELS_H

#include "kernels/conv/direct.h"
#include "ops/conv/problem.h"

/* Are panels better than outputs along padded rows, of which the kernel would make `made` for an image and a filter? */
bool shmt__conv_prefers_im2col_panels(const shmt__conv* c, const shmt__conv_direct_args* s, int64_t made);
/* output = images * weight; s: the layout of a padded image, with its offsets. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_im2col_panels(const shmt__conv* c, const shmt__conv_direct_args* s, const void* images,
                                     const void* weight, void* output);

#endif
