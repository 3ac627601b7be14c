/* kernels/special/gamma_lockstep.h -- incomplete gamma functions and Hurwitz' zeta function, for groups of doubles.
 *
 * Series and continued fractions run for SHMT_GROUP pairs of arguments in lockstep, until all of them have converged.
 * So the loops over a group vectorise; a loop for a single pair would not. Array lengths are a multiple of SHMT_GROUP;
 * callers pad the last group.
 *
 * Source: NIST Digital Library of Mathematical Functions, 8.7 and 8.9 (incomplete gamma), 25.11 (zeta by Euler and
 * Maclaurin). Polynomials were fitted as those of vmath_bessel.h.
 */
#ifndef SHMT_KERNELS_SPECIAL_GAMMA_LOCKSTEP_H
#define SHMT_KERNELS_SPECIAL_GAMMA_LOCKSTEP_H

#include "kernels/simd/polynomial.h"
#include "kernels/simd/vmath_gamma.h"

enum { SHMT_GROUP = 32 };
#define SHMT_EPSILON     1.1102230246251565e-16
#define SHMT_IN_GROUP(i) (int i = 0; i < SHMT_GROUP; i++)

/* log(x / a) - m for m = x / a - 1, without cancellation */
SHMT_VMATH double shmt__log_minus(double x, double a, double m) {
  const double r = m / (2.0 + m), y = r * r;
  const double p = POLY(y, 0.3333333333333333, 0.2, 0.14285714285714285, 0.1111111111111111, 0.09090909090909091,
                        0.07692307692307693, 0.06666666666666667, 0.058823529411764705, 0.05263157894736842,
                        0.047619047619047616, 0.043478260869565216, 0.04, 0.037037037037037035,
                        0.034482758620689655);
  const double near = r * (2.0 * y * p - m);
  const double far = shmt__log(x / a) - m;
  return m < -0.4 || m > 0.5 ? far : near;
}
/* 1 / gamma(1 + f) for 0 <= f <= 1 */
SHMT_VMATH double shmt__reciprocal_gamma(double f) {
  const double u = 2.0 * f - 1.0;
  return POLY(u, 1.1283791670955126, -0.02058726322264155, -0.13166360888138617, 0.02188775325549181,
              0.0031854287654827034, -0.0013173490427665648, 0.00010332652853552368, 1.656821439372064e-05,
              -4.338790023117653e-06, 2.9757348347964185e-07, 2.476086966716361e-08, -6.7855612080375315e-09,
              5.26503364972425e-10, 7.086678864130322e-12, -5.494544576784567e-12, 5.136325359794292e-13);
}
/* log(gamma(1 + a)) for 0 <= a <= 1/2 */
SHMT_VMATH double shmt__lgamma_near_one(double a) {
  const double u = 4.0 * a - 1.0;
  return a * POLY(u, -0.3930873456872526, 0.16563381231098723, -0.01596766799759839, 0.00213704364825652,
                  -0.0003257519756069781, 5.3115626701107623e-05, -9.01600691951844e-06, 1.5712804662102833e-06,
                  -2.7896236064148223e-07, 5.021291458367198e-08, -9.135312075335683e-09, 1.6768633919299236e-09,
                  -3.098738545301767e-10, 5.697824905354011e-11, -1.0643682886778086e-11, 2.3539280838831927e-12,
                  -4.4386451157625894e-13);
}
/* a - b, and its rounding error in *low. */
SHMT_VMATH double shmt__difference(double a, double b, double* low) {
  const double d = a - b, part = d - a;
  *low = (a - (d - part)) - (b + part);
  return d;
}
/* exp(a log(q) - gap - rest) for a normal q. An exponent in the hundreds needs more digits than a double has: q_low
 * (the relative rounding error of q) and gap_low (that of gap) supply them. */
SHMT_VMATH double shmt__exp_of_power(double a, double q, double q_low, double gap, double gap_low, double rest) {
#ifdef __FMA__
  double low, shifted, k;
  const double high = shmt__log_in_two(q, &low), product = a * high;
  const double product_low = __builtin_fma(a, high, -product) + a * (low + q_low);
  double x_low, y_low;
  const double x = shmt__difference(product, gap, &x_low), y = shmt__difference(x, rest, &y_low);
  const double c = shmt__vmath_clamp(y, -760.0, 705.0), lost = c == y ? y_low + x_low + product_low - gap_low : 0.0;
  const double e = shmt__exp_core(c, &shifted, &k) + 1.0;
  return shmt__scaled(__builtin_fma(e, lost, e), shifted);
#else
  return shmt__exp(a * (shmt__log(q) + q_low) - (gap + gap_low) - rest);
#endif
}
/* x^a exp(-x) / gamma(a + 1): `near` for a below 10, `far` from there on */
SHMT_VMATH double shmt__gamma_prefix_near(double a, double x) {
  const double c = a > 10.0 ? 10.0 : a, n = __builtin_trunc(c), f = c - n;
  double product = 1.0;
#define FACTOR(k) product *= n >= (k) ? f + (k) : 1.0
  FACTOR(1.0);
  FACTOR(2.0);
  FACTOR(3.0);
  FACTOR(4.0);
  FACTOR(5.0);
  FACTOR(6.0);
  FACTOR(7.0);
  FACTOR(8.0);
  FACTOR(9.0);
#undef FACTOR
  /* A subnormal x is scaled up; beside the logarithm of such a number, x itself does not count. */
  const bool is_tiny = x < 1e-290;
  const double power =
      shmt__exp_of_power(a, is_tiny ? x * 0x1p100 : x, 0.0, is_tiny ? a * 69.31471805599453 : x, 0.0, 0.0);
  return power * shmt__reciprocal_gamma(f) / product;
}
SHMT_VMATH double shmt__gamma_prefix_far(double a, double x) {
  const double w = 1.0 / a, z = w * w;
  const double stirling =
      w * POLY(z, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156);
#ifdef __FMA__
  const double ratio = x / a, q = ratio < 1e-290 ? 1e-290 : ratio, q_low = __builtin_fma(-ratio, a, x) / x;
  double gap_low;
  const double gap = shmt__difference(x, a, &gap_low);
  const double power = shmt__exp_of_power(a, q, q_low, gap, gap_low, stirling);
#else
  const double power = shmt__exp(a * shmt__log_minus(x, a, (x - a) / a) - stirling);
#endif
  return power * 0.3989422804014327 / __builtin_sqrt(a);
}
static void shmt__gamma_prefixes(double* y, const double* a, const double* x, int64_t n) {
  int64_t far = 0;

  for (int64_t i = 0; i < n; i++) {
    y[i] = shmt__gamma_prefix_near(a[i], x[i]);
    far |= a[i] >= 10.0 ? 1 : 0;
  }
  for (int64_t i = 0; far && i < n; i++) {
    const double p = shmt__gamma_prefix_far(a[i], x[i]);
    y[i] = a[i] >= 10.0 ? p : y[i];
  }
}

/* The lower incomplete gamma function by its series of positive terms, fast for x up to about a. */
static void shmt__lower_series(double* y, const double* as, const double* xs, int64_t n) {
  shmt__gamma_prefixes(y, as, xs, n);
  for (int64_t i0 = 0; i0 < n; i0 += SHMT_GROUP) {
    double sum[SHMT_GROUP], term[SHMT_GROUP], below[SHMT_GROUP];
    int64_t more = 1;

    for SHMT_IN_GROUP(i) sum[i] = term[i] = 1.0;
    for SHMT_IN_GROUP(i) below[i] = as[i0 + i];
    for (int k = 1; k < 100000 && more; k++) {
      more = 0;
      for SHMT_IN_GROUP(i) {
        below[i] += 1.0;
        term[i] *= xs[i0 + i] / below[i];
        sum[i] += term[i];
        more |= term[i] > SHMT_EPSILON * sum[i] ? 1 : 0;
      }
    }
    for SHMT_IN_GROUP(i) y[i0 + i] *= sum[i];
  }
}

/* The upper incomplete gamma function by Legendre's continued fraction (Lentz' method), for x > a + 1, where all
 * denominators are positive. */
static void shmt__upper_fraction(double* y, const double* as, const double* xs, int64_t n) {
  shmt__gamma_prefixes(y, as, xs, n);
  for (int64_t i0 = 0; i0 < n; i0 += SHMT_GROUP) {
    double b[SHMT_GROUP], c[SHMT_GROUP], d[SHMT_GROUP], h[SHMT_GROUP], open[SHMT_GROUP];
    int64_t more = 1;

    for SHMT_IN_GROUP(i) {
      b[i] = xs[i0 + i] + 1.0 - as[i0 + i];
      c[i] = 1e300;
      h[i] = d[i] = 1.0 / b[i];
      open[i] = 1.0;
    }
    for (int k = 1; k < 100000 && more; k++) {
      more = 0;
      for SHMT_IN_GROUP(i) {
        const double numerator = k * (as[i0 + i] - k);
        b[i] += 2.0;
        d[i] = 1.0 / SHMT_MADD(numerator, d[i], b[i]);
        c[i] = b[i] + numerator / c[i];
        const double step = c[i] * d[i];
        /* A pair that has converged stays: further steps would only round it again. */
        h[i] *= open[i] != 0 ? step : 1.0;
        open[i] = shmt__magnitude(step - 1.0) > SHMT_EPSILON ? open[i] : 0.0;
        more |= open[i] != 0 ? 1 : 0;
      }
    }
    for SHMT_IN_GROUP(i) y[i0 + i] *= as[i0 + i] * h[i];
  }
}

/* The upper incomplete gamma function for a <= 1/2 and x <= 3/2, where 1 minus the lower one would cancel. */
static void shmt__upper_series(double* y, const double* as, const double* xs, int64_t n) {
  for (int64_t i0 = 0; i0 < n; i0 += SHMT_GROUP) {
    double sum[SHMT_GROUP], term[SHMT_GROUP];
    int64_t more = 1;

    for SHMT_IN_GROUP(i) sum[i] = 0.0;
    for SHMT_IN_GROUP(i) term[i] = 1.0;
    for (int k = 1; k < 200 && more; k++) {
      more = 0;
      for SHMT_IN_GROUP(i) {
        term[i] *= xs[i0 + i] * (-1.0 / k);
        const double part = term[i] / (as[i0 + i] + k);
        sum[i] += part;
        more |= shmt__magnitude(part) > SHMT_EPSILON * shmt__magnitude(sum[i]) ? 1 : 0;
      }
    }
    for SHMT_IN_GROUP(i) {
      const double a = as[i0 + i];
      const double logarithm = a * shmt__log(xs[i0 + i]) - shmt__lgamma_near_one(a);
      const double e = shmt__expm1(logarithm);
      y[i0 + i] = -SHMT_MADD((e + 1.0) * a, sum[i], e);
    }
  }
}

/* Hurwitz' zeta function for s > 1, 0 < q < infinity: adds terms until the rest does not count, or until the formula of
 * Euler and Maclaurin is exact enough for the rest. */
static void shmt__zeta_sum(double* y, const double* ss, const double* qs, int64_t n) {
  for (int64_t i0 = 0; i0 < n; i0 += SHMT_GROUP) {
    double sum[SHMT_GROUP], q[SHMT_GROUP], open[SHMT_GROUP];
    int64_t more = 1;

    for SHMT_IN_GROUP(i) {
      sum[i] = 0.0;
      q[i] = qs[i0 + i];
      open[i] = 1.0;
    }
    while (more) {
      more = 0;
      for SHMT_IN_GROUP(i) {
        const double s = ss[i0 + i], enough = s < 1e6 ? 10.0 + s : 1e6;
        const double going = q[i] < enough ? open[i] : 0.0;
        const double term = shmt__pow(q[i], -s) * going;
        sum[i] += term;
        q[i] += going;
        /* False also when term and sum both underflow. */
        const double left = term > SHMT_EPSILON * 1e-2 * sum[i] ? 1.0 : 0.0;
        open[i] = going != 0 ? left : open[i];
        more |= going * left != 0 ? 1 : 0;
      }
    }
    for SHMT_IN_GROUP(i) {
      const double s = ss[i0 + i], w = 1.0 / q[i], head = shmt__pow(q[i], -s);
      double tail = head * q[i] / (s - 1.0) + 0.5 * head, factor = s * head * w;
#define TERM(j, number)                               \
  tail = SHMT_MADD(number, factor, tail);             \
  factor *= (s + (2 * (j) + 1)) * w * ((s + (2 * (j) + 2)) * w)
      TERM(0, 0.08333333333333333);
      TERM(1, -0.001388888888888889);
      TERM(2, 3.306878306878307e-05);
      TERM(3, -8.267195767195768e-07);
      TERM(4, 2.08767569878681e-08);
      TERM(5, -5.284190138687493e-10);
      TERM(6, 1.3382536530684679e-11);
      TERM(7, -3.3896802963225827e-13);
      TERM(8, 8.586062056277845e-15);
      TERM(9, -2.174868698558062e-16);
#undef TERM
      y[i0 + i] = sum[i] + (open[i] != 0 ? tail : 0.0);
    }
  }
}

#endif
