/* kernels/special_normal.c -- inverse and scaled error functions, the normal distribution. */
#include "kernels/special.h"

#include <math.h>

#define SQRT_HALF 0.7071067811865476

/* Winitzki's approximation, then Halley steps on erf. */
double shmt__erfinv(double y) {
  if (!(y > -1 && y < 1)) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
  const double t = 2 / (3.141592653589793 * 0.147), l = log1p(-y * y);
  const double u = t + l / 2;
  double x = copysign(sqrt(sqrt(u * u - l / 0.147) - u), y);
  for (int i = 0; i < 3; i++) {
    /* With erfc far out, where erf is all but 1. */
    const double far = (1 - fabs(y)) - erfc(fabs(x));
    const double miss = fabs(y) <= 0.5 ? erf(x) - y : y < 0 ? -far : far;
    const double step = miss * 0.886226925452758 * exp(x * x);
    x -= step / (1 + x * step);
  }
  return x;
}

double shmt__erfcx(double x) {
  if (x != x) return x;
  if (x > 20) {
    /* The asymptotic series. */
    const double z = 0.5 / (x * x);
    double sum = 1;
    for (int k = 6; k >= 1; k--) sum = 1 - (2 * k - 1) * z * sum;
    return 0.5641895835477563 / x * sum;
  }
  if (x < -27) return INFINITY;
  /* x * x with its rounding error, which the exponential would magnify. */
  const double square = x * x, lost = fma(x, x, -square);
  return exp(square) * (1 + lost) * erfc(x);
}

double shmt__ndtr(double x) { return erfc(-x * SQRT_HALF) / 2; }

double shmt__log_ndtr(double x) {
  const double t = x * SQRT_HALF;

  return x < -1 ? log(shmt__erfcx(-t) / 2) - x * x / 2 : log1p(-erfc(t) / 2);
}

/* The lower tail by Newton's method on the logarithm, which is concave: no step overshoots twice. */
static double lower_tail(double p) {
  const double wanted = log(p);
  double x = -sqrt(-2 * wanted);

  for (int i = 0; i < 20; i++) {
    const double slope = 0.7978845608028654 / shmt__erfcx(-x * SQRT_HALF);
    const double step = (shmt__log_ndtr(x) - wanted) / slope;
    x -= step;
    if (fabs(step) <= 1e-15 * fabs(x)) break;
  }
  return x;
}

double shmt__ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return NAN;
  if (p == 0) return -INFINITY;
  if (p == 1) return INFINITY;
  if (p > 0.25 && p < 0.75) return shmt__erfinv(2 * p - 1) / SQRT_HALF;
  return p < 0.5 ? lower_tail(p) : -lower_tail(1 - p);
}
