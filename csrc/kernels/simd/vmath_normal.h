/* kernels/simd/vmath_normal.h -- the normal distribution and the inverse error functions of doubles, without branches.
 *
 * They were fitted as those of vmath_bessel.h; special_normal.tmpl.h puts the intervals together.
 *
 * Source of the forms: Wichura, "Algorithm AS 241: The percentage points of the normal distribution", 1988.
 */
#ifndef SHMT_KERNELS_SIMD_VMATH_NORMAL_H
#define SHMT_KERNELS_SIMD_VMATH_NORMAL_H

#include "kernels/simd/polynomial.h"
#include "kernels/simd/vmath_double.h"

/* exp(t*t) erfc(t) for t >= 0; for large t by the asymptotic series. */
SHMT_VMATH double shmt__erfcx_right(double t) {
  const double z = 0.5 / (t * t);
  const double near = shmt__erfcx_near(t > 27.3 ? 27.3 : t);
  const double series = POLY(z, 1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0, -135135.0);
  return t > 27.3 ? 0.56418958354775629 / t * series : near;
}
/* exp(x*x) without the rounding error of the square, for 0 <= x <= 27 */
SHMT_VMATH double shmt__exp_of_square(double x) {
  const double square = x * x, e = shmt__exp(square);
  return SHMT_MADD(e, shmt__square_error(x, square), e);
}
SHMT_VMATH double shmt__erfcx(double x) {
  const double a = shmt__magnitude(x), y = shmt__erfcx_right(a), c = a > 27.0 ? 27.0 : a;
  const double left = a > 26.7 ? INFINITY : 2.0 * shmt__exp_of_square(c) - y;
  return x < 0 ? left : y;
}
/* The area of the normal distribution beyond a >= 0. */
SHMT_VMATH double shmt__normal_tail(double a) {
  const double c = a > 40.0 ? 40.0 : a, square = c * c, lost = shmt__square_error(c, square);
  const double e = shmt__exp(-0.5 * square), t = c * 0.70710678118654757;
  return SHMT_MADD(e, -0.5 * lost, e) * (0.5 * shmt__erfcx_near(t > 27.3 ? 27.3 : t));
}
SHMT_VMATH double shmt__ndtr(double x) {
  const double tail = shmt__normal_tail(shmt__magnitude(x));
  return x < 0 ? tail : 1.0 - tail;
}
/* log(ndtr(x)), below -1 and above */
SHMT_VMATH double shmt__log_ndtr_left(double x) {
  return shmt__log(0.5 * shmt__erfcx_right(x * -0.70710678118654757)) - 0.5 * x * x;
}
SHMT_VMATH double shmt__log_ndtr_right(double x) {
  const double tail = shmt__normal_tail(shmt__magnitude(x));
  return shmt__log1p(x < 0 ? tail - 1.0 : -tail);
}

/* erfinv(y) for |y| <= 3/4 */
SHMT_VMATH double shmt__erfinv_middle(double y) {
  const double u = 0.5625 - y * y;
  const double p = POLY(u, 1.0845597967968248, 7.16092119970738, 18.039487150473605, 21.727106021614023,
                        12.832151510619887, 3.4086587826011505, 0.3173041719403967, 0.0046295178361994765);
  const double q = POLY(u, 1.0, 7.121354241112378, 19.707832007317467, 26.78300806716229, 18.607684554381905,
                        6.247619308964547, 0.8535064285470106, 0.030108495873496666);
  return y * (p / q);
}
/* The x with erfc(x) = exp(-s*s): `tail` for s from 1.17 to 4, `far` from there on. */
SHMT_VMATH double shmt__erfcinv_tail(double s) {
  const double u = s - 1.0;
  const double p = POLY(u, 0.6367161372194934, 3.142299681360006, 7.026135592660339, 9.399356069075754,
                        8.255116428761182, 4.863393920208178, 1.8704895002426736, 0.4304560957781501,
                        0.04866852601237884, 0.0016232106803974922, -2.7744085295803702e-05);
  const double q = POLY(u, 1.0, 3.3991318253507763, 5.625274332273865, 5.6654770189344275, 3.705047203162359,
                        1.5538413516889704, 0.3876288912545346, 0.04698925744053438, 0.00165000476954053,
                        -2.7728397623752137e-05, -1.7457824638578922e-10);
  return p / q;
}
SHMT_VMATH double shmt__erfcinv_far(double s) {
  const double u = s - 4.0;
  const double p = POLY(u, 3.7513593440414827, 5.903352265684125, 4.062842094456406, 1.6029145963589129,
                        0.3994002636778221, 0.06533470417694716, 0.007078372098744006, 0.0005018965926686893,
                        2.259649586464458e-05, 6.136921259069702e-07, 9.257896269704624e-09, 6.714922568591055e-11,
                        1.688682873397728e-13);
  const double q = POLY(u, 1.0, 1.298595735905096, 0.7269799023682156, 0.22867965491597986, 0.044235272158645055,
                        0.005426374738055759, 0.00042187408037710523, 2.0307005693037578e-05,
                        5.779166121582765e-07, 8.99261900839623e-09, 6.647389244452998e-11, 1.688681544829283e-13,
                        1.092921469146382e-22);
  return p / q;
}
/* The x beyond which the normal distribution has the area exp(-s*s): `tail` for s from 1.43 to 4, `far` from there
 * on. */
SHMT_VMATH double shmt__normal_quantile_tail(double s) {
  const double u = s - 1.0;
  const double p = POLY(u, 0.3374749637962789, 2.928824593890369, 6.446138726358218, 6.490609327039478,
                        3.600008116059971, 1.185690269760987, 0.22783766486464938, 0.0221701853341316,
                        0.0007625385003520009);
  const double q = POLY(u, 1.0, 2.8934922873758744, 3.348552238400345, 2.038072660488682, 0.719968267822564,
                        0.14740927021092434, 0.0151436839343039, 0.0005391198487617887, 7.70170458468482e-10);
  return p / q;
}
SHMT_VMATH double shmt__normal_quantile_far(double s) {
  const double u = s - 4.0;
  const double p = POLY(u, 5.177341220537704, 6.8542479416095405, 3.9090705626601268, 1.2635110929123914,
                        0.25537058786248124, 0.03347811356893434, 0.002852578423250633, 0.00015419007312826265,
                        5.028844520252775e-06, 9.100049547310639e-08, 7.890294540900748e-10,
                        2.3586013624704126e-12);
  const double q = POLY(u, 1.0, 1.0355146509020434, 0.4593045043944219, 0.11400463178971056, 0.017294565180475018,
                        0.0016408306760273893, 9.59600865903861e-05, 3.3090892259815536e-06, 6.214857447192545e-08,
                        5.51258579004055e-10, 1.6677812033023228e-12, 1.7278761338378613e-21);
  return p / q;
}

#endif
