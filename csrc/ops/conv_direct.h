/* ops/conv_direct.h -- convolution without columns: see Note [Direct convolution] in kernels/direct.tmpl.h. */
#ifndef SHMT_OPS_CONV_DIRECT_H
#define SHMT_OPS_CONV_DIRECT_H

#include "ops/conv_core.h"

/* Does it pay: are most of the outputs that it calculates wanted ones? */
bool shmt__conv_is_direct(const shmt__conv* c);
/* And does it read and write only a block of the tensors at a time? Panels want all of the weight again and again. */
bool shmt__conv_direct_has_blocks(const shmt__conv* c);
/* output = images * weight, as shmt__conv_forward. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_direct(const shmt__conv* c, const void* images, const void* weight, void* output);

/* The way back of a convolution of stride 1 is a convolution too. */
bool shmt__conv_is_direct_back(const shmt__conv* c);
/* As shmt__conv_to_images. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_direct_back(const shmt__conv* c, const void* output, const void* weight, void* images);

#endif
