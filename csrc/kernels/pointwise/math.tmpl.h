/* kernels/pointwise/math.tmpl.h -- exponentials, logarithms, roots, error functions, lgamma and what is made of them;
 * the backward loops of tanh and sigmoid. */
#include "kernels/simd/complex.h"
#include "kernels/loops.h"
#include "kernels/special/special.h"
#include "kernels/simd/costly_loops.h"
#include "kernels/simd/vmath_gamma.h"
#include "kernels/simd/avx512/erf_tanh.h"
#include "kernels/simd/avx512/rsqrt_hypot.h"

#if SHMT_IS_FLOATING
/* OWN(exp) is our function for the compute type, M(exp) that of the C library. */
#define OWN(fn) _Generic((C)0, float: shmt__##fn##f, default: shmt__##fn)
#define M(fn)   _Generic((C)0, float: fn##f, default: fn)

UNARY_AVX512_OR(exp, OWN(exp)(a))
UNARY_AVX512_OR(log, OWN(log)(a))
#if SHMT_IS_HALF && SHMT_HAS_AVX512
UNARY_AVX512(sigmoid, shmt__avx512_sigmoid_coarsef)
#else
UNARY_AVX512_OR(sigmoid, OWN(sigmoid)(a))
#endif
UNARY_COSTLY(expm1, OWN(expm1)(a))
UNARY_AVX512_OR(log2, OWN(log2)(a))
UNARY_AVX512_OR(log10, OWN(log10)(a))
UNARY_AVX512_OR(log1p, OWN(log1p)(a))
UNARY_AVX512_OR(tanh, OWN(tanh)(a))
UNARY_AVX512_OR(exp2, OWN(exp2)(a))
UNARY_AVX512_OR(erfc, OWN(erfc)(a))
#if SHMT_IS_HALF && !SHMT_HAS_AVX512
SHMT_WIDENED_BY(erf, erf_coarse, T, 1)
#else
UNARY_AVX512_OR(erf, OWN(erf)(a))
#endif
#if SHMT_IS_FULL && !SHMT_HAS_AVX512
/* Half-precision types use a coarser version: their rounding hides its error. */
UNARY_COSTLY(erf_coarse, shmt__erf_coarsef(a))
#endif

/* For floats, the slow functions handle everything but finite positive arguments: poles, reflection, infinities. */
#define IS_POSITIVE   ((a > 0) & (a < (C)INFINITY))
#define IS_RARE       ((sizeof(C) == sizeof(float)) & !IS_POSITIVE)
UNARY_FALLBACK(lgamma, IS_RARE, OWN(lgamma)(a), M(lgamma)(a))
UNARY_FALLBACK(digamma, IS_RARE, OWN(digamma)(a), (C)shmt__digamma((double)a))
#undef IS_RARE
#undef IS_POSITIVE
UNARY_AVX512_OR(sqrt, M(sqrt)(a))
UNARY_AVX512_OR(rsqrt, 1 / M(sqrt)(a))
BINARY(tanh_backward, a * (1 - b * b))
BINARY(sigmoid_backward, a * (1 - b) * b)

/* logit. ctx: eps, or NaN for no limits. */
static inline C FN(logit_of)(C a, C eps) {
  const C x = a < eps ? eps : a > 1 - eps ? 1 - eps : a;
  return OWN(log)(x / (1 - x));
}
UNARY_COSTLY_WITH(logit, const C eps = (C)SHMT_CTX_SCALAR(0), FN(logit_of)(a, eps))
/* The gradient is 0 where eps limits the input; without eps it is NaN outside of [0, 1]. */
BINARY_WITH(logit_backward, const C eps = (C)SHMT_CTX_SCALAR(0); const C low = eps == eps ? eps : 0;
            const C outside = eps == eps ? 0 : (C)NAN, (b >= low) & (b <= 1 - low) ? a / (b * (1 - b)) : outside)
#undef OWN
#undef M
#else
#define Z(fn) _Generic((C)0, float _Complex: fn##f, default: fn)
UNARY(exp, Z(cexp)(a))
UNARY(log, Z(clog)(a))
UNARY(sigmoid, SHMT_CDIV((C)1, 1 + Z(cexp)(-a)))
static inline C FN(expm1_of)(C a) {
  const double re = (double)SHMT_CREAL(a), im = (double)SHMT_CIMAG(a);
  if (im == 0) return (C)CMPLX(expm1(re), im);
  if (!isfinite(re) || !isfinite(im)) {
    const double _Complex e = cexp(CMPLX(re, im)); /* handles infinities and NaN as Annex G of the C standard says */
    return (C)CMPLX(creal(e) - 1, cimag(e));
  }
  const double half = sin(im / 2);
  return (C)CMPLX(expm1(re) * cos(im) - 2 * half * half, exp(re) * sin(im));
}
static inline C FN(log1p_of)(C a) {
  const double re = (double)SHMT_CREAL(a), im = (double)SHMT_CIMAG(a);
  const double away = re * (re + 2) + im * im; /* |1 + a|^2 - 1 */
  if (re == 0 && im == 0) return a;
  return (C)CMPLX(fabs(away) < 0.5 ? log1p(away) / 2 : log(hypot(1 + re, im)), atan2(im, 1 + re));
}
UNARY(expm1, FN(expm1_of)(a))
UNARY(log1p, FN(log1p_of)(a))
UNARY(log2, Z(clog)(a) / (__typeof__(SHMT_CREAL((C)0)))0.6931471805599453)
UNARY(log10, Z(clog)(a) / (__typeof__(SHMT_CREAL((C)0)))2.302585092994046)
UNARY(exp2, Z(cexp)(a*(__typeof__(SHMT_CREAL((C)0)))0.6931471805599453))
UNARY(tanh, Z(ctanh)(a))
UNARY(sqrt, Z(csqrt)(a))
UNARY(rsqrt, SHMT_CDIV((C)1, Z(csqrt)(a)))
static inline C FN(conj_of)(C a) { return SHMT_CREAL(a) - SHMT_CIMAG(a) * (C)_Complex_I; }
BINARY(tanh_backward, SHMT_CMUL(a, FN(conj_of)(1 - SHMT_CMUL(b, b))))
BINARY(sigmoid_backward, SHMT_CMUL(a, FN(conj_of)(SHMT_CMUL(1 - b, b))))
#undef Z
#endif
