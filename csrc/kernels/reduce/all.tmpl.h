/* kernels/reduce/all.tmpl.h -- all: is every element nonzero? */
#include "kernels/reduce/nonzero.h"
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
REDUCE_AS_SIGNED(all)
#else
FOLD(all, uint8_t, 1, x != 0, a & b, uint8_t, 1, s& a, s& t, bool, s)
#endif
