/* kernels/special/sample_grad.c -- series and integrals for the derivatives of gamma and beta draws. */
#include "kernels/special/sample_grad.h"

#include "kernels/special/special.h"

#include <math.h>

#define EPSILON 1.1102230246251565e-16

enum {
  DECAY = 42,       /* what is left out of an integral is below exp(-DECAY) */
  PANEL = 5,        /* how far one rule goes in the logarithm of t */
  MANY_TERMS = 400, /* terms of a series that an integral is cheaper than */
};

const double shmt__nodes[SHMT_NODES] = {
    0.0013680690752592182, 0.0071942442273658323, 0.017618872206246785, 0.032546962031130155, 0.051839422116973938,
    0.075316193133715015, 0.1027581020160288, 0.13390894062985516, 0.1684778665348924, 0.20614212137961884,
    0.2465500455338853, 0.28932436193468233, 0.33406569885893618, 0.38035631887393146, 0.42776401920860175,
    0.47584616715613084, 0.5241538328438692, 0.5722359807913983, 0.6196436811260686, 0.6659343011410639,
    0.7106756380653176, 0.7534499544661147, 0.7938578786203812, 0.8315221334651076, 0.8660910593701449,
    0.8972418979839712, 0.924683806866285, 0.9481605778830261, 0.9674530379688698, 0.9823811277937532,
    0.9928057557726342, 0.9986319309247408,
};
const double shmt__weights[SHMT_NODES] = {
    0.0035093050047350483, 0.0081371973654528353, 0.01269603265463103, 0.017136931456510717, 0.02141794901111334,
    0.025499029631188088, 0.029342046739267774, 0.032911111388180923, 0.036172897054424253, 0.039096947893535153,
    0.041655962113473378, 0.043826046502201906, 0.045586939347881942, 0.046922199540402283, 0.04781936003963743,
    0.0482700442573639, 0.0482700442573639, 0.04781936003963743, 0.046922199540402283, 0.045586939347881942,
    0.043826046502201906, 0.041655962113473378, 0.039096947893535153, 0.036172897054424253, 0.032911111388180923,
    0.029342046739267774, 0.025499029631188088, 0.02141794901111334, 0.017136931456510717, 0.01269603265463103,
    0.0081371973654528353, 0.0035093050047350483,
};

/* log(a) - psi(a) */
static double log_minus_digamma(double a) {
  if (a < 10) return log(a) - shmt__digamma(a);
  const double z = 1 / (a * a);
  return 0.5 / a + z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z / 132))));
}

/* psi(a + b) - psi(a), exact also where they are nearly the same */
static double digamma_step(double a, double b) {
  double sum = 0;

  for (; a < 10; a += 1) sum += b / (a * (a + b));
  const double r = 1 / a, s = 1 / (a + b), r2 = r * r, s2 = s * s;
  /* The asymptotic series, term by term divided by r - s = b r s. */
  const double tail = 1.0 / 12 - (r2 + s2) / 120 + (r2 * r2 + r2 * s2 + s2 * s2) / 252 -
                      (r2 + s2) * (r2 * r2 + s2 * s2) / 240 +
                      (r2 * r2 * (r2 * r2 + r2 * s2 + s2 * s2) + s2 * s2 * s2 * (r2 + s2)) / 132;
  return sum + log1p(b / a) + b * r * s * (0.5 + (r + s) * tail);
}

/* Where slope w + x (exp(w) - 1 - w) has passed DECAY: the smaller of two bounds; slope, x >= 0. */
static double reach(double slope, double x, double a) {
  const double square = 2 * DECAY / (slope + sqrt(slope * slope + 2 * DECAY * x));
  const double exponential = log1p((DECAY + a * square) / x);
  return exponential < square ? exponential : square;
}

/* --- gamma ----------------------------------------------------------------------- */

/* Term by term: (x / a) sum of x^n / (a + 1)_n (psi(a + n + 1) - log(x)). */
static double gamma_series(double a, double x) {
  const double log_x = log(x);
  double term = 1, psi = shmt__digamma(a + 1), sum = psi - log_x;

  for (double n = 1; n < 10000; n += 1) {
    const double inverse = 1 / (a + n);
    psi += inverse;
    term *= x * inverse;
    const double part = term * (psi - log_x);
    sum += part;
    if (part < EPSILON * sum) break;
  }
  return x / a * sum;
}

double shmt__gamma_sample_grad(double a, double x, shmt__gamma_integral integral) {
  if (!(a > 0) || !(x >= 0) || isinf(x) || isinf(a)) return NAN;
  if (x == 0) return 0;
  if (x < 1 || (x < a && a < MANY_TERMS)) return gamma_series(a, x);
  /* By t = x exp(w), to the side of the mean that x is on; the offset is the magnitude of log(x) - psi(a). */
  const double side = x < a ? -1 : 1, slope = fabs(x - a);
  const double offset = side * ((a < 10 ? log(x / a) : log1p((x - a) / a)) + log_minus_digamma(a));
  return x * integral(x, slope, offset, reach(slope, x, side > 0 ? a : x), side);
}

/* --- beta ---------------------------------------------------------------------------
 *
 * Divided by 1 - x, which is how a Dirichlet distribution needs it. y is 1 - x.
 */

/* From 0 to x, term by term: (x / a) sum of (a + b)_n / (a + 1)_n x^n (psi(a + n + 1) - psi(a + b + n) - log(x)). */
static double beta_lower_series(double x, double a, double b) {
  const double log_x = log(x);
  double term = 1, psis = 1 / a - digamma_step(a, b), sum = psis - log_x;

  for (double n = 0; n < 100000; n += 1) {
    const double above = a + b + n, below = a + 1 + n;
    term *= x * above / below;
    psis += 1 / below - 1 / above;
    const double part = term * (psis - log_x);
    sum += part;
    if (part < EPSILON * sum * (1 - x)) break;
  }
  return x / a * sum;
}

/* From x to 1, term by term: (x / b) sum of (a + b)_n / (b + 1)_n y^n (psi(a + b + n) - psi(a) + log(x)). */
static double beta_upper_series(double x, double y, double a, double b) {
  double term = 1, psis = digamma_step(a, b) + log(x), sum = psis;

  for (double n = 0; n < 100000; n += 1) {
    const double above = a + b + n;
    term *= y * above / (b + 1 + n);
    psis += 1 / above;
    const double part = term * psis;
    sum += part;
    if (part < EPSILON * sum * x) break;
  }
  return x / b * sum;
}

/* log of the density at 1/2 divided by that at x */
static double log_ratio_at_half(double x, double y, double a, double b) {
  return (a - 1) * log(0.5 / x) + (b - 1) * log(0.5 / y);
}

/* From 0 to x, by 1 - t = y exp(v): down to 1/2, and the rest term by term, when the density reaches so far. */
static double beta_lower_integral(double x, double y, double a, double b) {
  const double k = y / x, mean_log = -digamma_step(a, b);
  const double most = x > 0.5 ? log(0.5 / y) : log(1 / y);
  double end = most, sum = 0;

  if (a > 1) {
    const double steep = (a - 1) * k, far = reach(steep > b ? steep - b : 0, steep, b);
    end = far < most ? far : most;
  }
  const int n_panels = (int)ceil(end / PANEL);
  for (int i = 0; i < n_panels * SHMT_NODES; i++) {
    const double v = end / n_panels * (i / SHMT_NODES + shmt__nodes[i % SHMT_NODES]);
    const double log_t = log1p(-y * exp(v)), fall = log1p(-k * expm1(v));
    sum += shmt__weights[i % SHMT_NODES] * (mean_log - log_t) * exp(b * v + (a - 1) * fall);
  }
  sum *= end / n_panels;
  if (end == most && x > 0.5)
    sum += 0.5 / y * exp(log_ratio_at_half(x, y, a, b)) * beta_lower_series(0.5, a, b);
  return sum;
}

/* From x to 1, by t = x exp(v): up to 1/2, and the rest term by term. */
static double beta_upper_integral(double x, double y, double a, double b) {
  const double k = x / y, offset = log(x) + digamma_step(a, b);
  const double most = x < 0.5 ? log(0.5 / x) : -log(x);
  double end = most, sum = 0;

  if (b > 1) {
    const double steep = (b - 1) * k, far = reach(steep > a ? steep - a : 0, steep, a);
    end = far < most ? far : most;
  }
  const int n_panels = (int)ceil(end / PANEL);
  for (int i = 0; i < n_panels * SHMT_NODES; i++) {
    const double v = end / n_panels * (i / SHMT_NODES + shmt__nodes[i % SHMT_NODES]);
    sum += shmt__weights[i % SHMT_NODES] * (offset + v) * exp(a * v + (b - 1) * log1p(-k * expm1(v)));
  }
  sum *= end / n_panels * k;
  if (end == most && x < 0.5)
    sum += 0.5 / y * exp(log_ratio_at_half(x, y, a, b)) * beta_upper_series(0.5, 0.5, a, b);
  return sum;
}

double shmt__beta_sample_grad(double x, double a, double b) {
  const double y = 1 - x;

  if (!(a > 0) || !(b > 0) || !(x >= 0) || !(y >= 0) || isinf(a) || isinf(b)) return NAN;
  if (x == 0) return 0;
  /* The first terms of the integrals and of the lower series say where they keep their sign. */
  const double first = -digamma_step(a, b) - log(x);
  const int is_lower = first > 0;
  /* Near the mean a series has as many terms as a normal distribution has numbers in some deviations. */
  const double limit = (MANY_TERMS / 12.0) * (MANY_TERMS / 12.0);
  const int few_lower = a + b < MANY_TERMS || a * (a + b) < limit * b,
            few_upper = a + b < MANY_TERMS || b * (a + b) < limit * a;
  if (x <= 0.95 && few_lower && (is_lower || (x < 0.1 && first + 1 / a > 0))) return beta_lower_series(x, a, b);
  if (is_lower) return beta_lower_integral(x, y, a, b);
  if (y <= 0.95 && few_upper) return beta_upper_series(x, y, a, b);
  return beta_upper_integral(x, y, a, b);
}
