/* kernels/special/special_gamma.tmpl.h -- incomplete gamma functions and Hurwitz' zeta function. One dtype.
 *
 * They are computed in double, so that shorter types are exact to the last place. A block's pairs of arguments are
 * grouped by the method that suits them (gamma_lockstep.h); special_gamma.c computes the others, one at a time.
 */
#include "kernels/simd/piecewise_double.h"
#include "kernels/special/special.h"

#if SHMT_IS_DOUBLE
#include "kernels/special/gamma_lockstep.h"

/* Gathers the pairs for which WHERE holds, pads them to whole groups, runs METHOD, and scatters EXPR of its results
 * c. */
#define GATHERED(WHERE, METHOD, EXPR)                                                                            \
  {                                                                                                              \
    double as[SHMT_LOOP_BLOCK + SHMT_GROUP], bs[SHMT_LOOP_BLOCK + SHMT_GROUP], cs[SHMT_LOOP_BLOCK + SHMT_GROUP]; \
    int16_t at[SHMT_LOOP_BLOCK];                                                                                 \
    int64_t n_found = 0, used = 0;                                                                               \
    for (int64_t i = 0; i < width; i++) {                                                                        \
      const double a = x[i], b = z[i];                                                                           \
      used |= (WHERE) ? 1 : 0;                                                                                   \
    }                                                                                                            \
    for (int64_t i = 0; used && i < width; i++) {                                                                \
      const double a = x[i], b = z[i];                                                                           \
      as[n_found] = a;                                                                                           \
      bs[n_found] = b;                                                                                           \
      at[n_found] = (int16_t)i;                                                                                  \
      n_found += (WHERE) ? 1 : 0;                                                                                \
    }                                                                                                            \
    const int64_t n_whole = (n_found + SHMT_GROUP - 1) / SHMT_GROUP * SHMT_GROUP;                                \
    for (int64_t i = n_found; n_found && i < n_whole; i++) as[i] = as[0], bs[i] = bs[0];                         \
    if (n_found) METHOD(cs, as, bs, n_whole);                                                                    \
    for (int64_t i = 0; i < n_found; i++) {                                                                      \
      const double c = cs[i];                                                                                    \
      y[at[i]] = EXPR;                                                                                           \
    }                                                                                                            \
  }

/* Neither argument is at a limit, and the uniform expansion is not needed. */
#define IS_COMMON ((a > 0) & (b > 0) & (a <= 1e6) & (b < INFINITY) & !((a > 1e4) & (b < a * 1e-3)))
#define IS_UPPER  (b > a + 1)
/* The series, whose terms are positive and few, serves also above a + 1, up to 12. */
#define IS_BEYOND (IS_UPPER & (b > 12))
PIECEWISE_2(igamma, GATHERED(IS_COMMON & !IS_BEYOND, shmt__lower_series, c)
  GATHERED(IS_COMMON & IS_BEYOND, shmt__upper_fraction, 1.0 - c)
  EACH(!IS_COMMON, shmt__gammainc(a, b)))
#define IS_SMALL ((a < 0.5) & (b < 1.5))
PIECEWISE_2(igammac, GATHERED(IS_COMMON & IS_SMALL, shmt__upper_series, c)
  GATHERED(IS_COMMON & !IS_SMALL & !IS_UPPER, shmt__lower_series, 1.0 - c)
  GATHERED(IS_COMMON & !IS_SMALL & IS_UPPER, shmt__upper_fraction, c)
  EACH(!IS_COMMON, shmt__gammaincc(a, b)))
#undef IS_SMALL
#undef IS_BEYOND
#undef IS_UPPER
#undef IS_COMMON

#define IS_COMMON ((a > 1) & (a <= 1e6) & (b >= 1e-300) & (b < 1e300))
#define IS_NUMBER ((a > 1) & (b == b) & !IS_COMMON)
PIECEWISE_2(special_zeta, OTHERWISE(b != b ? b : a == 1 ? INFINITY : NAN)
  GATHERED(IS_COMMON, shmt__zeta_sum, c)
  EACH(IS_NUMBER, shmt__zeta(a, b)))
#undef IS_NUMBER
#undef IS_COMMON
#undef GATHERED
#else
IN_DOUBLE_RUNNER
IN_DOUBLE_2(igamma)
IN_DOUBLE_2(igammac)
#if !SHMT_IS_HALF /* as in torch */
IN_DOUBLE_2(special_zeta)
#endif
#endif
