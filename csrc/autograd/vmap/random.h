/* autograd/vmap/random.h -- random operators under vmap. */
#ifndef SHMT_AUTOGRAD_VMAP_RANDOM_H
#define SHMT_AUTOGRAD_VMAP_RANDOM_H

#include "autograd/vmap/dispatch.h"

/* Draw as the level's randomness says. */
shmt_status shmt__batch_random(shmt__batch_call* c);

#endif
