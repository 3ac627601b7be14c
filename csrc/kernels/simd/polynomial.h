/* kernels/simd/polynomial.h -- evaluates polynomials that are written as lists of coefficients.
 *
 * POLY(x, a, b, c, ...) is a + b x + c x^2 + ... by Horner's rule, for up to 26 coefficients. It is an expression,
 * because an inner loop would keep the loop over elements from being vectorised. x is evaluated several times.
 */
#ifndef SHMT_KERNELS_SIMD_POLYNOMIAL_H
#define SHMT_KERNELS_SIMD_POLYNOMIAL_H

#include "kernels/simd/vmath.h"

#define SHMT_POLY_1(x, a) (a)
#define SHMT_POLY_2(x, a, ...)  SHMT_MADD(SHMT_POLY_1(x, __VA_ARGS__), x, a)
#define SHMT_POLY_3(x, a, ...)  SHMT_MADD(SHMT_POLY_2(x, __VA_ARGS__), x, a)
#define SHMT_POLY_4(x, a, ...)  SHMT_MADD(SHMT_POLY_3(x, __VA_ARGS__), x, a)
#define SHMT_POLY_5(x, a, ...)  SHMT_MADD(SHMT_POLY_4(x, __VA_ARGS__), x, a)
#define SHMT_POLY_6(x, a, ...)  SHMT_MADD(SHMT_POLY_5(x, __VA_ARGS__), x, a)
#define SHMT_POLY_7(x, a, ...)  SHMT_MADD(SHMT_POLY_6(x, __VA_ARGS__), x, a)
#define SHMT_POLY_8(x, a, ...)  SHMT_MADD(SHMT_POLY_7(x, __VA_ARGS__), x, a)
#define SHMT_POLY_9(x, a, ...)  SHMT_MADD(SHMT_POLY_8(x, __VA_ARGS__), x, a)
#define SHMT_POLY_10(x, a, ...) SHMT_MADD(SHMT_POLY_9(x, __VA_ARGS__), x, a)
#define SHMT_POLY_11(x, a, ...) SHMT_MADD(SHMT_POLY_10(x, __VA_ARGS__), x, a)
#define SHMT_POLY_12(x, a, ...) SHMT_MADD(SHMT_POLY_11(x, __VA_ARGS__), x, a)
#define SHMT_POLY_13(x, a, ...) SHMT_MADD(SHMT_POLY_12(x, __VA_ARGS__), x, a)
#define SHMT_POLY_14(x, a, ...) SHMT_MADD(SHMT_POLY_13(x, __VA_ARGS__), x, a)
#define SHMT_POLY_15(x, a, ...) SHMT_MADD(SHMT_POLY_14(x, __VA_ARGS__), x, a)
#define SHMT_POLY_16(x, a, ...) SHMT_MADD(SHMT_POLY_15(x, __VA_ARGS__), x, a)
#define SHMT_POLY_17(x, a, ...) SHMT_MADD(SHMT_POLY_16(x, __VA_ARGS__), x, a)
#define SHMT_POLY_18(x, a, ...) SHMT_MADD(SHMT_POLY_17(x, __VA_ARGS__), x, a)
#define SHMT_POLY_19(x, a, ...) SHMT_MADD(SHMT_POLY_18(x, __VA_ARGS__), x, a)
#define SHMT_POLY_20(x, a, ...) SHMT_MADD(SHMT_POLY_19(x, __VA_ARGS__), x, a)
#define SHMT_POLY_21(x, a, ...) SHMT_MADD(SHMT_POLY_20(x, __VA_ARGS__), x, a)
#define SHMT_POLY_22(x, a, ...) SHMT_MADD(SHMT_POLY_21(x, __VA_ARGS__), x, a)
#define SHMT_POLY_23(x, a, ...) SHMT_MADD(SHMT_POLY_22(x, __VA_ARGS__), x, a)
#define SHMT_POLY_24(x, a, ...) SHMT_MADD(SHMT_POLY_23(x, __VA_ARGS__), x, a)
#define SHMT_POLY_25(x, a, ...) SHMT_MADD(SHMT_POLY_24(x, __VA_ARGS__), x, a)
#define SHMT_POLY_26(x, a, ...) SHMT_MADD(SHMT_POLY_25(x, __VA_ARGS__), x, a)

#define SHMT_POLY_SELECT(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, \
                       _18, _19, _20, _21, _22, _23, _24, _25, _26, NAME, ...) NAME
#define POLY(x, ...)                                                                                  \
  SHMT_POLY_SELECT(__VA_ARGS__, SHMT_POLY_26, SHMT_POLY_25, SHMT_POLY_24, SHMT_POLY_23, SHMT_POLY_22, \
                 SHMT_POLY_21, SHMT_POLY_20, SHMT_POLY_19, SHMT_POLY_18, SHMT_POLY_17, SHMT_POLY_16,  \
                 SHMT_POLY_15, SHMT_POLY_14, SHMT_POLY_13, SHMT_POLY_12, SHMT_POLY_11, SHMT_POLY_10,  \
                 SHMT_POLY_9, SHMT_POLY_8, SHMT_POLY_7, SHMT_POLY_6, SHMT_POLY_5, SHMT_POLY_4,        \
                 SHMT_POLY_3, SHMT_POLY_2, SHMT_POLY_1, 0)                                            \
  (x, __VA_ARGS__)

#endif
