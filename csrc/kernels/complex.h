/* kernels/complex.h -- complex products and quotients by parts.
 *
 * C's own `*` and `/` repair infinities through a library call per element; torch's do not
 * (products), or scale (quotients). These vectorise.
 */
#ifndef SHMT_KERNELS_COMPLEX_H
#define SHMT_KERNELS_COMPLEX_H

#include "kernels/convert.h"

#include <math.h>

#define SHMT_COMPLEX_ARITHMETIC(Z, R, NAME, MAKE, RE, IM, ABS)                         \
  static inline Z shmt__##NAME##_mul(Z a, Z b) {                                       \
    const R ar = RE(a), ai = IM(a), br = RE(b), bi = IM(b);                            \
    return MAKE(ar * br - ai * bi, ar * bi + ai * br);                                 \
  }                                                                                    \
  /* Smith's method: scaled by the larger part of b, so that |b|^2 cannot overflow. */ \
  static inline Z shmt__##NAME##_div(Z a, Z b) {                                       \
    const R ar = RE(a), ai = IM(a), br = RE(b), bi = IM(b);                            \
    if (ABS(br) >= ABS(bi)) {                                                          \
      if (br == 0 && bi == 0) return MAKE(ar / ABS(br), ai / ABS(bi));                 \
      const R ratio = bi / br, scale = 1 / (br + bi * ratio);                          \
      return MAKE((ar + ai * ratio) * scale, (ai - ar * ratio) * scale);               \
    }                                                                                  \
    const R ratio = br / bi, scale = 1 / (bi + br * ratio);                            \
    return MAKE((ar * ratio + ai) * scale, (ai * ratio - ar) * scale);                 \
  }

SHMT_COMPLEX_ARITHMETIC(float _Complex, float, c64, CMPLXF, crealf, cimagf, fabsf)
SHMT_COMPLEX_ARITHMETIC(double _Complex, double, c128, CMPLX, creal, cimag, fabs)

#define SHMT_CMUL(a, b) _Generic((a), float _Complex: shmt__c64_mul, default: shmt__c128_mul)(a, b)
#define SHMT_CDIV(a, b) _Generic((a), float _Complex: shmt__c64_div, default: shmt__c128_div)(a, b)

#endif
