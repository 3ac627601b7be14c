/* kernels/special/special.h -- special functions of one or two doubles, called for one element at a time.
 *
 * The loops of all floating dtypes call these functions and round once, so that shorter types are exact to the last
 * place. Arguments outside a function's domain give NaN, poles give infinity. Nothing here fails or depends on the
 * instruction set.
 */
#ifndef SHMT_KERNELS_SPECIAL_SPECIAL_H
#define SHMT_KERNELS_SPECIAL_SPECIAL_H

#include <stdint.h>

/* --- special_gamma.c ------------------------------------------------------------ */

double shmt__digamma(double x);
/* Hurwitz' zeta function: the sum of (q + k)^-s over k >= 0; s > 1. */
double shmt__zeta(double s, double q);
/* The n-th derivative of digamma; n >= 0. */
double shmt__polygamma(int64_t n, double x);
/* The regularised lower and upper incomplete gamma functions; a and x are not negative. */
double shmt__gammainc(double a, double x);
double shmt__gammaincc(double a, double x);

/* --- special_bessel.c ------------------------------------------------------------ */

/* The modified Bessel function of the first kind, order 0. */
double shmt__bessel_i0(double x);
/* For large arguments, which the loops of special_bessel.tmpl.h do not cover. */
double shmt__bessel_j0(double x);
double shmt__bessel_j1(double x);
double shmt__bessel_y0(double x);
double shmt__bessel_y1(double x);
double shmt__airy_ai(double x);
/* sin(x) / x */
double shmt__spherical_j0(double x);

/* --- special_polynomial.c --------------------------------------------------------- */

/* Orthogonal polynomials of degree n, which is truncated to an integer; 0 for a negative degree. */
double shmt__chebyshev_t(double x, double n);
double shmt__chebyshev_u(double x, double n);
double shmt__chebyshev_v(double x, double n);
double shmt__chebyshev_w(double x, double n);
/* NaN for degrees above `limit`, where the dtype overflows. */
double shmt__hermite_h(double x, double n, int64_t limit);
double shmt__hermite_he(double x, double n, int64_t limit);
double shmt__laguerre_l(double x, double n);
double shmt__legendre_p(double x, double n);

#endif
