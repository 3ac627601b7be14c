/* kernels/special.tmpl.h -- special functions (kernels/special.h), one dtype.
 *
 * All are calculated in double: a float result is right to its last place, and rare functions need
 * no second implementation.
 */
#include "kernels/loops.h"
#include "kernels/special.h"

#define X ((double)a)
#define Y ((double)b)

UNARY(i0, (C)shmt__bessel_i0(X))
UNARY(special_i0e, (C)shmt__bessel_i0e(X))
UNARY(special_i1, (C)shmt__bessel_i1(X))
UNARY(special_i1e, (C)shmt__bessel_i1e(X))
UNARY(special_bessel_j0, (C)shmt__bessel_j0(X))
UNARY(special_bessel_j1, (C)shmt__bessel_j1(X))
UNARY(special_bessel_y0, (C)shmt__bessel_y0(X))
UNARY(special_bessel_y1, (C)shmt__bessel_y1(X))
UNARY(special_modified_bessel_i0, (C)shmt__bessel_i0(X))
UNARY(special_modified_bessel_i1, (C)shmt__bessel_i1(X))
UNARY(special_modified_bessel_k0, (C)shmt__bessel_k0(X))
UNARY(special_modified_bessel_k1, (C)shmt__bessel_k1(X))
UNARY(special_scaled_modified_bessel_k0, (C)shmt__bessel_k0e(X))
UNARY(special_scaled_modified_bessel_k1, (C)shmt__bessel_k1e(X))
UNARY(special_spherical_bessel_j0, (C)shmt__spherical_j0(X))
UNARY(special_airy_ai, (C)shmt__airy_ai(X))

UNARY(special_entr, (C)(X > 0 ? -X * log(X) : X == 0 ? 0 : X != X ? X : -INFINITY))
UNARY(special_erfcx, (C)shmt__erfcx(X))
UNARY(special_ndtr, (C)shmt__ndtr(X))
UNARY(special_log_ndtr, (C)shmt__log_ndtr(X))
UNARY(special_ndtri, (C)shmt__ndtri(X))

/* ctx: the order. */
UNARY_WITH(polygamma, const int64_t order = shmt__number_int(ctx, 0),
           (C)shmt__polygamma(order, X))
BINARY(igamma, (C)shmt__gammainc(X, Y))
BINARY(igammac, (C)shmt__gammaincc(X, Y))
BINARY(special_zeta, (C)shmt__zeta(X, Y))
BINARY(special_xlog1py, (C)(Y != Y ? Y : X == 0 ? 0 : X * log1p(Y)))

/* Degrees at which the recurrence of Hermite polynomials overflows, as in torch. */
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
#undef X
#undef Y
