/* kernels/all.tmpl.h -- are all of many elements not zero? */
#include "kernels/counts.h"
#include "kernels/fold.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
COUNTS_TWIN(all)
#else
FOLD(all, uint8_t, 1, x != 0, a & b, uint8_t, 1, s& a, s& t, bool, s)
#endif
