/* kernels/image/grid.h -- where positions lie in images, for the templates of grid_sample.
 *
 * A position is the product of one set of neighbours per dim. Images have depth 1, and then positions have two coordinates.
 * Coordinates come in the order width, height, depth; indices and sizes in that of depth, height, width.
 */
#ifndef SHMT_KERNELS_IMAGE_GRID_H
#define SHMT_KERNELS_IMAGE_GRID_H

#include "kernels/loops.h"
#include "kernels/loop_args.h"

enum { SHMT_GRID_LINEAR, SHMT_GRID_NEAREST, SHMT_GRID_CUBIC };
enum { SHMT_GRID_ZEROS, SHMT_GRID_BORDER, SHMT_GRID_REFLECT };
enum { SHMT_GRID_CORNERS = 16 }; /* combinations of neighbours: 4 by 4, or 2 by 2 by 2 */
/* Positions that are found together, and as a multiple of what: of every vector's elements. */
enum { SHMT_GRID_BLOCK = 64, SHMT_GRID_LANES = 8 };

static inline int64_t shmt__grid_offset(const shmt__grid_view* v, const int64_t at[3]) {
  return at[0] * v->at[0] + at[1] * v->at[1] + at[2] * v->at[2];
}

/* Once for each type that is calculated in, not for each dtype. */
#define OF(name) SHMT_PASTE(name, R)
#define R        float
#include "kernels/image/grid_positions.tmpl.h"
#undef R
#define R double
#include "kernels/image/grid_positions.tmpl.h"
#undef R
#undef OF

#endif
