/* kernels/special/special_normal.tmpl.h -- erfinv, erfcx, ndtr, log_ndtr, ndtri, entr. One dtype.
 *
 * They are computed in double, so that shorter types are exact to the last place, except erfinv, which has a float
 * version.
 */
#include "kernels/simd/piecewise_double.h"
#include "kernels/simd/vmath_normal.h"
#include "kernels/simd/avx512/erf_tanh.h"

#if SHMT_IS_DOUBLE
#define SPECIAL(NAME, ...) PIECEWISE_1(NAME, __VA_ARGS__)
#else
IN_DOUBLE_RUNNER
#define SPECIAL(NAME, ...) IN_DOUBLE_1(NAME)
#endif

SPECIAL(special_ndtr, OTHERWISE(shmt__ndtr(a)))
#if !SHMT_IS_HALF /* as in torch */
SPECIAL(special_erfcx, OTHERWISE(shmt__erfcx(a)))
SPECIAL(special_log_ndtr, OTHERWISE(a)
  PIECE(a < -1, shmt__log_ndtr_left(a))
  PIECE(a >= -1, shmt__log_ndtr_right(a)))
#endif

/* exp(-16), where sqrt(-log(x)) is 4. */
#define FAR  1.1253517471925912e-07
#define LOW  (a < 0.5 ? a : 1.0 - a)
#define SIDE (a < 0.5 ? -1.0 : 1.0)
#define ROOT __builtin_sqrt(-shmt__log(LOW))
#if !SHMT_IS_HALF
SPECIAL(special_ndtri, OTHERWISE(a == 0 ? -INFINITY : a == 1 ? INFINITY : NAN)
  PIECE((a >= 0.125) & (a <= 0.875), shmt__erfinv_middle(2.0 * a - 1.0) * 1.4142135623730951)
  PIECE((LOW < 0.125) & (LOW >= FAR), SIDE * shmt__normal_quantile_tail(ROOT))
  PIECE((LOW < FAR) & (LOW > 0), SIDE * shmt__normal_quantile_far(ROOT)))
#endif
#undef LOW
#undef SIDE

#if SHMT_IS_DOUBLE
#define LOW  (1.0 - shmt__magnitude(a))
PIECEWISE_1(erfinv, OTHERWISE(a == 1 ? INFINITY : a == -1 ? -INFINITY : NAN)
  PIECE(LOW >= 0.25, shmt__erfinv_middle(a))
  PIECE((LOW < 0.25) & (LOW >= FAR), shmt__copysign(shmt__erfcinv_tail(ROOT), a))
  PIECE((LOW < FAR) & (LOW > 0), shmt__copysign(shmt__erfcinv_far(ROOT), a)))
#undef LOW
#elif SHMT_HAS_AVX512
UNARY_AVX512(erfinv, shmt__avx512_erfinvf)
#else
UNARY_COSTLY(erfinv, shmt__erfinvf(a))
#endif
#undef FAR
#undef ROOT

SPECIAL(special_entr, OTHERWISE(a != a ? a : a == 0 ? 0.0 : -INFINITY)
  PIECE(a > 0, -a * shmt__log(a)))
#undef SPECIAL
