/* ops/conv/nchw/padded_image.h -- the copy of an image that direct convolution reads: padded, and divided by stride
 * phases.
 *
 * Note [Direct convolution] in kernels/conv/direct.tmpl.h describes this layout.
 */
#ifndef SHMT_OPS_CONV_NCHW_PADDED_IMAGE_H
#define SHMT_OPS_CONV_NCHW_PADDED_IMAGE_H

#include "kernels/conv/direct.h"
#include "ops/conv/tile.h"

/* The layout for tiles with so many outputs; s->offset stays NULL. */
void shmt__conv_padded_layout(const shmt__conv* c, const int64_t* out, shmt__conv_direct_args* s);
/* Fill s->k offsets, in the order in which the weight has a filter's elements. */
void shmt__conv_padded_offsets(const shmt__conv* c, const shmt__conv_direct_args* s, int64_t* offset);
/* Outputs along padded rows: those between the ends of two rows are included. */
static inline int64_t shmt__conv_padded_run(const shmt__conv_direct_args* s, const int64_t* out) {
  return (out[1] - 1) * s->row + out[2];
}

/* Copy the input of a tile to `padded`, for image at / groups and the channels of group at % groups. room:
 * shmt__conv_tile_input_bytes() for shmt__conv_gathered_channels() channels. */
void shmt__conv_pad_image(const shmt__conv* c, const shmt__conv_direct_args* s, shmt__conv_tile* tile,
                          const char* images, int64_t at, char* padded, char* room);

#endif
