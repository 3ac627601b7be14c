/* kernels/quantifiers.tmpl.h -- is any of many elements, are all of them not zero? */
#include "kernels/complex.h"
#include "kernels/counts.h"
#include "kernels/fold.h"

#if SHMT_IS_BOOL || (SHMT_IS_INTEGRAL && !SHMT_IS_SIGNED)
COUNTS_TWIN(all)
COUNTS_TWIN(any)
#else
#if SHMT_IS_COMPLEX
#define IS_TRUE ((SHMT_CREAL(x) != 0) | (SHMT_CIMAG(x) != 0))
#else
#define IS_TRUE (x != 0)
#endif
FOLD(all, uint8_t, 1, IS_TRUE, a & b, uint8_t, 1, s& a, s& t, bool, s)
FOLD(any, uint8_t, 0, IS_TRUE, a | b, uint8_t, 0, s | a, s | t, bool, s)
#undef IS_TRUE
#endif
