"""Operators of one element at a time: ranges of their values where the whole line is no good."""

from __future__ import annotations

from ops.spec.arguments import DTYPE, Case, T, case, fixed, mask, pos, t, unit

#: Ranges of the tensors of operators, by name without overload.
RANGES: dict[str, T] = {
    **dict.fromkeys(
        ("acos", "arccos", "asin", "arcsin", "atanh", "arctanh"), t(3, 4, low=-0.9, high=0.9)
    ),
    **dict.fromkeys(("erfinv", "special_erfinv"), t(3, 4, low=-0.9, high=0.9)),
    **dict.fromkeys(("logit", "special_logit", "special_ndtri"), unit(3, 4)),
    **dict.fromkeys(("acosh", "arccosh"), t(3, 4, low=1.2, high=4)),
    **dict.fromkeys(
        (
            "log",
            "log2",
            "log10",
            "sqrt",
            "rsqrt",
            "digamma",
            "lgamma",
            "special_digamma",
            "special_gammaln",
            "special_psi",
            "special_entr",
            "log1p",
            "special_log1p",
            "polygamma",
            "special_polygamma",
            "polygamma_",
            "special_bessel_y0",
            "special_bessel_y1",
            "special_modified_bessel_k0",
            "special_modified_bessel_k1",
            "special_scaled_modified_bessel_k0",
            "special_scaled_modified_bessel_k1",
            "igamma",
            "igammac",
            "special_gammainc",
            "special_gammaincc",
            "pow",
            "float_power",
            "float_power_",
            "_div_trunc",
            "div",
            "floor_divide",
            "fmod",
            "remainder",
            "true_divide",
            "divide",
            "div_",
            "floor_divide_",
            "fmod_",
            "remainder_",
            "addcdiv",
            "reciprocal",
            "_pow_backward",
            "_pow_backward_self",
            "_pow_backward_exponent",
            "_div_mode_other_backward",
            "_div_mode_self_backward",
            "_div_conj",
        ),
        pos(3, 4),
    ),
    **dict.fromkeys(("xlogy", "xlogy_", "special_xlogy", "special_xlog1py"), pos(3, 4)),
    **dict.fromkeys(("special_zeta",), t(3, 4, low=1.5, high=4)),
    **dict.fromkeys(("mvlgamma", "special_multigammaln"), t(3, 4, low=2.5, high=6)),
    **dict.fromkeys(("binary_cross_entropy",), unit(3, 4)),
    **dict.fromkeys(
        (
            "lshift",
            "__lshift__",
            "__rshift__",
            "__ilshift__",
            "__irshift__",
            "bitwise_left_shift",
            "bitwise_right_shift",
            "bitwise_left_shift_",
            "bitwise_right_shift_",
        ),
        t(3, 4, low=0, high=3),
    ),
    **dict.fromkeys(("tan", "tanh_backward", "sigmoid_backward"), t(3, 4, low=-1.2, high=1.2)),
}

_x = t(3, 4)
_degree = T((3, 4), 0, 4)
_polynomial = [case(t(3, 4, low=-0.9, high=0.9), _degree)]
_names = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
    "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w"
).split()


def _pointwise(*cases: Case) -> list[Case]:
    return [Case(c.args, c.kwargs, pointwise=True) for c in cases]


CASES: dict[str, list[Case]] = {
    **{
        f"special_{n}": _pointwise(case(t(3, 4, low=0.1, high=0.9), T((3, 4), 3, 3, "real")))
        for n in _names
    },
    **{f"special_{n}.n_scalar": [case(t(3, 4, low=0.1, high=0.9), 3)] for n in _names},
    **{f"special_{n}.x_scalar": [case(0.5, T((3, 4), 3, 3))] for n in _names},
    "_elu_double_backward": [case(_x, _x, _x, 1.5, 1.0, 1.0)],
    "_gelu_double_backward": [case(_x, _x, _x, "none"), case(_x, _x, _x, "tanh")],
    "_logit_backward": [case(_x, unit(3, 4), 0.2), case(_x, unit(3, 4), None)],
    "_softplus_double_backward": [case(_x, _x, _x, 1.0, 20.0)],
    "add.Tensor": _pointwise(case(_x, _x), case(_x, _x, alpha=2)),
    "celu": [case(_x), case(_x, 1.5)],
    "clamp": [case(_x, -1, 1), case(_x, None, 1), case(_x, 0)],
    "clamp.Tensor": _pointwise(
        case(_x, t(3, 4, low=-3, high=0), t(3, 4, low=0)), case(_x, None, _x)
    ),
    "clamp.Tensor_out": _pointwise(case(_x, t(3, 4, low=-3, high=0), t(3, 4, low=0))),
    "clip": [case(_x, -1, 1), case(_x, None, 1)],
    "clip.Tensor": _pointwise(case(_x, t(3, 4, low=-3, high=0), t(3, 4, low=0))),
    "_clamp_backward": [case(_x, _x, -1, 1), case(_x, _x, None, 1), case(_x, _x, -1, None)],
    "_clamp_max_backward": [case(_x, _x, _x, _x), case(_x, _x, None, _x)],
    "_clamp_min_backward": [case(_x, _x, _x, _x), case(_x, _x, _x, None)],
    "_clamp_self_backward": [case(_x, _x, _x, _x), case(_x, _x, None, _x), case(_x, _x, _x, None)],
    "div.Scalar_mode": [case(pos(3, 4), 2, rounding_mode=m) for m in (None, "trunc", "floor")],
    "div.Tensor_mode": _pointwise(
        *(case(pos(3, 4), pos(3, 4), rounding_mode=m) for m in (None, "trunc", "floor"))
    ),
    "divide.Tensor_mode": _pointwise(case(pos(3, 4), pos(3, 4), rounding_mode="floor")),
    "_dirichlet_grad": _pointwise(case(unit(3, 4), pos(3, 4), T((3, 4), 3.5, 6.0))),
    "_standard_gamma_grad": _pointwise(case(pos(3, 4), pos(3, 4))),
    "_div_mode_other_backward": [case(_x, _x, pos(3, 4), None)],
    "_div_mode_self_backward": [case(_x, pos(3, 4), None)],
    "elu": [case(_x), case(_x, 1.5, 2.0, 0.5)],
    "elu_backward": [case(_x, _x, 1.5, 1.0, 1.0)],
    "float_power.Tensor_Tensor": _pointwise(case(pos(3, 4), _x)),
    "gelu": [case(_x), case(_x, approximate="tanh")],
    "gelu_backward": [case(_x, _x), case(_x, _x, approximate="tanh")],
    "glu": [case(_x), case(t(4, 3), 0), case(t(2, 6, 2), 1), case(t(0, 4)), case(t(4, 0))],
    "glu_backward": [case(t(3, 2), _x, -1), case(t(2, 3), t(4, 3), 0)],
    "hardtanh": [case(_x, 0, 2), case(_x, 1, 2)],
    "hardtanh_backward": [case(_x, _x, -1, 1)],
    "igamma": _pointwise(case(pos(3, 4), T((3, 4), 0.5, 2.5))),
    "isclose": _pointwise(case(_x, _x), case(_x, _x, 1e30, 0.0, True)),
    "ldexp.Tensor": _pointwise(case(_x, t(3, 4, low=-2, high=3))),
    "lerp.Tensor": _pointwise(case(_x, _x, unit(3, 4))),
    "lerp.Scalar": _pointwise(case(_x, _x, 0.25)),
    "log_sigmoid": [case(_x), case(t())],
    "logit": [case(unit(3, 4)), case(t(3, 4), 0.2)],
    "masked_fill.Scalar": _pointwise(case(_x, mask(3, 4), 2)),
    "masked_fill.Tensor": [case(_x, mask(3, 4), t())],
    "mvlgamma": [case(t(3, 4, low=2.5, high=6), 2)],
    "special_multigammaln": [case(t(3, 4, low=2.5, high=6), 2)],
    "nan_to_num": [case(_x, 1.0, 2.0, -2.0)]
    + [case(fixed([[x, 1.0]])) for x in (float("nan"), float("inf"), -float("inf"))],
    "polygamma": [case(n, pos(3, 4)) for n in (0, 1, 2, 3)],
    "special_polygamma": [case(2, pos(3, 4))],
    "polygamma_": [case(pos(3, 4), 2)],
    "pow.Tensor_Scalar": [case(pos(3, 4), p) for p in (0, 1, 2, 3, 0.5, -1, 2.5)],
    "pow.Tensor_Tensor": _pointwise(case(pos(3, 4), T((3, 4), 0, 2))),
    "prelu": [case(_x, t(4)), case(_x, t()), case(t(5), t(1)), case(t(2, 3, 4), t(3))],
    "round.decimals": [case(_x, decimals=1), case(_x, decimals=-1)],
    "special_round": [case(_x), case(_x, decimals=1)],
    "rsub.Tensor": _pointwise(case(_x, _x), case(_x, _x, alpha=2)),
    "_binary_cross_entropy_derivative": _pointwise(case(unit(3, 4), _x)),
    "_huber_derivative": _pointwise(case(_x, t(), 0.5)),
    "_smooth_l1_derivative": _pointwise(case(_x, t(), 0.5)),
    "softplus": [case(_x), case(_x, 2.0, 1.0)],
    "softplus_backward": [case(_x, _x, 1.0, 20.0)],
    "special_zeta": _pointwise(case(t(3, 4, low=1.5, high=4), pos(3, 4))),
    "special_zeta.self_scalar": [case(2.5, pos(3, 4))],
    "sub.Tensor": _pointwise(case(_x, _x), case(_x, _x, alpha=2)),
    "where": [case(mask(3, 4))],
    "where.Scalar": [case(mask(3, 4), 1, 2.5)],
    "where.ScalarOther": [case(mask(3, 4), _x, 2)],
    "where.ScalarSelf": [case(mask(3, 4), 2, _x)],
    "where.self": _pointwise(case(mask(3, 4), _x, _x)),
    "_to_copy": [case(_x), case(_x, dtype=DTYPE)],
    "is_complex": [case(_x)],
}
