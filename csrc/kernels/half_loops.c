/* kernels/half_loops.c -- calls the loops of kernels/half_loops.tmpl.h that were compiled for this CPU, from every
 * level. */
#include "generated/loops.h"
#include "kernels/reduce/reduce_loops.h"
#include "kernels/loops.h"

/* The table holds every loop as shmt__loop; this casts an entry to its own type. */
#define WIDEN(TYPE, ROW, half) ((TYPE)(void (*)(void))shmt__loops[SHMT_LOOP_##ROW][half])

typedef void (*widened_fn)(shmt__loop full, shmt__stored stored, int n_inputs, char* const* data,
                           const int64_t* strides, int64_t n, const void* ctx);
typedef int64_t (*widened_reduction_fn)(shmt__reduce_loop full, shmt__stored stored, shmt__reduce_phase phase,
                                        const shmt__reduce_run* run);

void shmt__widened(shmt_dtype half, shmt__loop full, shmt__stored stored, int n_inputs, char* const* data,
                   const int64_t* strides, int64_t n, const void* ctx) {
  WIDEN(widened_fn, widened, half)(full, stored, n_inputs, data, strides, n, ctx);
}

int64_t shmt__widened_reduction(shmt_dtype half, shmt__reduce_loop full, shmt__stored stored, shmt__reduce_phase phase,
                                const shmt__reduce_run* run) {
  return WIDEN(widened_reduction_fn, widened_reduction, half)(full, stored, phase, run);
}
