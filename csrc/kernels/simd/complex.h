/* kernels/simd/complex.h -- complex multiplication and division that vectorise.
 *
 * C's own `*` and `/` call a library function for each element, to repair infinities. torch's multiplication does not
 * repair them, and its division scales. These do the same.
 */
#ifndef SHMT_KERNELS_SIMD_COMPLEX_H
#define SHMT_KERNELS_SIMD_COMPLEX_H

#include "kernels/simd/convert.h"

#include <math.h>
#include <stdbool.h>

#define SHMT_COMPLEX_ARITHMETIC(Z, R, NAME, MAKE, RE, IM, ABS)                                      \
  static inline Z shmt__##NAME##_mul(Z a, Z b) {                                                    \
    const R ar = RE(a), ai = IM(a), br = RE(b), bi = IM(b);                                         \
    return MAKE(ar * br - ai * bi, ar * bi + ai * br);                                              \
  }                                                                                                 \
  /* Smith's method: scales by the larger part of b, so that |b|^2 cannot overflow. No branches. */ \
  static inline __attribute__((always_inline)) Z shmt__##NAME##_div(Z a, Z b) {                     \
    const R ar = RE(a), ai = IM(a), br = RE(b), bi = IM(b), infinity = (R)INFINITY;                 \
    const bool is_flat = ABS(br) >= ABS(bi), is_zero = (br == 0) & (bi == 0);                       \
    const R high = is_flat ? br : bi, low = is_flat ? bi : br, ratio = low / high;                  \
    const R scale = 1 / (high + low * ratio);                                                       \
    const R re = (is_flat ? ar + ai * ratio : ar * ratio + ai) * scale;                             \
    const R im = (is_flat ? ai - ar * ratio : ai * ratio - ar) * scale;                             \
    return MAKE(is_zero ? ar * infinity : re, is_zero ? ai * infinity : im);                        \
  }

SHMT_COMPLEX_ARITHMETIC(float _Complex, float, c64, CMPLXF, crealf, cimagf, fabsf)
SHMT_COMPLEX_ARITHMETIC(double _Complex, double, c128, CMPLX, creal, cimag, fabs)

#define SHMT_CMUL(a, b) _Generic((a), float _Complex: shmt__c64_mul, default: shmt__c128_mul)(a, b)
#define SHMT_CDIV(a, b) _Generic((a), float _Complex: shmt__c64_div, default: shmt__c128_div)(a, b)

#endif
