/* kernels/dispatch.c -- loops that layers below ask for by dtype. */
#include "generated/loops.h"
#include "iter/copy/copy.h"

shmt__cast_loop_fn shmt__cast_loop(shmt_dtype to, shmt_dtype from) {
  /* The rows cast_to_<dtype> stand in the order of the dtypes; the table holds every loop as
   * shmt__loop. */
  return (shmt__cast_loop_fn)(void (*)(void))shmt__loops[SHMT_LOOP_cast_to_bool + to][from];
}
