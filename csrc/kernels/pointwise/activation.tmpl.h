/* kernels/pointwise/activation.tmpl.h -- activation functions made of exponentials, and their backward loops, where a
 * is the gradient and b the input. */
#include "kernels/simd/complex.h"
#include "kernels/loops.h"
#include "kernels/simd/piecewise_double.h"
#include "kernels/simd/costly_loops.h"
#include "kernels/simd/vmath_double.h"
#include "kernels/simd/avx512/log.h"

#if SHMT_IS_COMPLEX
UNARY(silu, SHMT_CDIV(a, 1 + _Generic((C)0, float _Complex: cexpf, default: cexp)(-a)))
#else
#define OWN(fn)       _Generic((C)0, float: shmt__##fn##f, default: shmt__##fn)
#define NUMBER(k)     ((C)SHMT_CTX_SCALAR(k))
#define ERF(x)        _Generic((C)0, float: shmt__erf_coarsef, default: shmt__erf)(x)

/* Phi(x), the cumulative normal distribution, and its density. */
static inline __attribute__((always_inline)) C FN(phi)(C x) { return (C)0.5 * (1 + ERF(x * (C)0.7071067811865476)); }
static inline __attribute__((always_inline)) C FN(density)(C x) {
  return (C)0.3989422804014327 * OWN(exp)((C)-0.5 * x * x);
}
/* gelu is x Phi(x): for positive x it is x minus the tail product, for negative x minus the tail product (0 has x's
 * sign, and -inf gives NaN, as in torch). Half-precision types use a coarser version. */
#define ABOVE_0(x) ((x) < 0 ? (x) * 0 : (x))
#if SHMT_HAS_AVX512 && SHMT_IS_HALF
UNARY_AVX512(gelu, shmt__avx512_gelu_coarsef)
#elif SHMT_HAS_AVX512 && !SHMT_IS_DOUBLE
UNARY_AVX512(gelu, shmt__avx512_geluf)
#elif SHMT_IS_HALF
SHMT_WIDENED_BY(gelu, gelu_coarse, T, 1)
#else
UNARY_COSTLY(gelu, ABOVE_0(a) - OWN(tail_product)(a))
#if SHMT_IS_FULL
UNARY_COSTLY(gelu_coarse, ABOVE_0(a) - shmt__tail_product_coarsef(a))
#endif
#endif
#undef ABOVE_0
BINARY_COSTLY(gelu_backward, a*(FN(phi)(b) + b * FN(density)(b)))
SHMT_VMATH C FN(gelu_tanh)(C x) {
  return (C)0.5 * x * (1 + OWN(tanh)((C)0.7978845608028654 * (x + (C)0.044715 * x * x * x)));
}
static inline C FN(gelu_tanh_derivative)(C x) {
  const C t = OWN(tanh)((C)0.7978845608028654 * (x + (C)0.044715 * x * x * x));
  return (C)0.5 * (1 + t) +
         (C)0.5 * x * (1 - t * t) * ((C)0.7978845608028654 * (1 + (C)0.134145 * x * x));
}
UNARY_COSTLY(gelu_tanh, FN(gelu_tanh)(a))
BINARY_COSTLY(gelu_tanh_backward, a* FN(gelu_tanh_derivative)(b))

UNARY_AVX512_OR(silu, a / (1 + OWN(exp_of_minus)(a)))
static inline C FN(silu_derivative)(C x) {
  const C s = OWN(sigmoid)(x);
  return s * (1 + x * (1 - s));
}
BINARY_COSTLY(silu_backward, a* FN(silu_derivative)(b))

/* Gated linear units of the first half a and the second half b. Backward, for the second half: a is the gradient, b the
 * first and c the second half. */
BINARY_COSTLY(glu, a * OWN(sigmoid)(b))
static inline C FN(sigmoid_derivative)(C x) {
  const C s = OWN(sigmoid)(x);
  return s * (1 - s);
}
TERNARY(glu_gate_backward, a * b * FN(sigmoid_derivative)(c))

static inline __attribute__((always_inline)) C FN(log_one_plus_exp)(C x) {
  return (x > 0 ? x : 0) + OWN(log1p_unit)(OWN(exp)(-OWN(magnitude)(x)));
}
/* mish: x tanh(log(1 + exp(x))), computed with n = (1 + exp(x))^2 - 1; from 40 on it is x itself. */
SHMT_VMATH C FN(mish_of)(C x) {
  const C e = OWN(exp)(x > 40 ? 40 : x), n = (e + e) + e * e;
  return x * (n / (n + 2));
}
UNARY_COSTLY(mish, FN(mish_of)(a))
/* The derivative of mish: t + x s (1 - t^2) with the tanh t and s = sigmoid(x); the second term is 0 from 20 on. */
SHMT_VMATH C FN(mish_derivative)(C x) {
  const C e = OWN(exp)(x > 20 ? 20 : x), n = (e + e) + e * e, d = n + 2;
  return n / d + x * (x > 20 ? 0 : 4 * e * (1 + e) / (d * d));
}
BINARY_COSTLY(mish_backward, a* FN(mish_derivative)(b))
#if SHMT_HAS_AVX512
UNARY_AVX512_WITH(softplus, const C beta = NUMBER(0); const C at = NUMBER(1); const C one_by_beta = 1 / beta,
                SHMT_AVX512_FUNCTION(softplus), beta, at, one_by_beta)
#else
UNARY_COSTLY_WITH(softplus, const C beta = NUMBER(0);
                  const C at = NUMBER(1); const C one_by_beta = 1 / beta,
                  a * beta > at ? a : FN(log_one_plus_exp)(a * beta) * one_by_beta)
#endif
BINARY_COSTLY_WITH(softplus_backward, const C beta = NUMBER(0);
                   const C at = NUMBER(1), b * beta > at ? a : a * OWN(sigmoid)(b * beta))
UNARY_AVX512_OR(log_sigmoid, (a < 0 ? a : 0) - OWN(log1p_unit)(OWN(exp)(-OWN(magnitude)(a))))
/* Binary cross-entropy of a probability a, or of a logit a, against a target b. Logarithms are at least -100, so that
 * the loss stays finite. */
static inline __attribute__((always_inline)) C FN(not_below_100)(C x) { return x < -100 ? -100 : x; }
BINARY_COSTLY(binary_cross_entropy_error,
              (b - 1) * FN(not_below_100)(OWN(log1p)(-a)) - b * FN(not_below_100)(OWN(log)(a)))
BINARY_COSTLY(binary_cross_entropy_with_logits_error,
              (1 - b) * a - ((a < 0 ? a : 0) - OWN(log1p_unit)(OWN(exp)(-OWN(magnitude)(a)))))
/* Their derivatives in a. */
BINARY(binary_cross_entropy_derivative, (a - b) / ((1 - a) * a < (C)1e-12 ? (C)1e-12 : (1 - a) * a))
BINARY_COSTLY(binary_cross_entropy_with_logits_derivative, OWN(sigmoid)(a) - b)
BINARY_COSTLY(log_sigmoid_backward, a* OWN(sigmoid)(-b))

/* elu. ctx: alpha, scale, input_scale. A block without negative elements needs no exponentials. */
#if SHMT_IS_HALF
SHMT_WIDENED(elu, T, 1)
#else
static void FN(elu_dense)(void* out, const void* const* in, int64_t n, const void* ctx) {
  enum { ELEMENTS_AT_ONCE = 128 };
  const C negative = NUMBER(0) * NUMBER(1), scale = NUMBER(1), inner = NUMBER(2);

  for (int64_t i0 = 0; i0 < n; i0 += ELEMENTS_AT_ONCE) {
    const int64_t width = n - i0 < ELEMENTS_AT_ONCE ? n - i0 : ELEMENTS_AT_ONCE;
    const T* const x = (const T*)in[0] + i0;
    T* const y = (T*)out + i0;
    SHMT_FLAG below = 0;
    for (int64_t i = 0; i < width; i++) below |= x[i] < 0 ? 1 : 0;
    if (below)
      SHMT_IVDEP for (int64_t i = 0; i < width; i++)
        y[i] = x[i] < 0 ? OWN(expm1)(x[i] * inner) * negative : x[i] * scale;
    else
      SHMT_IVDEP for (int64_t i = 0; i < width; i++) y[i] = x[i] * scale;
  }
}
SHMT_BY_DENSE(elu, 1)
#endif
BINARY_COSTLY_WITH(elu_backward, const C negative = NUMBER(0) * NUMBER(1) * NUMBER(2);
                   const C scale = NUMBER(1);
                   const C inner = NUMBER(2), b > 0 ? a * scale : a * negative * OWN(exp)(b * inner))
#undef OWN
#undef NUMBER
#undef ERF
#endif
