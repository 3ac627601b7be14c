/* kernels/counts.tmpl.h -- which of many elements are not zero: any, all, how many. */
#include "kernels/complex.h"
#include "kernels/fold.h"

#if SHMT_IS_COMPLEX
#define IS_TRUE ((SHMT_CREAL(x) != 0) | (SHMT_CIMAG(x) != 0))
#else
#define IS_TRUE (x != 0)
#endif
FOLD(all, uint8_t, 1, IS_TRUE, a & b, uint8_t, 1, s& a, s& t, bool, s)
FOLD(any, uint8_t, 0, IS_TRUE, a | b, uint8_t, 0, s | a, s | t, bool, s)
#if !SHMT_IS_WIDE_UNSIGNED
FOLD(count_nonzero, uint32_t, 0, IS_TRUE, a + b, int64_t, 0, s + a, s + t, int64_t, s)
#endif
#undef IS_TRUE
