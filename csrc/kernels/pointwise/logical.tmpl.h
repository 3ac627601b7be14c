/* kernels/pointwise/logical.tmpl.h -- logical operators, and tests for NaN, infinities and signs. The result is
 * bool. */
#include "kernels/loops.h"

#if !SHMT_IS_BAREBONES_UNSIGNED && !SHMT_IS_LIMITED
COMPARE(logical_and, (a != 0) & (b != 0))
COMPARE(logical_or, (a != 0) | (b != 0))
COMPARE(logical_xor, (a != 0) ^ (b != 0))
UNARY_TEST(logical_not, a == 0)
#endif
#if SHMT_IS_COMPLEX
UNARY_TEST(isnan, (SHMT_CREAL(a) != SHMT_CREAL(a)) | (SHMT_CIMAG(a) != SHMT_CIMAG(a)))
UNARY_TEST(isinf,
           (fabs((double)SHMT_CREAL(a)) == INFINITY) | (fabs((double)SHMT_CIMAG(a)) == INFINITY))
UNARY_TEST(isfinite,
           (fabs((double)SHMT_CREAL(a)) < INFINITY) & (fabs((double)SHMT_CIMAG(a)) < INFINITY))
#else
#if SHMT_IS_FLOATING
UNARY_TEST(isnan, a != a)
UNARY_TEST(isinf, (a == (C)INFINITY) | (a == -(C)INFINITY))
UNARY_TEST(isfinite, (a < (C)INFINITY) & (a > -(C)INFINITY))
UNARY_TEST(isposinf, a == (C)INFINITY)
UNARY_TEST(isneginf, a == -(C)INFINITY)
UNARY_TEST(signbit, copysign(1.0, (double)a) < 0)
#else
UNARY_TEST(isnan, (a & 0) != 0)
UNARY_TEST(isinf, (a & 0) != 0)
UNARY_TEST(isfinite, (a & 0) == 0)
UNARY_TEST(isposinf, (a & 0) != 0)
UNARY_TEST(isneginf, (a & 0) != 0)
#if SHMT_IS_SIGNED
UNARY_TEST(signbit, a < 0)
#else
UNARY_TEST(signbit, (a & 0) != 0)
#endif
#endif
#endif
