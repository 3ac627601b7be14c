/* kernels/simd/vmath_gamma.h -- lgamma and digamma of positive arguments, and pow of doubles, without branches.
 *
 * They need more digits than the result has: those of floats are computed in double, those of doubles in sums of two
 * doubles.
 */
#ifndef SHMT_KERNELS_SIMD_VMATH_GAMMA_H
#define SHMT_KERNELS_SIMD_VMATH_GAMMA_H

#include "kernels/simd/vmath_double.h"

/* Moves x up to z >= 8, where Stirling's series holds. *product is x (x + 1) ... (x + 7), and *sum / *product is the
 * sum of the reciprocals of these factors. */
SHMT_VMATH double shmt__raised(double x, double* product, double* sum) {
  double d = x, n = 1.0;

/* Unrolled by hand: an inner loop would keep the loop over elements from being vectorised. */
#define TIMES(factor)          \
  n = SHMT_MADD(n, factor, d); \
  d *= (factor)
  TIMES(x + 1.0);
  TIMES(x + 2.0);
  TIMES(x + 3.0);
  TIMES(x + 4.0);
  TIMES(x + 5.0);
  TIMES(x + 6.0);
  TIMES(x + 7.0);
#undef TIMES
  /* A bit operation: the compiler would otherwise branch to the known logarithm of 1. */
  const uint64_t mask = (uint64_t)0 - (uint64_t)(x < 8.0);
  *product = shmt__double_of_bits((shmt__bits_of_double(d) & mask) | (shmt__bits_of_double(1.0) & ~mask));
  *sum = x < 8.0 ? n : 0.0;
  return x < 8.0 ? x + 8.0 : x;
}

/* 0 < a < infinity */
SHMT_VMATH float shmt__lgammaf(float a) {
  double product, sum;
  const double z = shmt__raised((double)a, &product, &sum), r = 1.0 / z, u = r * r;
  double p = 0.00077280609715378904;
  p = SHMT_MADD(p, u, -0.0005943224333992349);
  p = SHMT_MADD(p, u, 0.00079364576353562659);
  p = SHMT_MADD(p, u, -0.0027777777680612846);
  p = SHMT_MADD(p, u, 0.083333333333330331);
  const double y = SHMT_MADD(z - 0.5, shmt__log(z), 0.91893853320467274 - z) + SHMT_MADD(p, r, -shmt__log(product));
  /* Where the exact result is 0, y may be a rounding error. */
  return (a == 1.0F) | (a == 2.0F) ? 0.0F : (float)y;
}
/* The double version. Near its zeros at 1 and 2 it cannot fall back on a longer type. */
static inline double shmt__lgamma(double a) { return lgamma(a); }
SHMT_VMATH float shmt__digammaf(float a) {
  double product, sum;
  const double z = shmt__raised((double)a, &product, &sum), r = 1.0 / z, u = r * r;
  double p = -0.017720304114035829;
  p = SHMT_MADD(p, u, 0.00751944623254968);
  p = SHMT_MADD(p, u, -0.0041662225598648444);
  p = SHMT_MADD(p, u, 0.0039682523703462105);
  p = SHMT_MADD(p, u, -0.0083333333312225824);
  p = SHMT_MADD(p, u, 0.083333333333332885);
  return (float)(shmt__log(z) - 0.5 * r - p * u - sum / product);
}

#ifdef __FMA__
/* log(x) for normal x > 0 as high + *low, with a relative error of about 2^-66: the series of log((1 + s) / (1 - s)),
 * whose first two terms are sums of two doubles. */
SHMT_VMATH double shmt__log_in_two(double x, double* low) {
  double k, f;
  shmt__log_parts(x, &k, &f);
  const double d = 2.0 + f, d_low = f - (d - 2.0), s = f / d;
  const double s_low = (__builtin_fma(-s, d, f) - s * d_low) / d;
  const double z = s * s, z_low = __builtin_fma(s, s, -z) + 2.0 * s * s_low;
  double p = 0.1318876257873164;
  p = SHMT_MADD(p, z, 0.13257705969697367);
  p = SHMT_MADD(p, z, 0.1538671536315731);
  p = SHMT_MADD(p, z, 0.18181785382229496);
  p = SHMT_MADD(p, z, 0.22222222506776784);
  p = SHMT_MADD(p, z, 0.2857142857018503);
  p = SHMT_MADD(p, z, 0.4000000000000204);
  const double third = 0.66666666666666663, third_low = 3.7007434154171883e-17;
  const double q = third + z * p, q_low = (third - q) + z * p + third_low;
  const double w = z * q, w_low = __builtin_fma(z, q, -w) + z * q_low + z_low * q;
  const double v = 2.0 + w, v_low = (2.0 - v) + w + w_low;
  const double y = s * v, y_low = __builtin_fma(s, v, -y) + s * v_low + s_low * v;
  const double turns = k * 0.69314718055966296, turns_low = k * 2.8235290563031577e-13;
  const double high = turns + y;
  *low = (turns - high) + y + (turns_low + y_low);
  return high;
}
/* |a|^b for normal a and |b| <= 1e300 */
SHMT_VMATH double shmt__pow(double a, double b) {
  double low, shifted, k;
  const double high = shmt__log_in_two(shmt__magnitude(a), &low), product = b * high;
  const double c = shmt__vmath_clamp(product, -760.0, 750.0);
  const double lost = c == product ? __builtin_fma(b, high, -product) + b * low : 0.0;
  const double e = shmt__exp_core(c, &shifted, &k) + 1.0;
  const double y = shmt__scaled(__builtin_fma(e, lost, e), shifted);
  return shmt__signed_power(y, a, b);
}
#else
static inline double shmt__pow(double a, double b) { return pow(a, b); }
#endif

#endif
