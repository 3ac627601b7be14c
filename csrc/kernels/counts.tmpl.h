/* kernels/counts.tmpl.h -- how many elements are not zero. */
#include "kernels/complex.h"
#include "kernels/counts.h"
#include "kernels/fold.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
#if !SHMT_IS_WIDE_UNSIGNED
COUNTS_TWIN(count_nonzero)
#endif
#else
#if SHMT_IS_COMPLEX
#define IS_TRUE ((SHMT_CREAL(x) != 0) | (SHMT_CIMAG(x) != 0))
#else
#define IS_TRUE (x != 0)
#endif
FOLD(count_nonzero, uint32_t, 0, IS_TRUE, a + b, int64_t, 0, s + a, s + t, int64_t, s)
#undef IS_TRUE
#endif
