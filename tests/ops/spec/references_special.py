"""References of elementary and special functions and of orthogonal polynomials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import integrate, special

Reference = Callable[..., Any]


def _logit(a: Any, eps: float | None = None) -> Any:
    return special.logit(a if eps is None else np.clip(a, eps, 1 - eps))


def _sigmoid(a: Any) -> Any:
    return 1 / (1 + np.exp(-a))


def _of_numbers(function: Reference) -> Reference:
    """*function* of float64 where the argument is bool, which NumPy would take for float16."""

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        array = np.asarray(a)
        return function(a if array.dtype.kind in "fc" else array.astype(float), *args, **kwargs)

    return call


ELEMENTARY: dict[str, Reference] = {
    "acos": np.arccos,
    "arccos": np.arccos,
    "acosh": np.arccosh,
    "arccosh": np.arccosh,
    "asin": np.arcsin,
    "arcsin": np.arcsin,
    "asinh": np.arcsinh,
    "arcsinh": np.arcsinh,
    "atan": np.arctan,
    "arctan": np.arctan,
    "atanh": np.arctanh,
    "arctanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg2rad": lambda a: a * (np.pi / 180),
    "rad2deg": lambda a: a * (180 / np.pi),
    "digamma": special.digamma,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "lgamma": special.gammaln,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logit": _logit,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sigmoid": _sigmoid,
    "sigmoid_backward": lambda grad, y: grad * np.conj(y * (1 - y)),
    "sin": np.sin,
    "sinc": np.sinc,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "tanh_backward": lambda grad, y: grad * np.conj(1 - y * y),
}


def _multigammaln(a: Any, p: int) -> Any:
    terms = sum(special.gammaln(a - j / 2) for j in range(p))
    return p * (p - 1) / 4 * np.log(np.pi) + terms


def _log_moment(density: Reference, mean_log: float, x: float) -> float:
    """The integral of (mean of log(t) - log(t)) density(t), up to x; the density is 1 at x."""
    value, _ = integrate.quad(
        lambda t: (mean_log - np.log(t)) * density(t), 0, x, epsabs=0, epsrel=1e-11, limit=200
    )
    return float(value)


@np.vectorize
def _gamma_slope(a: Any, x: Any) -> Any:
    """How the quantile of a gamma distribution that lies at x moves with the shape."""
    return _log_moment(lambda t: (t / x) ** (a - 1) * np.exp(x - t), special.psi(a), x)


@np.vectorize
def _beta_slope(x: Any, a: Any, total: Any) -> Any:
    """The same of a beta distribution, divided by 1 - x."""

    def density(t: Any) -> Any:
        return (t / x) ** (a - 1) * ((1 - t) / (1 - x)) ** (total - a - 1)

    return _log_moment(density, special.psi(a) - special.psi(total), x) / (1 - x)


SPECIAL: dict[str, Reference] = {
    "_dirichlet_grad": _beta_slope,
    "_standard_gamma_grad": _gamma_slope,
    "i0": special.i0,
    "igamma": special.gammainc,
    "igammac": special.gammaincc,
    "mvlgamma": _multigammaln,
    "polygamma": special.polygamma,
    "polygamma_": lambda a, n: special.polygamma(n, a),
    "special_airy_ai": lambda a: special.airy(a)[0],
    "special_bessel_j0": special.j0,
    "special_bessel_j1": special.j1,
    "special_bessel_y0": special.y0,
    "special_bessel_y1": special.y1,
    "special_digamma": special.digamma,
    "special_entr": special.entr,
    "special_erf": special.erf,
    "special_erfc": special.erfc,
    "special_erfcx": special.erfcx,
    "special_erfinv": special.erfinv,
    "special_exp2": np.exp2,
    "special_expit": _sigmoid,
    "special_expm1": np.expm1,
    "special_gammainc": special.gammainc,
    "special_gammaincc": special.gammaincc,
    "special_gammaln": special.gammaln,
    "special_i0": special.i0,
    "special_i0e": special.i0e,
    "special_i1": special.i1,
    "special_i1e": special.i1e,
    "special_log1p": np.log1p,
    "special_log_ndtr": special.log_ndtr,
    "special_logit": _logit,
    "special_modified_bessel_i0": special.i0,
    "special_modified_bessel_i1": special.i1,
    "special_modified_bessel_k0": special.k0,
    "special_modified_bessel_k1": special.k1,
    "special_multigammaln": _multigammaln,
    "special_ndtr": special.ndtr,
    "special_ndtri": special.ndtri,
    "special_polygamma": special.polygamma,
    "special_psi": special.digamma,
    "special_scaled_modified_bessel_k0": special.k0e,
    "special_scaled_modified_bessel_k1": special.k1e,
    "special_sinc": np.sinc,
    "special_spherical_bessel_j0": lambda a: special.spherical_jn(0, a),
    "special_zeta": special.zeta,
}


def _recurrence(first: Reference, step: Callable[[int, Any, Any, Any], Any]) -> Reference:
    """p(0) = 1, p(1) = first(x), p(k + 1) = step(k, x, p(k), p(k - 1))."""

    def one(x: float, n: int) -> float:
        before, now = 1.0, first(x)
        if n == 0:
            return before
        for k in range(1, n):
            before, now = now, step(k, x, now, before)
        return now

    return np.vectorize(lambda x, n: one(float(x), int(n)), otypes=[np.float64])


def _chebyshev(k: int, x: float, now: float, before: float) -> float:
    return 2 * x * now - before


POLYNOMIALS: dict[str, Reference] = {
    "chebyshev_polynomial_t": _recurrence(lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": _recurrence(lambda x: 2 * x, _chebyshev),
    "chebyshev_polynomial_v": _recurrence(lambda x: 2 * x - 1, _chebyshev),
    "chebyshev_polynomial_w": _recurrence(lambda x: 2 * x + 1, _chebyshev),
    "hermite_polynomial_h": _recurrence(
        lambda x: 2 * x, lambda k, x, now, before: 2 * x * now - 2 * k * before
    ),
    "hermite_polynomial_he": _recurrence(
        lambda x: x, lambda k, x, now, before: x * now - k * before
    ),
    "laguerre_polynomial_l": _recurrence(
        lambda x: 1 - x,
        lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
    ),
    "legendre_polynomial_p": _recurrence(
        lambda x: x, lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1)
    ),
}


def _shifted(function: Reference) -> Reference:
    return lambda x, n: function(2 * np.asarray(x, np.float64) - 1, n)


REFERENCES = {
    **{name: _of_numbers(function) for name, function in {**ELEMENTARY, **SPECIAL}.items()},
    **{f"special_{name}": function for name, function in POLYNOMIALS.items()},
    **{
        f"special_shifted_chebyshev_polynomial_{kind}": _shifted(
            POLYNOMIALS[f"chebyshev_polynomial_{kind}"]
        )
        for kind in "tuvw"
    },
}
