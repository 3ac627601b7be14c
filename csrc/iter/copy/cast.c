/* iter/copy/cast.c -- the loop that converts elements of one dtype to another. */
#include "generated/loops.h"
#include "iter/copy/copy.h"

shmt__cast_loop_fn shmt__cast_loop(shmt_dtype to, shmt_dtype from) {
  /* The rows cast_to_<dtype> stand in the order of the dtypes. The table holds every loop as a shmt__loop, so the
   * pointer is cast back to its own type. */
  return (shmt__cast_loop_fn)(void (*)(void))shmt__loops[SHMT_LOOP_cast_to_bool + to][from];
}
