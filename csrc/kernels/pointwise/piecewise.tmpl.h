/* kernels/pointwise/piecewise.tmpl.h -- piecewise linear activation functions, and their backward loops, where a is the
 * gradient and b the input. */
#include "kernels/loops.h"

#define NUMBER(k) ((C)SHMT_CTX_SCALAR(k))

UNARY_WITH(threshold, const C at = NUMBER(0); const C value = NUMBER(1), a <= at ? value : a)
/* In the backward loops of threshold and leaky_relu, a is the input and b the gradient, so that the result has the
 * layout of the input, as in torch. */
BINARY_WITH(threshold_backward, const C at = NUMBER(0), a <= at ? 0 : b)
#if SHMT_IS_INTEGRAL
UNARY(relu, a > 0 ? a : 0)
UNARY_WITH(hardtanh, const C low = NUMBER(0); const C high = NUMBER(1); const C least = low < high ? low : high,
           a > high ? high : a < low ? least : a)
#else
UNARY(relu, a < 0 ? 0 : a)
/* As clamp: when low > high the result is high, and a limit that is NaN gives NaN everywhere. */
UNARY_WITH(hardtanh, const C low = NUMBER(0);
           const C high = NUMBER(1); const bool both = low == low && high == high;
           const C least = !both ? (C)NAN : low < high ? low : high,
           both ? a > high ? high : a < low ? least : a : least)
UNARY_WITH(leaky_relu, const C slope = NUMBER(0), a > 0 ? a : a * slope)
/* prelu with the learned slope b, its derivative, and the gradient of the slope, where a is the gradient and b the
 * input. */
BINARY(prelu, a > 0 ? a : a * b)
BINARY(prelu_derivative, a > 0 ? 1 : b)
BINARY(prelu_slope_backward, b > 0 ? 0 : a * b)
BINARY_WITH(leaky_relu_backward, const C slope = NUMBER(0), a > 0 ? b : b * slope)
BINARY_WITH(hardtanh_backward, const C low = NUMBER(0);
            const C high = NUMBER(1), (b > low) & (b < high) ? a : 0)
static inline C FN(hard)(C x) {
  const C y = x + 3;
  return y < 0 ? 0 : y > 6 ? 6 : y;
}
UNARY(hardsigmoid, FN(hard)(a) / 6)
BINARY(hardsigmoid_backward, (b > -3) & (b < 3) ? a / 6 : 0)
UNARY(hardswish, a* FN(hard)(a) / 6)
BINARY(hardswish_backward, b >= 3 ? a : b <= -3 ? 0 : a * (b / 3 + (C)0.5))
UNARY_WITH(softshrink, const C by = NUMBER(0), a > by ? a - by : a < -by ? a + by : a * 0)
UNARY_WITH(hardshrink, const C by = NUMBER(0), (a >= -by) & (a <= by) ? 0 : a)
BINARY_WITH(hardshrink_backward, const C by = NUMBER(0), (b > by) | (b < -by) ? a : 0)
#endif
#undef NUMBER
