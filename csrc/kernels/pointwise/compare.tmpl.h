/* kernels/pointwise/compare.tmpl.h -- eq, ne, lt, le, gt, ge. The result is bool. */
#include "kernels/loops.h"

COMPARE(eq, a == b)
COMPARE(ne, a != b)
#if !SHMT_IS_COMPLEX && !SHMT_IS_BAREBONES_UNSIGNED
COMPARE(lt, a < b)
COMPARE(le, a <= b)
COMPARE(gt, a > b)
COMPARE(ge, a >= b)
#endif
