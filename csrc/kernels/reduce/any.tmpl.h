/* kernels/reduce/any.tmpl.h -- any: is any element nonzero? */
#include "kernels/reduce/nonzero.h"
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
REDUCE_AS_SIGNED(any)
#else
FOLD(any, uint8_t, 0, x != 0, a | b, uint8_t, 0, s | a, s | t, bool, s)
#endif
