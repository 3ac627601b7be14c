/* kernels/special_bessel.c -- modified Bessel functions and Airy's function.
 *
 * Sources: NIST Digital Library of Mathematical Functions, 9.2, 9.6 and 9.7 (Airy), 10.25, 10.31,
 * 10.32 and 10.40 (modified Bessel functions).
 */
#include "kernels/special.h"

#include <math.h>
#include <stdbool.h>

#define PI      3.141592653589793
#define EULER   0.5772156649015329
#define EPSILON 1.1102230246251565e-16

/* --- first kind ------------------------------------------------------------------- */

/* The power series of I_order at x up to 20: all its terms are positive. */
static double i_series(int order, double x) {
  const double quarter = x * x / 4;
  double term = 1, sum = 1;

  for (int k = 1; k < 200; k++) {
    term *= quarter / ((double)k * (k + order));
    sum += term;
    if (term < EPSILON * sum) break;
  }
  return order ? x / 2 * sum : sum;
}

/* sqrt(2 pi x) exp(-x) I_order(x) from x = 20 on. */
static double i_asymptotic(int order, double x) {
  const double mu = 4 * order * order;
  double term = 1, sum = 1;

  for (int k = 1; k < 40; k++) {
    const double odd = 2 * k - 1;
    term *= -(mu - odd * odd) / (8 * k * x);
    sum += term;
    if (fabs(term) < EPSILON * fabs(sum)) break;
  }
  return sum;
}

static double i_scaled(int order, double x) {
  if (isinf(x)) return 0;
  if (x <= 20) return exp(-x) * i_series(order, x);
  return i_asymptotic(order, x) / (sqrt(2 * PI) * sqrt(x));
}

/* At infinity exp(x) times a factor that is 0: NaN, as in torch. */
static double i_plain(int order, double x) {
  if (isinf(x)) return NAN;
  if (x <= 20) return i_series(order, x);
  /* In two halves: exp(x) alone may overflow where the function does not. */
  const double half = exp(x / 2);
  return i_asymptotic(order, x) / (sqrt(2 * PI) * sqrt(x)) * half * half;
}

double shmt__bessel_i0(double x) { return i_plain(0, fabs(x)); }
double shmt__bessel_i0e(double x) { return i_scaled(0, fabs(x)); }
double shmt__bessel_i1(double x) { return copysign(i_plain(1, fabs(x)), x); }
double shmt__bessel_i1e(double x) { return copysign(i_scaled(1, fabs(x)), x); }

/* --- second kind -------------------------------------------------------------------- */

/* exp(x) K_order(x), the integral of exp(-2 x sinh(t/2)^2) cosh(order t) over t > 0, for x not near 0.
 * The trapezoidal rule converges exponentially for such integrands; nothing cancels. */
static double k_integral(double order, double x) {
  const double h = fmin(0.2, 0.55 / sqrt(x));
  double sum = 0.5;

  for (int i = 1; i < 200; i++) {
    const double t = i * h, s = sinh(t / 2);
    const double term = exp(-2 * x * s * s) * cosh(order * t);
    sum += term;
    if (term < EPSILON * 0.1 * sum) break;
  }
  return h * sum;
}

/* K_0 below 1. */
static double k0_series(double x) {
  const double quarter = x * x / 4;
  double term = 1, harmonic = 0, sum = 0;

  for (int k = 1; k < 40; k++) {
    term *= quarter / ((double)k * k);
    harmonic += 1.0 / k;
    sum += term * harmonic;
    if (term * harmonic < EPSILON * sum) break;
  }
  return sum - (log(x / 2) + EULER) * i_series(0, x);
}

/* K_1 below 1. */
static double k1_series(double x) {
  const double quarter = x * x / 4;
  double term = 1, psi = 1 - 2 * EULER, sum = psi;

  for (int k = 1; k < 40; k++) {
    term *= quarter / ((double)k * (k + 1));
    psi += 1.0 / k + 1.0 / (k + 1);
    sum += term * psi;
    if (term * psi < EPSILON * fabs(sum)) break;
  }
  return 1 / x + log(x / 2) * i_series(1, x) - x / 4 * sum;
}

static double k_function(int order, double x, bool scaled) {
  if (x != x || x < 0) return NAN;
  if (x == 0) return INFINITY;
  if (isinf(x)) return 0;
  if (x < 1) {
    const double k = order ? k1_series(x) : k0_series(x);
    return scaled ? exp(x) * k : k;
  }
  const double k = k_integral(order, x);
  return scaled ? k : exp(-x) * k;
}

double shmt__bessel_k0(double x) { return k_function(0, x, false); }
double shmt__bessel_k0e(double x) { return k_function(0, x, true); }
double shmt__bessel_k1(double x) { return k_function(1, x, false); }
double shmt__bessel_k1e(double x) { return k_function(1, x, true); }

/* --- Airy --------------------------------------------------------------------------- */

/* Ai and its derivative at 0, -1, -2, ... */
static const double AIRY[][2] = {
    {0.35502805388781723926, -0.25881940379280679841},
    {0.5355608832923521188, -0.010160567116645209395},
    {0.22740742820168557599, 0.61825902074169104141},
    {-0.37881429367765807435, 0.31458376921659881365},
    {-0.070265532949289515099, -0.7906285753685813803},
    {0.35076100902411431979, 0.32719281855444313679},
    {-0.32914517362982310523, 0.34593548728134289493},
    {0.18428083525050563728, -0.77100816841012654773},
    {-0.052705050356386202622, 0.93556093819830655103},
    {-0.022133721547341403674, -0.97566398092633159471},
    {0.040241238486443190689, 0.9962650441327900559},
};

/* Taylor's series around -n: y'' = x y gives each coefficient from those before. */
static double airy_taylor(int n, double x) {
  const double h = x + n;
  double before = 0, a = AIRY[n][0], b = AIRY[n][1];
  double sum = a + b * h, power = h;

  for (int k = 0; k < 32; k++) {
    const double next = (-n * a + before) / ((k + 1.0) * (k + 2));
    before = a;
    a = b;
    b = next;
    power *= h;
    sum += next * power;
  }
  return sum;
}

/* For -x >= 10: modulus and phase from the asymptotic series, terms in zeta^-1 alternating. */
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
  if (x != x || isinf(x)) return NAN; /* the phase is not known; so in torch also where Ai vanishes */
  if (x > 1) {
    const double zeta = 2.0 / 3 * x * sqrt(x);
    if (zeta > 800) return 0; /* below the smallest double */
    return sqrt(x / 3) / PI * exp(-zeta) * k_integral(1.0 / 3, zeta);
  }
  if (x <= -10) return airy_oscillating(-x);
  return airy_taylor((int)(0.5 - fmin(x, 0.5)), x);
}

/* Beyond every argument the phase is not known: NaN, as in torch. */
double shmt__bessel_j0(double x) { return isinf(x) ? NAN : j0(x); }
double shmt__bessel_j1(double x) { return isinf(x) ? NAN : j1(x); }
double shmt__bessel_y0(double x) { return isinf(x) ? NAN : y0(x); }
double shmt__bessel_y1(double x) { return isinf(x) ? NAN : y1(x); }

double shmt__spherical_j0(double x) {
  if (isinf(x)) return 0;
  return x == 0 ? 1 : sin(x) / x;
}
