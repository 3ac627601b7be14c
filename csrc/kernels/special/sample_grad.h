/* kernels/special/sample_grad.h -- how draws of the gamma and the beta distribution move with their shape.
 *
 * A draw x keeps its quantile while the shape a changes: dx/da = -(dF/da) / f(x), with the distribution function F and
 * the density f (implicit reparameterization).
 *
 * Note [Sums without cancellation]
 * dF/da is the integral of (log(t) - c) f(t), c the mean of log(t): psi(a) of a gamma distribution, psi(a) - psi(a + b)
 * of a beta distribution. Over all t it is 0, so for x below exp(c) the integral up to x is taken, and above the one
 * from x on, where the factor keeps its sign. Series are taken as long as all their terms have one sign, too.
 *
 * Sources: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018; NIST Digital Library of
 * Mathematical Functions, 5.11, 8.7 and 8.17.
 */
#ifndef SHMT_KERNELS_SPECIAL_SAMPLE_GRAD_H
#define SHMT_KERNELS_SPECIAL_SAMPLE_GRAD_H

enum { SHMT_NODES = 32 };
/* The Gauss-Legendre rule on [0, 1]. */
extern const double shmt__nodes[SHMT_NODES], shmt__weights[SHMT_NODES];

/* By the rule, the integral over w from 0 to `end` of (offset + w) exp(-slope w - x (exp(side w) - 1 - side w)). */
typedef double (*shmt__gamma_integral)(double x, double slope, double offset, double end, double side);

/* dx/da of a gamma distribution of scale 1; NaN unless 0 < a and 0 <= x are finite. */
double shmt__gamma_sample_grad(double a, double x, shmt__gamma_integral integral);
/* dx/da / (1 - x) of a beta distribution with the densities x^(a - 1) (1 - x)^(b - 1); NaN outside of its domain. */
double shmt__beta_sample_grad(double x, double a, double b);

#endif
