/* kernels/image/grid.h -- the neighbours of positions in images, for the templates of grid_sample.
 *
 * Each dim of a position has a set of neighbouring indices; their combinations are the corners of the position. Images
 * have depth 1, and their positions have two coordinates. Coordinates are ordered width, height, depth; indices and
 * sizes depth, height, width.
 */
#ifndef SHMT_KERNELS_IMAGE_GRID_H
#define SHMT_KERNELS_IMAGE_GRID_H

#include "kernels/template.h"
#include "kernels/loop_args.h"

enum { SHMT_GRID_LINEAR, SHMT_GRID_NEAREST, SHMT_GRID_CUBIC };
enum { SHMT_GRID_ZEROS, SHMT_GRID_BORDER, SHMT_GRID_REFLECT };
enum { SHMT_GRID_CORNERS = 16 }; /* at most: 4 by 4, or 2 by 2 by 2 */
/* Positions whose corners are found together, and the lanes of the widest vector, of which they are a multiple. */
enum { SHMT_GRID_BLOCK = 64, SHMT_GRID_LANES = 8 };

static inline int64_t shmt__grid_offset(const shmt__grid_view* v, const int64_t at[3]) {
  return at[0] * v->at[0] + at[1] * v->at[1] + at[2] * v->at[2];
}

/* Once for each type of the sums, not for each dtype. */
#define OF(name) SHMT_PASTE(name, R)
#define R        float
#include "kernels/image/grid_positions.tmpl.h"
#undef R
#define R double
#include "kernels/image/grid_positions.tmpl.h"
#undef R
#undef OF

#endif
