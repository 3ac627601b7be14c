/* kernels/special/special_polynomial.c -- orthogonal polynomials by their recurrences.
 *
 * Degrees are numbers of the tensor's dtype. High degrees use closed forms, which cost the same for any degree, or give
 * NaN, so that no argument makes a call endless.
 */
#include "kernels/special/special.h"

#include <math.h>

enum {
  CLOSED_FROM = 1000,      /* from this degree on there is no recurrence, but the closed form */
  LONGEST = 1 << 20,       /* the most steps of a recurrence without a closed form */
};

/* n as an integer; -1, for which every polynomial is 0, when it is negative, NaN or beyond the integers. */
static int64_t degree(double n) { return n > -1 && n < 9e18 ? (int64_t)n : -1; }

/* p(k + 1) = 2 x p(k) - p(k - 1), from p(0) = 1 and p(1). */
static double chebyshev(double x, int64_t n, double first) {
  double before = 1, p = first;

  if (n == 0) return 1;
  for (int64_t k = 2; k <= n && p == p; k++) {
    const double next = 2 * x * p - before;
    before = p;
    p = next;
  }
  return p;
}

/* The closed form's value with overflow as in the recurrence, which gives NaN (infinity - infinity) after it. */
static double as_recurred(double p) { return isinf(p) ? NAN : p; }

static double sign_of(double x, int64_t n) { return x < 0 && n % 2 ? -1 : 1; }

double shmt__chebyshev_t(double x, double order) {
  const int64_t n = degree(order);

  if (n < 0) return 0;
  if (fabs(x) == 1) return sign_of(x, n);
  if (n > 6 && fabs(x) < 1) return cos((double)n * acos(x));
  if (n > CLOSED_FROM) return as_recurred(sign_of(x, n) * cosh((double)n * acosh(fabs(x))));
  return chebyshev(x, n, x);
}

double shmt__chebyshev_u(double x, double order) {
  const int64_t n = degree(order);
  const double next = (double)n + 1;

  if (n < 0) return 0;
  if (fabs(x) == 1) return sign_of(x, n) * next;
  if (n > 8 && fabs(x) < 1) {
    const double angle = acos(x);
    return sin(next * angle) / sin(angle);
  }
  if (n > CLOSED_FROM) {
    const double t = acosh(fabs(x));
    return as_recurred(sign_of(x, n) * (sinh(next * t) / sinh(t)));
  }
  return chebyshev(x, n, 2 * x);
}

/* cos((n + 1/2) t) / cos(t/2) at x = cos(t) */
double shmt__chebyshev_v(double x, double order) {
  const int64_t n = degree(order);
  const double half = (double)n + 0.5;

  if (n < 0) return 0;
  if (x == 1) return 1;
  if (x == -1) return sign_of(x, n) * 2 * half;
  if (n > 8 && fabs(x) < 1) {
    const double angle = acos(x);
    return cos(half * angle) / cos(angle / 2);
  }
  if (n > CLOSED_FROM) {
    const double t = acosh(fabs(x));
    return as_recurred(x > 0 ? cosh(half * t) / cosh(t / 2) : sign_of(x, n) * (sinh(half * t) / sinh(t / 2)));
  }
  return chebyshev(x, n, 2 * x - 1);
}

/* sin((n + 1/2) t) / sin(t/2): the mirror image of the third kind. */
double shmt__chebyshev_w(double x, double order) {
  const double v = shmt__chebyshev_v(-x, order);

  return degree(order) % 2 == 1 ? -v : v;
}

double shmt__hermite_h(double x, double order, int64_t limit) {
  const int64_t n = degree(order);
  double before = 1, p = 2 * x;

  if (n < 0) return 0;
  if (n == 0) return 1;
  if (n > limit) return NAN;
  for (int64_t k = 1; k < n && p == p; k++) {
    const double next = 2 * x * p - 2 * (double)k * before;
    before = p;
    p = next;
  }
  return p;
}

double shmt__hermite_he(double x, double order, int64_t limit) {
  const int64_t n = degree(order);
  double before = 1, p = x;

  if (n < 0) return 0;
  if (n == 0) return 1;
  if (n > limit) return NAN;
  for (int64_t k = 1; k < n && p == p; k++) {
    const double next = x * p - (double)k * before;
    before = p;
    p = next;
  }
  return p;
}

double shmt__laguerre_l(double x, double order) {
  const int64_t n = degree(order);
  double before = 1, p = 1 - x;

  if (n < 0) return 0;
  if (n == 0 || x == 0) return 1;
  if (n > LONGEST) return NAN;
  for (int64_t k = 1; k < n && p == p; k++) {
    const double next = ((2 * (double)k + 1 - x) * p - (double)k * before) / ((double)k + 1);
    before = p;
    p = next;
  }
  return p;
}

double shmt__legendre_p(double x, double order) {
  const int64_t n = degree(order);
  double before = 1, p = x;

  if (n < 0) return 0;
  if (fabs(x) == 1) return sign_of(x, n);
  if (n == 0) return 1;
  if (n > LONGEST) {
    if (fabs(x) > 1) return NAN;
    /* Hilb's formula: off by less than n^-3/2. */
    const double angle = acos(fabs(x));
    return x != x ? x : sign_of(x, n) * sqrt(angle / sin(angle)) * j0(((double)n + 0.5) * angle);
  }
  for (int64_t k = 1; k < n && p == p; k++) {
    const double next = ((2 * (double)k + 1) * x * p - (double)k * before) / ((double)k + 1);
    before = p;
    p = next;
  }
  return p;
}
