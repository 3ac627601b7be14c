/* kernels/reduce/products.tmpl.h -- prod. */
#include "kernels/simd/complex.h"
#include "kernels/reduce/reduce_loops.h"

#if SHMT_IS_COMPLEX
FOLD(prod, C, 1, x, SHMT_CMUL(a, b), double _Complex, 1, SHMT_CMUL(s, (double _Complex)a), SHMT_CMUL(s, t), T, (T)s)
#elif SHMT_IS_FLOATING
FOLD(prod, C, 1, x, a * b, double, 1, s*(double)a, s* t, T, SHMT_STORE((C)s))
#else
FOLD(prod, uint64_t, 1, (uint64_t)x, a * b, uint64_t, 1, s* a, s* t, int64_t, (int64_t)s) /* wraps */
#endif
