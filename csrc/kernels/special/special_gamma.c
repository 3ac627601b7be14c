/* kernels/special/special_gamma.c -- the gamma family: digamma, zeta, incomplete gamma functions.
 *
 * Sources: NIST Digital Library of Mathematical Functions, 5.11 (Stirling), 8.7, 8.9 and 8.12
 * (incomplete gamma), 25.11 (Hurwitz zeta by Euler and Maclaurin).
 */
#include "kernels/special/special.h"

#include <math.h>

#define PI      3.141592653589793
#define EPSILON 1.1102230246251565e-16

/* Reflects a negative x, shifts it up to 10, and uses the asymptotic series there. */
double shmt__digamma(double x) {
  double r = 0;

  if (x == 0) return copysign(INFINITY, -x);
  if (x < 0) {
    if (x == floor(x)) return NAN;
    r = -PI / tan(PI * (x - rint(x)));
    x = 1 - x;
  }
  while (x < 10) {
    r -= 1 / x;
    x += 1;
  }
  const double z = 1 / (x * x);
  double p = 1.0 / 12;
  p = p * z - 691.0 / 32760;
  p = p * z + 1.0 / 132;
  p = p * z - 1.0 / 240;
  p = p * z + 1.0 / 252;
  p = p * z - 1.0 / 120;
  p = p * z + 1.0 / 12;
  return r + log(x) - 0.5 / x - z * p;
}

/* B_2j / (2j)! */
static const double BERNOULLI[] = {
    1.0 / 12,
    -1.0 / 720,
    1.0 / 30240,
    -1.0 / 1209600,
    1.0 / 47900160,
    -691.0 / 1307674368000.0,
    1.0 / 74724249600.0,
    -3617.0 / 10670622842880000.0,
    43867.0 / 5109094217170944000.0,
    -174611.0 / 802857662698291200000.0,
};

/* Adds terms until the rest does not count, or until the formula of Euler and Maclaurin is exact enough for it. q >
 * 0. */
static double zeta_positive(double s, double q) {
  const double enough = s < 1e6 ? 10 + s : 1e6;
  double sum = 0;

  for (; q < enough; q += 1) {
    const double term = pow(q, -s);
    sum += term;
    if (term <= EPSILON * 1e-2 * sum) return sum; /* true also when both underflow */
  }
  const double head = pow(q, -s);
  sum += head * q / (s - 1) + head / 2;
  double factor = s * head / q;
  for (int j = 0; j < (int)(sizeof BERNOULLI / sizeof *BERNOULLI); j++) {
    const double term = BERNOULLI[j] * factor;
    sum += term;
    if (fabs(term) < EPSILON * 1e-1 * fabs(sum)) break;
    factor *= (s + 2 * j + 1) / q * ((s + 2 * j + 2) / q);
  }
  return sum;
}

double shmt__zeta(double s, double q) {
  if (s != s || q != q) return NAN;
  if (s == 1) return INFINITY;
  if (s < 1) return NAN;
  if (q <= 0) {
    if (q == floor(q)) return INFINITY;
    if (s != floor(s)) return NAN;
    /* For negative q, the sum is divided into two sums with positive arguments. */
    const double f = -q - floor(-q), sign = fmod(s, 2) == 0 ? 1 : -1;
    return sign * (zeta_positive(s, f) - zeta_positive(s, 1 - q)) + zeta_positive(s, 1 - f);
  }
  if (isinf(q)) return 0;
  return zeta_positive(s, q);
}

/* Reflects x to the right of 1/2 and steps it up to where Stirling's series is exact. Infinite at the poles. */
static double trigamma(double x) {
  double sum = 0, sign = 1;

  if (x <= 0 && floor(x) == x) return INFINITY;
  if (x < 0.5) {
    const double s = PI / sin(PI * (x - rint(x)));
    sum = s * s;
    sign = -1;
    x = 1 - x;
  }
  for (; x < 12; x += 1) sum += sign / (x * x);
  const double r = 1 / x, y = r * r;
  const double tail =
      1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * (691.0 / 2730 - y * 7.0 / 6)))));
  return sum + sign * (r + y / 2 + r * y * tail);
}

double shmt__polygamma(int64_t n, double x) {
  if (n == 0) return shmt__digamma(x);
  /* At the infinities as in torch: only the first derivative has a limit. */
  if (isinf(x) && (x > 0) == (n > 1)) return NAN;
  if (n == 1) return trigamma(x);
  const double s = (double)n + 1;
  const double value = (n <= 170 ? tgamma(s) : INFINITY) * shmt__zeta(s, x);
  return n % 2 ? value : -value;
}

/* --- incomplete gamma functions ------------------------------------------------ */

/* log(1 + m) - m without cancellation. */
static double log1p_minus(double m) {
  if (m < -0.4 || m > 0.5) return log1p(m) - m;
  const double r = m / (2 + m), y = r * r;
  double sum = 0, power = y;
  for (int k = 3; k < 60; k += 2) {
    const double term = power / k;
    sum += term;
    if (term < EPSILON * sum) break;
    power *= y;
  }
  return r * (2 * sum - m);
}

/* x^a e^-x / gamma(a + 1) */
static double gamma_prefix(double a, double x) {
  if (a < 10) return exp(a * log(x) - x - lgamma(a + 1));
  const double m = (x - a) / a, z = 1 / (a * a);
  const double stirling =
      (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 - z * 691.0 / 360360))))) / a;
  return exp(a * log1p_minus(m) - stirling) / sqrt(2 * PI * a);
}

static double lower_series(double a, double x) {
  double sum = 1, term = 1;

  for (double n = 1; n < 100000; n += 1) {
    term *= x / (a + n);
    sum += term;
    if (term < EPSILON * sum) break;
  }
  return gamma_prefix(a, x) * sum;
}

/* Legendre's continued fraction, by Lentz' method. */
static double upper_fraction(double a, double x) {
  const double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;

  for (double n = 1; n < 100000; n += 1) {
    const double numerator = -n * (n - a);
    b += 2;
    d = numerator * d + b;
    d = 1 / (fabs(d) < tiny ? tiny : d);
    c = b + numerator / c;
    if (fabs(c) < tiny) c = tiny;
    const double step = c * d;
    h *= step;
    if (fabs(step - 1) < EPSILON) break;
  }
  return gamma_prefix(a, x) * a * h;
}

/* log(gamma(1 + a)) for a in [0, 0.5], exact to the last place near 0 too. */
static double lgamma_near_one(double a) {
  double sum = -0.5772156649015329 * a, power = a;

  if (a > 0.2) return lgamma(1 + a);
  for (int k = 2; k < 24; k++) {
    power *= -a;
    const double term = -power * shmt__zeta(k, 1) / k;
    sum += term;
    if (fabs(term) < EPSILON * fabs(sum)) break;
  }
  return sum;
}

/* The upper function Q for small a and x, where 1 - P would cancel. */
static double upper_series(double a, double x) {
  const double log_factor = a * log(x) - lgamma_near_one(a);
  double sum = 0, term = 1;

  for (int n = 1; n < 200; n++) {
    term *= -x / n;
    sum += term / (a + n);
    if (fabs(term / (a + n)) <= EPSILON * fabs(sum)) break;
  }
  return -expm1(log_factor) - exp(log_factor) * a * sum;
}

/* Temme's uniform expansion, of which two terms are enough for a above a million. Q when upper, else P. */
static double uniform(double a, double x, int upper) {
  const double m = (x - a) / a;
  const double half_square = -log1p_minus(m); /* eta^2 / 2 */
  const double eta = copysign(sqrt(2 * half_square), m);
  const double c0 = -1.0 / 3 + eta * (1.0 / 12 + eta * (-2.0 / 135 + eta * (1.0 / 864 + eta / 2835)));
  const double c1 = -1.0 / 540 + eta * (-1.0 / 288 + eta / 378);
  const double rest = exp(-a * half_square) / sqrt(2 * PI * a) * (c0 + c1 / a);
  const double z = eta * sqrt(a / 2);

  return upper ? erfc(z) / 2 + rest : erfc(-z) / 2 - rest;
}

enum { UNIFORM_FROM = 1000000 };

/* The value of P where an argument is at a limit of its range; -1 when neither is. */
static double lower_at_limits(double a, double x) {
  if (x < 0 || a < 0) return NAN;
  if (a == 0) return x > 0 ? 1 : NAN;
  /* x == 0 and x == infinity decide the integral, also when a is NaN. */
  if (x == 0) return 0;
  if (isinf(a)) return isinf(x) ? NAN : 0;
  if (isinf(x)) return 1;
  if (x != x || a != a) return NAN;
  return a > 1e4 && x < a / 1000 ? 0 : -1;
}

double shmt__gammainc(double a, double x) {
  const double limit = lower_at_limits(a, x);

  if (limit != -1) return limit;
  if (a > UNIFORM_FROM) return uniform(a, x, 0);
  return x > a + 1 ? 1 - upper_fraction(a, x) : lower_series(a, x);
}

double shmt__gammaincc(double a, double x) {
  const double limit = lower_at_limits(a, x);

  if (limit != -1) return 1 - limit;
  if (a > UNIFORM_FROM) return uniform(a, x, 1);
  if (a < 0.5 && x < 1.5) return upper_series(a, x);
  return x > a + 1 ? upper_fraction(a, x) : 1 - lower_series(a, x);
}
