/* ops/conv/direct.h -- convolution without columns: see Note [Direct convolution] in kernels/conv/direct.tmpl.h. */
#ifndef SHMT_OPS_CONV_DIRECT_H
#define SHMT_OPS_CONV_DIRECT_H

#include "kernels/conv/direct.h"
#include "ops/conv/tile.h"

/* Does it pay: are most of the outputs that it calculates wanted ones? */
bool shmt__conv_prefers_direct(const shmt__conv* c);
/* output = images * weight, as shmt__conv_nchw. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_direct(const shmt__conv* c, const void* images, const void* weight, void* output);

/* Lay out a tile of image at / groups, the channels of group at % groups, as s says; room: shmt__conv_tile_input_bytes for
 * shmt__conv_gathered_channels channels. */
void shmt__conv_pad_image(const shmt__conv* c, const shmt__conv_direct_args* s, shmt__conv_tile* tile, const char* images,
                          int64_t at, char* padded, char* room);

#endif
