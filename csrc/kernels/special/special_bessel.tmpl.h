/* kernels/special/special_bessel.tmpl.h -- Bessel functions and Airy's function. One dtype.
 *
 * They are computed in double, so that shorter types are exact to the last place. Arguments outside a function's domain
 * give NaN, poles give infinity.
 */
#include "kernels/simd/piecewise_double.h"
#include "kernels/special/special.h"
#include "kernels/simd/vmath_bessel.h"

#if SHMT_IS_DOUBLE
#define SPECIAL(NAME, ...) PIECEWISE_1(NAME, __VA_ARGS__)
#else
IN_DOUBLE_RUNNER
#define SPECIAL(NAME, ...) IN_DOUBLE_1(NAME)
#endif

#define SIZE      shmt__magnitude(a)
#define ROOT      __builtin_sqrt(SIZE)
#define GROWTH    shmt__exp(0.5 * SIZE) /* its square may overflow where the function does not */
#define DECAY     shmt__exp(-SIZE)
#define IS_NEAR   (SIZE <= 8)
#define IS_MIDDLE ((SIZE > 8) & (SIZE <= 20))
#define IS_FAR    (SIZE > 20)

/* --- modified Bessel functions ---------------------------------------------------------------- */

/* At infinity the result is exp(x) times a factor of 0: NaN, as in torch. */
SPECIAL(i0, OTHERWISE(a)
  PIECE(IS_NEAR, shmt__i0_near(a * a))
  PIECE(IS_MIDDLE, shmt__i0_middle(SIZE) / ROOT * GROWTH * GROWTH)
  PIECE(IS_FAR, shmt__i0_far(1.0 / SIZE) / ROOT * GROWTH * GROWTH))
SPECIAL(special_i1, OTHERWISE(a)
  PIECE(IS_NEAR, a * shmt__i1_near(a * a))
  PIECE(IS_MIDDLE, shmt__copysign(shmt__i1_middle(SIZE) / ROOT * GROWTH * GROWTH, a))
  PIECE(IS_FAR, shmt__copysign(shmt__i1_far(1.0 / SIZE) / ROOT * GROWTH * GROWTH, a)))
SPECIAL(special_i0e, OTHERWISE(a)
  PIECE(IS_NEAR, shmt__i0_near(a * a) * DECAY)
  PIECE(IS_MIDDLE, shmt__i0_middle(SIZE) / ROOT)
  PIECE(IS_FAR, shmt__i0_far(1.0 / SIZE) / ROOT))
SPECIAL(special_i1e, OTHERWISE(a)
  PIECE(IS_NEAR, a * shmt__i1_near(a * a) * DECAY)
  PIECE(IS_MIDDLE, shmt__copysign(shmt__i1_middle(SIZE) / ROOT, a))
  PIECE(IS_FAR, shmt__copysign(shmt__i1_far(1.0 / SIZE) / ROOT, a)))

#if !SHMT_IS_HALF /* as in torch */
SPECIAL(special_modified_bessel_k0, OTHERWISE(a == 0 ? INFINITY : NAN)
  PIECE((a > 0) & (a <= 1), shmt__k0_near(a))
  PIECE(a > 1, DECAY * (shmt__k0_far(1.0 / a) / ROOT)))
SPECIAL(special_modified_bessel_k1, OTHERWISE(a == 0 ? INFINITY : NAN)
  PIECE((a > 0) & (a <= 1), shmt__k1_near(a))
  PIECE(a > 1, DECAY * (shmt__k1_far(1.0 / a) / ROOT)))
SPECIAL(special_scaled_modified_bessel_k0, OTHERWISE(a == 0 ? INFINITY : NAN)
  PIECE((a > 0) & (a <= 1), shmt__exp(a) * shmt__k0_near(a))
  PIECE(a > 1, shmt__k0_far(1.0 / a) / ROOT))
SPECIAL(special_scaled_modified_bessel_k1, OTHERWISE(a == 0 ? INFINITY : NAN)
  PIECE((a > 0) & (a <= 1), shmt__exp(a) * shmt__k1_near(a))
  PIECE(a > 1, shmt__k1_far(1.0 / a) / ROOT))

/* --- Bessel functions, spherical and Airy's ------------------------------------------------------ */

#undef IS_FAR
#define IS_FAR  ((SIZE > 5) & (SIZE <= SHMT_TRIG_LIMIT))
#define IS_HUGE (SIZE > SHMT_TRIG_LIMIT)
SPECIAL(special_bessel_j0, OTHERWISE(a)
  PIECE(SIZE <= 5, shmt__j0_near(SIZE))
  PIECE(IS_FAR, shmt__j0_far(SIZE))
  EACH(IS_HUGE, shmt__bessel_j0(a)))
SPECIAL(special_bessel_j1, OTHERWISE(a)
  PIECE(SIZE <= 5, shmt__j1_near(a))
  PIECE(IS_FAR, shmt__j1_far(SIZE) * (a < 0 ? -1.0 : 1.0))
  EACH(IS_HUGE, shmt__bessel_j1(a)))
SPECIAL(special_bessel_y0, OTHERWISE(a == 0 ? -INFINITY : NAN)
  PIECE((a > 0) & (a <= 5), shmt__y0_near(a))
  PIECE(IS_FAR & (a > 0), shmt__y0_far(a))
  EACH(IS_HUGE & (a > 0), shmt__bessel_y0(a)))
SPECIAL(special_bessel_y1, OTHERWISE(a == 0 ? -INFINITY : NAN)
  PIECE((a > 0) & (a <= 5), shmt__y1_near(a))
  PIECE(IS_FAR & (a > 0), shmt__y1_far(a))
  EACH(IS_HUGE & (a > 0), shmt__bessel_y1(a)))
SPECIAL(special_spherical_bessel_j0, OTHERWISE(a != a ? a : a == 0 ? 1.0 : 0.0)
  PIECE((SIZE <= SHMT_TRIG_LIMIT) & (a != 0), shmt__sin(a) / a)
  EACH(IS_HUGE, shmt__spherical_j0(a)))
SPECIAL(special_airy_ai, OTHERWISE(NAN)
  PIECE((a > 1) & (a < INFINITY), shmt__airy_right(a))
  PIECE((a >= -1) & (a <= 1), shmt__airy_middle(a))
  PIECE((a >= -3) & (a < -1), shmt__airy_zero(a))
  PIECE((a >= -SHMT_AIRY_LIMIT) & (a < -3), shmt__airy_left(-a))
  EACH(a < -SHMT_AIRY_LIMIT, shmt__airy_ai(a)))
#endif

#undef SPECIAL
#undef SIZE
#undef ROOT
#undef GROWTH
#undef DECAY
#undef IS_NEAR
#undef IS_MIDDLE
#undef IS_FAR
#undef IS_HUGE
