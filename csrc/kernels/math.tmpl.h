/* kernels/math.tmpl.h -- elementary and special functions of one number, and two derivatives that
 * need no more. */
#include "kernels/complex.h"
#include "kernels/loops.h"
#include "kernels/vmath.h"

#if SHMT_IS_FLOATING
/* Own functions for float and double, or the C library's. */
#define OWN(fn)       _Generic((C)0, float: shmt__##fn##f, default: shmt__##fn)
#define OWN_FLOAT(fn) _Generic((C)0, float: shmt__##fn##f, default: fn)
#define M(fn)         _Generic((C)0, float: fn##f, default: fn)

UNARY(exp, OWN(exp)(a))
UNARY(log, OWN(log)(a))
UNARY(sigmoid, OWN(sigmoid)(a))
UNARY(expm1, OWN_FLOAT(expm1)(a))
UNARY(log2, OWN_FLOAT(log2)(a))
UNARY(log10, OWN_FLOAT(log10)(a))
UNARY(log1p, OWN_FLOAT(log1p)(a))
UNARY(tanh, OWN_FLOAT(tanh)(a))
UNARY(erf, OWN_FLOAT(erf)(a))
UNARY(exp2, M(exp2)(a))
UNARY(tan, M(tan)(a))
UNARY(asin, M(asin)(a))
UNARY(acos, M(acos)(a))
UNARY(atan, M(atan)(a))
UNARY(sinh, M(sinh)(a))
UNARY(cosh, M(cosh)(a))
UNARY(asinh, M(asinh)(a))
UNARY(acosh, M(acosh)(a))
UNARY(atanh, M(atanh)(a))
UNARY(erfc, M(erfc)(a))
UNARY(lgamma, M(lgamma)(a))
BINARY(tanh_backward, a * (1 - b * b))
BINARY(sigmoid_backward, a * (1 - b) * b)

/* Large angles need the C library's reduction: a stretch that holds one goes there. The stretch is
 * read before it is written, so that in-place calls may take either way. */
#define CIRCULAR(NAME)                                                                          \
  static inline C FN(NAME##_of)(C a) { return M(NAME)(a); }                                     \
  void SHMT_LOOP(NAME)(char* const* data, const int64_t* strides, int64_t n, const void* ctx) { \
    const int64_t so = strides[0], sa = strides[1];                                             \
    (void)ctx;                                                                                  \
    for (int64_t i0 = 0; i0 < n; i0 += 128) {                                                   \
      const int64_t width = n - i0 < 128 ? n - i0 : 128;                                        \
      char* const po = data[0] + i0 * so;                                                       \
      const char* const pa = data[1] + i0 * sa;                                                 \
      bool is_small =                                                                           \
          sizeof(C) == sizeof(float) && sa == (int64_t)sizeof(T) && so == (int64_t)sizeof(T);   \
      if (is_small) {                                                                           \
        int far = 0;                                                                            \
        for (int64_t i = 0; i < width; i++) {                                                   \
          const float a = (float)SHMT_LOAD(((const T*)(const void*)pa)[i]);                     \
          far |= !(a <= SHMT_TRIG_LIMIT) | !(a >= -SHMT_TRIG_LIMIT);                            \
        }                                                                                       \
        is_small = !far;                                                                        \
      }                                                                                         \
      if (is_small) {                                                                           \
        SHMT_IVDEP for (int64_t i = 0; i < width; i++) {                                        \
          const float a = (float)SHMT_LOAD(((const T*)(const void*)pa)[i]);                     \
          ((T*)(void*)po)[i] = SHMT_STORE((C)shmt__##NAME##f(a));                               \
        }                                                                                       \
      } else {                                                                                  \
        for (int64_t i = 0; i < width; i++)                                                     \
          SHMT_AT(T, po, so, i) =                                                               \
              SHMT_STORE(FN(NAME##_of)(SHMT_LOAD(SHMT_AT(const T, pa, sa, i))));                \
      }                                                                                         \
    }                                                                                           \
  }
CIRCULAR(sin)
CIRCULAR(cos)

/* sin(pi x) / (pi x) */
static inline C FN(sinc_of)(C a) {
  const C x = a * (C)3.141592653589793;
  return a == 0 ? 1 : M(sin)(x) / x;
}
UNARY(sinc, FN(sinc_of)(a))

/* ctx: eps; not a number: no limits. */
static inline C FN(logit_of)(C a, C eps) {
  const C x = a < eps ? eps : a > 1 - eps ? 1 - eps : a;
  return M(log)(x / (1 - x));
}
UNARY_WITH(logit, const C eps = (C)SHMT_NUMBER(0), FN(logit_of)(a, eps))
#undef OWN
#undef OWN_FLOAT
#undef CIRCULAR
#undef M
#else
#define Z(fn) _Generic((C)0, float _Complex: fn##f, default: fn)
UNARY(exp, Z(cexp)(a))
UNARY(log, Z(clog)(a))
UNARY(sigmoid, SHMT_CDIV((C)1, 1 + Z(cexp)(-a)))
static inline C FN(expm1_of)(C a) {
  const double re = (double)SHMT_CREAL(a), im = (double)SHMT_CIMAG(a), half = sin(im / 2);
  return (C)CMPLX(expm1(re) * cos(im) - 2 * half * half, exp(re) * sin(im));
}
static inline C FN(log1p_of)(C a) {
  const double re = (double)SHMT_CREAL(a), im = (double)SHMT_CIMAG(a);
  const double away = re * (re + 2) + im * im; /* |1 + a|^2 - 1 */
  return (C)CMPLX(fabs(away) < 0.5 ? log1p(away) / 2 : log(hypot(1 + re, im)), atan2(im, 1 + re));
}
UNARY(expm1, FN(expm1_of)(a))
UNARY(log1p, FN(log1p_of)(a))
UNARY(log2, Z(clog)(a) * (__typeof__(SHMT_CREAL((C)0)))1.4426950408889634)
UNARY(log10, Z(clog)(a) * (__typeof__(SHMT_CREAL((C)0)))0.4342944819032518)
UNARY(exp2, Z(cexp)(a*(__typeof__(SHMT_CREAL((C)0)))0.6931471805599453))
UNARY(tanh, Z(ctanh)(a))
UNARY(sin, Z(csin)(a))
UNARY(cos, Z(ccos)(a))
UNARY(tan, Z(ctan)(a))
UNARY(asin, Z(casin)(a))
UNARY(acos, Z(cacos)(a))
UNARY(atan, Z(catan)(a))
UNARY(sinh, Z(csinh)(a))
UNARY(cosh, Z(ccosh)(a))
UNARY(asinh, Z(casinh)(a))
UNARY(acosh, Z(cacosh)(a))
UNARY(atanh, Z(catanh)(a))
static inline C FN(sinc_of)(C a) {
  const C x = a * (__typeof__(SHMT_CREAL((C)0)))3.141592653589793;
  return a == 0 ? 1 : SHMT_CDIV(Z(csin)(x), x);
}
UNARY(sinc, FN(sinc_of)(a))
static inline C FN(conj_of)(C a) { return SHMT_CREAL(a) - SHMT_CIMAG(a) * (C)_Complex_I; }
BINARY(tanh_backward, SHMT_CMUL(a, FN(conj_of)(1 - SHMT_CMUL(b, b))))
BINARY(sigmoid_backward, SHMT_CMUL(a, FN(conj_of)(SHMT_CMUL(1 - b, b))))
#undef Z
#endif
