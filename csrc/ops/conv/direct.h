/* ops/conv/direct.h -- convolution without columns: see Note [Direct convolution] in kernels/conv/direct.tmpl.h. */
#ifndef SHMT_OPS_CONV_DIRECT_H
#define SHMT_OPS_CONV_DIRECT_H

#include "kernels/conv/direct.h"
#include "ops/conv/tile.h"

/* Does it pay: are most of the outputs that it calculates wanted ones? */
bool shmt__conv_is_direct(const shmt__conv* c);
/* output = images * weight, as shmt__conv_forward. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_direct(const shmt__conv* c, const void* images, const void* weight, void* output);

/* Lay out a part of image at / groups, the channels of group at % groups, as s says; room: shmt__conv_view_bytes for
 * shmt__conv_together channels. */
void shmt__conv_pad(const shmt__conv* c, const shmt__direct_shape* s, shmt__conv_part* part, const char* images,
                    int64_t at, char* padded, char* room);

#endif
