/* kernels/special/special.tmpl.h -- special functions computed one element at a time (kernels/special/special.h). One
 * dtype.
 *
 * All are computed in double: float results are exact to the last place, and rare functions need no second
 * implementation.
 */
#include "kernels/loops.h"
#include "kernels/special/special.h"

#define X ((double)a)
#define Y ((double)b)

/* ctx: the order. */
UNARY_WITH(polygamma, const int64_t order = shmt__ctx_int(ctx, 0),
           (C)shmt__polygamma(order, X))
BINARY(special_xlog1py, (C)(Y != Y ? Y : X == 0 ? 0 : X * log1p(Y)))

#if !SHMT_IS_HALF /* as in torch */
/* The degree above which Hermite polynomials are NaN, because the recurrence overflows, as in torch. */
#define HERMITE_LIMIT (sizeof(C) == 4 ? 128 : 512)
BINARY(special_chebyshev_polynomial_t, (C)shmt__chebyshev_t(X, Y))
BINARY(special_chebyshev_polynomial_u, (C)shmt__chebyshev_u(X, Y))
BINARY(special_chebyshev_polynomial_v, (C)shmt__chebyshev_v(X, Y))
BINARY(special_chebyshev_polynomial_w, (C)shmt__chebyshev_w(X, Y))
BINARY(special_shifted_chebyshev_polynomial_t, (C)shmt__chebyshev_t(2 * X - 1, Y))
BINARY(special_shifted_chebyshev_polynomial_u, (C)shmt__chebyshev_u(2 * X - 1, Y))
BINARY(special_shifted_chebyshev_polynomial_v, (C)shmt__chebyshev_v(2 * X - 1, Y))
BINARY(special_shifted_chebyshev_polynomial_w, (C)shmt__chebyshev_w(2 * X - 1, Y))
BINARY(special_hermite_polynomial_h, (C)shmt__hermite_h(X, Y, HERMITE_LIMIT))
BINARY(special_hermite_polynomial_he, (C)shmt__hermite_he(X, Y, HERMITE_LIMIT))
BINARY(special_laguerre_polynomial_l, (C)shmt__laguerre_l(X, Y))
BINARY(special_legendre_polynomial_p, (C)shmt__legendre_p(X, Y))
#undef HERMITE_LIMIT
#endif
#undef X
#undef Y
