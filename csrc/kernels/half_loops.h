/* kernels/half_loops.h -- loops of half-precision types (float16, bfloat16, complex32): they run the loop of their
 * compute type, the "full" loop, over widened blocks (kernels/half_loops.tmpl.h). */
#ifndef SHMT_KERNELS_HALF_LOOPS_H
#define SHMT_KERNELS_HALF_LOOPS_H

#include "iter/iter.h"

/* What a loop stores: its own type, its real type, or what the full loop stores (bool). */
typedef enum shmt__stored { SHMT_STORED_HALF, SHMT_STORED_REAL, SHMT_STORED_AS_IS } shmt__stored;

/* Runs `full`, a loop of one output and n_inputs (at most 3) inputs, on operands of the half-precision dtype `half`. */
void shmt__widened(shmt_dtype half, shmt__loop full, shmt__stored stored, int n_inputs, char* const* data,
                   const int64_t* strides, int64_t n, const void* ctx);

#endif
