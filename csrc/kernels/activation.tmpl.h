/* kernels/activation.tmpl.h -- activation functions and their derivatives (grad a, input b). */
#include "kernels/complex.h"
#include "kernels/loops.h"
#include "kernels/stretch.h"
#include "kernels/vmath_double.h"

#if SHMT_IS_INTEGRAL
UNARY(relu, a > 0 ? a : 0)
UNARY_WITH(threshold, const C at = (C)SHMT_NUMBER(0);
           const C value = (C)SHMT_NUMBER(1), a <= at ? value : a)
BINARY_WITH(threshold_backward, const C at = (C)SHMT_NUMBER(0), b <= at ? 0 : a)
UNARY_WITH(hardtanh, const C low = (C)SHMT_NUMBER(0);
           const C high = (C)SHMT_NUMBER(1); const C least = low < high ? low : high,
           a > high ? high : a < low ? least : a)
#elif SHMT_IS_COMPLEX
UNARY(silu, SHMT_CDIV(a, 1 + _Generic((C)0, float _Complex: cexpf, default: cexp)(-a)))
#else
#define OWN(fn)       _Generic((C)0, float: shmt__##fn##f, default: shmt__##fn)
#define M(fn)         _Generic((C)0, float: fn##f, default: fn)
#define NUMBER(k)     ((C)SHMT_NUMBER(k))
#define ERF(x)        _Generic((C)0, float: shmt__erf_coarsef, default: shmt__erf)(x)

UNARY(relu, a < 0 ? 0 : a)
UNARY_WITH(threshold, const C at = NUMBER(0); const C value = NUMBER(1), a <= at ? value : a)
BINARY_WITH(threshold_backward, const C at = NUMBER(0), b <= at ? 0 : a)

/* Phi(x), the normal distribution, and its density. */
static inline __attribute__((always_inline)) C FN(phi)(C x) { return (C)0.5 * (1 + ERF(x * (C)0.7071067811865476)); }
static inline __attribute__((always_inline)) C FN(density)(C x) { return (C)0.3989422804014327 * OWN(exp)((C)-0.5 * x * x); }
/* x Phi(x), exact to the last places as the coarse phi is not; what is rounded to 16 bits has no use for them. */
static inline __attribute__((always_inline)) C FN(gelu_of)(C x) {
  const C half = (C)0.5 * x, turned = x * (C)0.7071067811865476;
  return half * (sizeof(T) == 2 ? ERF(turned) : OWN(erf)(turned)) + half;
}
UNARY_WIDE(gelu, FN(gelu_of)(a))
BINARY(gelu_backward, a*(FN(phi)(b) + b * FN(density)(b)))
static inline C FN(gelu_tanh)(C x) {
  return (C)0.5 * x * (1 + OWN(tanh)((C)0.7978845608028654 * (x + (C)0.044715 * x * x * x)));
}
static inline C FN(gelu_tanh_slope)(C x) {
  const C t = OWN(tanh)((C)0.7978845608028654 * (x + (C)0.044715 * x * x * x));
  return (C)0.5 * (1 + t) +
         (C)0.5 * x * (1 - t * t) * ((C)0.7978845608028654 * (1 + (C)0.134145 * x * x));
}
UNARY_WIDE(gelu_tanh, FN(gelu_tanh)(a))
BINARY(gelu_tanh_backward, a* FN(gelu_tanh_slope)(b))

UNARY_WIDE(silu, a / (1 + OWN(exp)(-a)))
static inline C FN(silu_slope)(C x) {
  const C s = OWN(sigmoid)(x);
  return s * (1 + x * (1 - s));
}
BINARY(silu_backward, a* FN(silu_slope)(b))

static inline __attribute__((always_inline)) C FN(log_one_plus_exp)(C x) {
  return (x > 0 ? x : 0) + OWN(log1p)(OWN(exp)(x > 0 ? -x : x));
}
UNARY_WIDE(mish, a* OWN(tanh)(FN(log_one_plus_exp)(a)))
UNARY_WITH(softplus, const C beta = NUMBER(0);
           const C at = NUMBER(1), a * beta > at ? a : FN(log_one_plus_exp)(a * beta) / beta)
BINARY_WITH(softplus_backward, const C beta = NUMBER(0);
            const C at = NUMBER(1), b * beta > at ? a : a * OWN(sigmoid)(b * beta))
UNARY_WIDE(log_sigmoid, (a < 0 ? a : 0) - OWN(log1p)(OWN(exp)(a < 0 ? a : -a)))
/* Binary cross-entropy of a probability, or of its logit, against a target. Logarithms end at -100, so that a loss
 * stays finite. */
static inline __attribute__((always_inline)) C FN(not_below_100)(C x) { return x < -100 ? -100 : x; }
BINARY(entropy_error, (b - 1) * FN(not_below_100)(OWN(log1p)(-a)) - b * FN(not_below_100)(OWN(log)(a)))
BINARY(logit_entropy_error, (1 - b) * a - ((a < 0 ? a : 0) - OWN(log1p)(OWN(exp)(a < 0 ? a : -a))))
BINARY(log_sigmoid_backward, a* OWN(sigmoid)(-b))

UNARY_WITH(leaky_relu, const C slope = NUMBER(0), a > 0 ? a : a * slope)
BINARY_WITH(leaky_relu_backward, const C slope = NUMBER(0), b > 0 ? a : a * slope)
/* ctx: alpha, scale, input_scale. */
UNARY_WITH(elu, const C negative = NUMBER(0) * NUMBER(1); const C scale = NUMBER(1);
           const C inner = NUMBER(2), a < 0 ? OWN(expm1)(a * inner) * negative : a * scale)
BINARY_WITH(elu_backward, const C negative = NUMBER(0) * NUMBER(1) * NUMBER(2);
            const C scale = NUMBER(1);
            const C inner = NUMBER(2), b > 0 ? a * scale : a * negative * OWN(exp)(b * inner))
/* As clamp: high counts where low is higher, and a limit that is NaN makes all NaN. */
UNARY_WITH(hardtanh, const C low = NUMBER(0);
           const C high = NUMBER(1); const bool both = low == low && high == high;
           const C least = !both ? (C)NAN : low < high ? low : high,
           both ? a > high ? high : a < low ? least : a : least)
BINARY_WITH(hardtanh_backward, const C low = NUMBER(0);
            const C high = NUMBER(1), (b > low) & (b < high) ? a : 0)
static inline C FN(hard)(C x) {
  const C y = x + 3;
  return y < 0 ? 0 : y > 6 ? 6 : y;
}
UNARY(hardsigmoid, FN(hard)(a) / 6)
BINARY(hardsigmoid_backward, (b > -3) & (b < 3) ? a / 6 : 0)
UNARY(hardswish, a* FN(hard)(a) / 6)
UNARY_WITH(softshrink, const C by = NUMBER(0), a > by ? a - by : a < -by ? a + by : a * 0)
UNARY_WITH(hardshrink, const C by = NUMBER(0), (a >= -by) & (a <= by) ? 0 : a)
BINARY_WITH(hardshrink_backward, const C by = NUMBER(0), (b > by) | (b < -by) ? a : 0)
#undef OWN
#undef M
#undef NUMBER
#undef ERF
#endif
