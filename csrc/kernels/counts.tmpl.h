/* kernels/counts.tmpl.h -- which of many elements are not zero: any, all, how many. */
#include "kernels/complex.h"
#include "kernels/fold.h"

/* An unsigned integer or a bool is 0 when a signed integer of the same bits is: one loop does for all of a width. */
#define COUNTS_LOOP_(NAME, DTYPE, LEVEL) shmt__loop_##NAME##_##DTYPE##_##LEVEL
#define COUNTS_LOOP(NAME, DTYPE, LEVEL)  COUNTS_LOOP_(NAME, DTYPE, LEVEL)
#define COUNTS_TWIN(NAME)                                                                       \
  int64_t COUNTS_LOOP(NAME, int8, ISA)(shmt__reduce_phase phase, const shmt__reduce_run* run);  \
  int64_t COUNTS_LOOP(NAME, int16, ISA)(shmt__reduce_phase phase, const shmt__reduce_run* run); \
  int64_t COUNTS_LOOP(NAME, int32, ISA)(shmt__reduce_phase phase, const shmt__reduce_run* run); \
  int64_t COUNTS_LOOP(NAME, int64, ISA)(shmt__reduce_phase phase, const shmt__reduce_run* run); \
  int64_t SHMT_LOOP(NAME)(shmt__reduce_phase phase, const shmt__reduce_run* run) {              \
    return sizeof(T) == 1   ? COUNTS_LOOP(NAME, int8, ISA)(phase, run)                          \
           : sizeof(T) == 2 ? COUNTS_LOOP(NAME, int16, ISA)(phase, run)                         \
           : sizeof(T) == 4 ? COUNTS_LOOP(NAME, int32, ISA)(phase, run)                         \
                            : COUNTS_LOOP(NAME, int64, ISA)(phase, run);                        \
  }

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
COUNTS_TWIN(all)
COUNTS_TWIN(any)
#if !SHMT_IS_WIDE_UNSIGNED
COUNTS_TWIN(count_nonzero)
#endif
#else
#if SHMT_IS_COMPLEX
#define IS_TRUE ((SHMT_CREAL(x) != 0) | (SHMT_CIMAG(x) != 0))
#else
#define IS_TRUE (x != 0)
#endif
FOLD(all, uint8_t, 1, IS_TRUE, a & b, uint8_t, 1, s& a, s& t, bool, s)
FOLD(any, uint8_t, 0, IS_TRUE, a | b, uint8_t, 0, s | a, s | t, bool, s)
FOLD(count_nonzero, uint32_t, 0, IS_TRUE, a + b, int64_t, 0, s + a, s + t, int64_t, s)
#undef IS_TRUE
#endif
#undef COUNTS_LOOP_
#undef COUNTS_LOOP
#undef COUNTS_TWIN
