/* ops/conv_panel.h -- convolution by columns of a few outputs at a time: see Note [Panels] in ops/conv_panel.c. */
#ifndef SHMT_OPS_CONV_PANEL_H
#define SHMT_OPS_CONV_PANEL_H

#include "kernels/direct.h"
#include "ops/conv_core.h"

/* Is it better than outputs along padded rows, of which `made` are calculated for an image and a filter? */
bool shmt__conv_is_panel(const shmt__conv* c, const shmt__direct_shape* s, int64_t made);
/* output = images * weight; s: the layout of a padded image, with its offsets. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_panel(const shmt__conv* c, const shmt__direct_shape* s, const void* images, const void* weight,
                             void* output);

#endif
