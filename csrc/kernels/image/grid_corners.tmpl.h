/* kernels/image/grid_corners.tmpl.h -- operands of grid_sample in one dtype, and the corners of one position at a time.
 *
 * Included by other templates. ctx: shmt__grid_sample_args.
 */
#include "kernels/image/grid.h"

/* Names of the functions that calculate in ACC. */
#define OF(name) SHMT_PASTE(name, ACC)

/* Find the neighbours of a position along width, height and depth. */
static inline void SHMT_LOOP(locate)(const shmt__grid_sample_args* s, const T* position, int64_t step,
                                     OF(neighbours) sets[3]) {
  sets[2] = (OF(neighbours)){.n = 1, .at = {0}, .weight = {1}, .slope = {0}, .curve = {0}};
  for (int d = 0; d < s->n; d++)
    OF(find_neighbours)(s, (ACC)SHMT_LOAD(position[d * step]), s->in[2 - d], &sets[d]);
}

/* The offsets of the corners in a plane of an operand. */
static inline void SHMT_LOOP(find_offsets)(const shmt__grid_view* v, const OF(corner)* corners, int n,
                                           int64_t* out) {
  for (int k = 0; k < n; k++) out[k] = shmt__grid_offset(v, corners[k].at);
}

/* The data of operand k at a batch entry and position; NULL if there is none. */
static inline T* SHMT_LOOP(operand)(char* const* data, const shmt__grid_sample_args* s, int k, int64_t entry,
                                    const int64_t* at) {
  const shmt__grid_view* v = &s->views[k];

  return data[k] ? (T*)(void*)data[k] + entry * v->batch + (at ? shmt__grid_offset(v, at) : 0) : NULL;
}

#define EACH_POSITION(s, at)                              \
  for (int64_t at[3] = {0}; at[0] < (s)->out[0]; at[0]++) \
    for (at[1] = 0; at[1] < (s)->out[1]; at[1]++)         \
      for (at[2] = 0; at[2] < (s)->out[2]; at[2]++)
