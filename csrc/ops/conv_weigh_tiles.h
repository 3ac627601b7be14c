/* ops/conv_weigh_tiles.h -- the gradient of a convolution's weight by tiles, of bfloat16 images whose channels are neighbours. */
#ifndef SHMT_OPS_CONV_WEIGH_TILES_H
#define SHMT_OPS_CONV_WEIGH_TILES_H

#include "ops/conv_core.h"
#include "ops/conv_planes.h"

/* Are there tiles, do images and outputs lie as they read them, and does it pay? */
bool shmt__conv_is_weighed_by_tiles(const shmt__conv* c, const shmt__planes* images, const shmt__planes* outputs);
/* weight (dense, of c->given) = its gradient, summed in float32; is_last: its channels are neighbours. Errors: SHMT_E_NOMEM. */
shmt_status shmt__conv_weigh_tiles(const shmt__conv* c, const shmt__planes* images, const shmt__planes* outputs, bool is_last,
                                   void* weight);

#endif
