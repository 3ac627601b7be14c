/* kernels/special/special_bessel.c -- Bessel functions and Airy's function of large arguments, one element at a time.
 *
 * Source: NIST Digital Library of Mathematical Functions, 9.7.
 */
#include "kernels/special/special.h"
#include "kernels/simd/vmath_bessel.h"

#include <math.h>

#define PI      3.141592653589793
#define EPSILON 1.1102230246251565e-16

double shmt__bessel_i0(double x) {
  const double a = fabs(x);

  if (!(a > 8)) return shmt__i0_near(a * a);
  const double y = (a > 20 ? shmt__i0_far(1 / a) : shmt__i0_middle(a)) / sqrt(a);
  const double growth = shmt__exp(a / 2);
  return y * growth * growth;
}

/* At -x, x >= 10: modulus and phase from the asymptotic series, terms in zeta^-1 alternating. */
static double airy_oscillating(double x) {
  const double z = 2.0 / 3 * x * sqrt(x);
  double u = 1, even = 1, odd = 0;

  for (int k = 1; k < 24; k++) {
    u *= (6.0 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216.0 * k * (2 * k - 1)) / z;
    const double term = k / 2 % 2 ? -u : u;
    if (k % 2)
      odd += term;
    else
      even += term;
    if (u < EPSILON) break;
  }
  const double angle = z - PI / 4;
  return (cos(angle) * even + sin(angle) * odd) / (sqrt(PI) * sqrt(sqrt(x)));
}

double shmt__airy_ai(double x) {
  return isinf(x) ? NAN : airy_oscillating(-x); /* at -infinity the phase is undefined */
}

/* At infinity the phase is undefined: NaN, as in torch. */
double shmt__bessel_j0(double x) { return isinf(x) ? NAN : j0(x); }
double shmt__bessel_j1(double x) { return isinf(x) ? NAN : j1(x); }
double shmt__bessel_y0(double x) { return isinf(x) ? NAN : y0(x); }
double shmt__bessel_y1(double x) { return isinf(x) ? NAN : y1(x); }

double shmt__spherical_j0(double x) {
  if (isinf(x)) return 0;
  return x == 0 ? 1 : sin(x) / x;
}
