/* kernels/reduce/count_nonzero.tmpl.h -- count_nonzero: how many elements are nonzero. */
#include "kernels/reduce/nonzero.h"
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
#if !SHMT_IS_BAREBONES_UNSIGNED
REDUCE_AS_SIGNED(count_nonzero)
#endif
#else
FOLD(count_nonzero, uint32_t, 0, x != 0, a + b, int64_t, 0, s + a, s + t, int64_t, s)
#endif
