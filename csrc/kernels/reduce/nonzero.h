/* kernels/reduce/nonzero.h -- shared by all, any and count_nonzero: unsigned and bool use the loops of signed
 * integers. */
#ifndef SHMT_KERNELS_REDUCE_COUNT_NONZERO_H
#define SHMT_KERNELS_REDUCE_COUNT_NONZERO_H

#include "iter/reduce.h"

/* An unsigned integer or a bool is 0 when a signed integer with the same bits is, so one loop serves all of a width. */
#define SIGNED_LOOP_(NAME, DTYPE, LEVEL) shmt__loop_##NAME##_##DTYPE##_##LEVEL
#define SIGNED_LOOP(NAME, DTYPE, LEVEL)  SIGNED_LOOP_(NAME, DTYPE, LEVEL)
#define REDUCE_AS_SIGNED(NAME)                                                                  \
  int64_t SIGNED_LOOP(NAME, int8, ISA)(shmt__reduce_phase phase, const shmt__reduce_run* run);  \
  int64_t SIGNED_LOOP(NAME, int16, ISA)(shmt__reduce_phase phase, const shmt__reduce_run* run); \
  int64_t SIGNED_LOOP(NAME, int32, ISA)(shmt__reduce_phase phase, const shmt__reduce_run* run); \
  int64_t SIGNED_LOOP(NAME, int64, ISA)(shmt__reduce_phase phase, const shmt__reduce_run* run); \
  int64_t SHMT_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run) {              \
    return sizeof(T) == 1   ? SIGNED_LOOP(NAME, int8, ISA)(phase, run)                          \
           : sizeof(T) == 2 ? SIGNED_LOOP(NAME, int16, ISA)(phase, run)                         \
           : sizeof(T) == 4 ? SIGNED_LOOP(NAME, int32, ISA)(phase, run)                         \
                            : SIGNED_LOOP(NAME, int64, ISA)(phase, run);                        \
  }

#endif
