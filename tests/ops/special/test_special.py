"""Special functions against values with 30 digits; limits, derivatives, degrees of polynomials.

Promotion, layouts and out= are those of all element-wise operators: test_binary, test_unary.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

import shmtensor as st
from shmtensor._boundary import runtime

#: Values by mpmath.
UNARY: dict[str, list[tuple[float, float]]] = {
    "i0": [
        (-3.0, 4.8807925858650245),
        (0.0, 1.0),
        (0.5, 1.0634833707413236),
        (25.0, 5774560606.4663105),
    ],
    "i0e": [
        (-3.0, 0.2430003541618254),
        (0.0, 1.0),
        (0.5, 0.6450352704491501),
        (700.0, 0.015081295651531358),
    ],
    "i1": [
        (-3.0, -3.9533702174026093),
        (0.0, 0.0),
        (0.5, 0.2578943053908963),
        (25.0, 5657865129.878701),
    ],
    "i1e": [
        (-3.0, -0.19682671329730086),
        (0.0, 0.0),
        (0.5, 0.1564208031848717),
        (700.0, 0.015070519444716848),
    ],
    "bessel_j0": [
        (-3.0, -0.26005195490193345),
        (0.0, 1.0),
        (0.5, 0.9384698072408129),
        (25.0, 0.09626678327595811),
    ],
    "bessel_j1": [
        (-3.0, -0.3390589585259365),
        (0.0, 0.0),
        (0.5, 0.2422684576748739),
        (25.0, -0.1253502495802899),
    ],
    "bessel_y0": [
        (0.5, -0.44451873350670656),
        (3.0, 0.3768500100127904),
        (25.0, -0.12724943226800614),
    ],
    "bessel_y1": [(0.5, -1.471472392670243), (3.0, 0.3246744247918), (25.0, -0.09882996478323741)],
    "modified_bessel_k0": [
        (1e-05, 11.628856980944363),
        (0.5, 0.9244190712276659),
        (3.0, 0.03473950438627925),
        (25.0, 3.4641615622131143e-12),
    ],
    "modified_bessel_k1": [
        (1e-05, 99999.99993935571),
        (0.5, 1.656441120003301),
        (3.0, 0.040156431128194184),
        (25.0, 3.5327780731999337e-12),
    ],
    "scaled_modified_bessel_k0": [
        (1e-05, 11.628973270095617),
        (0.5, 1.5241093857739094),
        (3.0, 0.6977615980438517),
        (1000.0, 0.03962832160075422),
    ],
    "scaled_modified_bessel_k1": [
        (1e-05, 100000.99994435512),
        (0.5, 2.731009708211786),
        (3.0, 0.8065634801287869),
        (1000.0, 0.03964813081296021),
    ],
    "airy_ai": [
        (-20.0, -0.1764061270779847),
        (-10.0, 0.04024123848644319),
        (-6.3, -0.33734764921613514),
        (-0.5, 0.4757280916105396),
        (0.0, 0.3550280538878172),
        (0.7, 0.18916240039815008),
        (1.5, 0.07174949700810541),
        (20.0, 1.6916728686705404e-27),
    ],
    "spherical_bessel_j0": [
        (-2.5, 0.2393888576415826),
        (0.001, 0.9999998333333416),
        (9.0, 0.04579094280463962),
    ],
    "erfcx": [
        (-2.0, 108.94090438997797),
        (0.0, 1.0),
        (3.0, 0.17900115118138996),
        (19.5, 0.028894903811938218),
        (10000.0, 5.641895807268084e-05),
    ],
    "ndtr": [
        (-9.0, 1.1285884059538405e-19),
        (-1.0, 0.15865525393145705),
        (0.3, 0.6179114221889527),
        (4.0, 0.9999683287581669),
    ],
    "log_ndtr": [
        (-30.0, -454.3212439563432),
        (-1.0, -1.8410216450092636),
        (0.3, -0.4814101615884812),
    ],
    "ndtri": [
        (1e-12, -7.034483825301132),
        (0.1, -1.2815515655446004),
        (0.4, -0.2533471031357997),
        (0.9, 1.2815515655446006),
    ],
    "entr": [(0.0, 0.0), (0.3, 0.3611918412977808), (2.0, -1.3862943611198906)],
    "digamma": [
        (-2.3, 3.3173231575618227),
        (0.1, -10.423754940411076),
        (1.0, -0.5772156649015329),
        (30.0, 3.384438132685525),
    ],
    "gammaln": [(0.1, 2.252712651734206), (3.5, 1.2009736023470743), (100.0, 359.1342053695754)],
}
BINARY: dict[str, list[tuple[float, float, float]]] = {
    "gammainc": [
        (0.5, 0.2, 0.4729107431344619),
        (3.0, 2.0, 0.32332358381693654),
        (3.0, 9.0, 0.9937678048936227),
        (100.0, 95.0, 0.3173568111698),
        (2500.0, 2600.0, 0.9761810019792594),
    ],
    "gammaincc": [
        (1e-06, 0.1, 1.8229230253500977e-06),
        (0.5, 0.2, 0.5270892568655381),
        (3.0, 2.0, 0.6766764161830635),
        (3.0, 9.0, 0.006232195106377317),
        (100.0, 130.0, 0.002750408367306526),
        (2500.0, 2600.0, 0.023818998020740653),
    ],
    "zeta": [
        (2.0, 1.0, 1.6449340668482264),
        (3.5, 0.2, 280.13196083873333),
        (1.01, 4.0, 98.7517057560542),
        (30.0, 2.0, 9.313274324196682e-10),
    ],
    "xlog1py": [(2.0, 1e-09, 1.999999999e-09), (-1.0, 3.0, -1.3862943611198906)],
    "chebyshev_polynomial_t": [
        (0.3, 5.0, 0.99888),
        (0.3, 40.0, 0.9291591886517991),
        (1.2, 7.0, 38.999731199999985),
        (-1.2, 7.0, -38.999731199999985),
    ],
    "chebyshev_polynomial_u": [
        (0.3, 5.0, 1.01376),
        (0.3, 40.0, 1.0454181275398593),
        (1.2, 7.0, 109.52970239999995),
        (-1.0, 7.0, -8.0),
    ],
    "hermite_polynomial_h": [(0.3, 5.0, 31.757759999999998), (2.5, 6.0, 1255.0), (-1.0, 0.0, 1.0)],
    "hermite_polynomial_he": [(0.3, 5.0, 4.23243), (2.5, 6.0, -75.546875), (-1.0, 0.0, 1.0)],
    "laguerre_polynomial_l": [
        (0.3, 5.0, -0.09333274999999998),
        (2.5, 6.0, 0.6620008680555556),
        (-1.0, 0.0, 1.0),
    ],
    "legendre_polynomial_p": [
        (0.3, 5.0, 0.34538625),
        (0.9, 20.0, -0.14930823530984846),
        (2.5, 6.0, 2796.4404296875),
        (-1.0, 3.0, -1.0),
    ],
    "chebyshev_polynomial_v": [(0.3, 5.0, 0.9641599999999999), (0.3, 40.0, 0.6578883312463252)],
    "chebyshev_polynomial_w": [(0.3, 5.0, 1.06336), (0.3, 40.0, 1.4329479238333935)],
}
POLYGAMMA = [
    (1, 0.3, 12.245364546107732),
    (1, -2.3, 14.725912160961292),
    (2, 5.0, -0.048789732245114494),
    (3, -0.7, 768.1313523268526),
    (10, 0.5, -7431824508.858769),
    (40, 20.0, -4.301466908235026e-06),
]

GRADIENTS: list[tuple[Any, list[float]]] = [
    (st.i0, [-2.0, 0.5, 0.0]),
    (st.special.i0e, [-2.0, 0.5]),
    (st.special.i1, [-2.0, 0.5]),
    (st.special.i1e, [-2.0, 0.5]),
    (st.special.entr, [0.2, 3.0]),
    (st.special.erfcx, [-0.7, 2.0]),
    (st.special.ndtr, [-0.7, 2.0]),
    (st.special.log_ndtr, [-5.0, 2.0]),
    (st.special.ndtri, [0.01, 0.6]),
    (st.digamma, [-0.3, 2.0]),
    (lambda x: st.polygamma(2, x), [0.7, 2.0]),
    (lambda x: st.mvlgamma(x, 3), [1.7, 4.0]),
    (lambda x: st.special.zeta(3.0, x), [0.7, 2.0]),
    (lambda x: st.special.xlog1py(x, x), [0.7, 2.0]),
    (lambda x: st.igamma(st.tensor(2.5, dtype=st.float64), x), [0.7, 2.0]),
    (lambda x: st.igammac(st.tensor(2.5, dtype=st.float64), x), [0.7, 2.0]),
    (lambda x: st.frexp(x)[0], [0.7, 3.0]),
    (lambda x: st.float_power(x, 2.5), [0.7, 3.0]),
    (lambda x: st.ldexp(x, st.tensor([1, 2])), [0.7, 3.0]),
]


def _double(values: list[float]) -> Any:
    return st.tensor(values, dtype=st.float64)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_function_of_one_number_has_known_values(name: str) -> None:
    x, want = (list(column) for column in zip(*UNARY[name], strict=True))
    function = getattr(st.special, name)
    assert function(_double(x)).tolist() == pytest.approx(want, rel=2e-14, abs=0)
    assert function(st.tensor(x)).tolist() == pytest.approx(want, rel=3e-6, abs=0)


#: Where functions go over from one formula to the next.
BORDERS = {
    "i0": [8.0, 20.0],
    "i0e": [-20.0, -8.0, 8.0, 20.0],
    "i1": [-8.0, 8.0, 20.0],
    "i1e": [-20.0, -8.0, 8.0, 20.0],
    "modified_bessel_k0": [1.0],
    "modified_bessel_k1": [1.0],
    "scaled_modified_bessel_k0": [1.0],
    "scaled_modified_bessel_k1": [1.0],
    "bessel_j0": [-5.0, 5.0, 1048576.0],
    "bessel_j1": [-5.0, 5.0, 1048576.0],
    "bessel_y0": [5.0, 1048576.0],
    "bessel_y1": [5.0, 1048576.0],
    "airy_ai": [-3.0, -1.0, 1.0],
    "spherical_bessel_j0": [1048576.0],
    "erfcx": [27.3],
    "log_ndtr": [-1.0],
    "ndtri": [math.exp(-16), 0.125, 0.875],
    "erfinv": [-0.75, 0.75],
}


@pytest.mark.parametrize("name", sorted(BORDERS))
def test_formulas_meet_at_their_borders(name: str) -> None:
    at = BORDERS[name]
    sides = [_double([math.nextafter(x, to) for x in at]) for to in (-math.inf, math.inf)]
    left, right = (getattr(st.special, name)(side) for side in sides)
    assert left.tolist() == pytest.approx(right.tolist(), rel=1e-13, abs=1e-12)


@pytest.mark.parametrize("name", sorted(BORDERS))
def test_neighbours_do_not_matter(name: str) -> None:
    x = st.linspace(-30, 30, 601, dtype=st.float64)
    x = st.cat([x, _double([math.nan, math.inf, -math.inf, 0.0, 0.3, -0.7, 1e-12, 1e7])])
    function = getattr(st.special, name)
    each = st.stack([function(one) for one in x])
    assert st.equal(function(x).nan_to_num(nan=-3.5), each.nan_to_num(nan=-3.5))
    back = function(st.flip(x, [0])).flip(0)
    assert st.equal(back.nan_to_num(nan=-3.5), each.nan_to_num(nan=-3.5))


@pytest.mark.check
@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
def test_pairs_that_are_calculated_together_are_as_alone(name: str) -> None:
    a, x = st.meshgrid(
        st.logspace(-3, 2.5, 23, dtype=st.float64),
        st.logspace(-3, 2.5, 19, dtype=st.float64),
        indexing="ij",
    )
    function = getattr(st.special, name)
    together = function(a, x).flatten()
    alone = [function(*pair).item() for pair in zip(a.flatten(), x.flatten(), strict=True)]
    assert together.tolist() == pytest.approx(alone, rel=1e-14, abs=0, nan_ok=True)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_function_of_two_numbers_has_known_values(name: str) -> None:
    x, y, want = (list(column) for column in zip(*BINARY[name], strict=True))
    got = getattr(st.special, name)(_double(x), _double(y))
    assert got.tolist() == pytest.approx(want, rel=4e-14, abs=0)


FAR_GAMMA = [
    ("gammainc", 975.5, 360.25, 3.031722980653910408e-157),
    ("gammainc", 95.0, 30.5, 8.1938048279110061243e-21),
    ("gammaincc", 700.0, 1500.0, 2.3931613179235791636e-118),
    ("gammaincc", 20.0, 300.0, 5.250200358730517968e-101),
    ("gammaincc", 5.0, 400.0, 2.0634300270773008715e-165),
]


@pytest.mark.parametrize(("name", "a", "x", "want"), FAR_GAMMA)
def test_tails_of_the_gamma_distribution_keep_their_digits(
    name: str, a: float, x: float, want: float
) -> None:
    fused = runtime.cpu_capability() != "base"
    got = getattr(st.special, name)(_double([a]), _double([x])).item()
    assert got == pytest.approx(want, rel=3e-15 if fused else 3e-13, abs=0)


@pytest.mark.parametrize(("n", "x", "want"), POLYGAMMA)
def test_polygamma_has_known_values(n: int, x: float, want: float) -> None:
    t = _double([x])
    assert st.polygamma(n, t).item() == pytest.approx(want, rel=1e-14)
    assert t.polygamma(n).item() == pytest.approx(want, rel=1e-14)
    assert t.polygamma_(n).item() == pytest.approx(want, rel=1e-14)


def test_poles_and_limits() -> None:
    special = st.special
    assert special.digamma(st.tensor([0.0, -0.0])).tolist() == [-math.inf, math.inf]
    assert math.isnan(special.digamma(st.tensor(-2.0)).item())
    assert special.zeta(st.tensor(1.0), 2.0).item() == math.inf
    assert math.isnan(special.zeta(st.tensor(0.5), 2.0).item())
    assert special.zeta(st.tensor(3.0), -2.0).item() == math.inf
    assert special.modified_bessel_k0(st.tensor([0.0, math.inf])).tolist() == [math.inf, 0.0]
    assert special.i0e(st.tensor([math.inf, -math.inf])).tolist() == [0.0, 0.0]
    assert special.ndtri(st.tensor([0.0, 1.0])).tolist() == [-math.inf, math.inf]
    assert special.entr(st.tensor([-1.0])).item() == -math.inf
    assert special.gammainc(
        st.tensor([0.0, 2.0, 2.0]), st.tensor([1.0, 0.0, math.inf])
    ).tolist() == [
        1.0,
        0.0,
        1.0,
    ]
    assert math.isnan(special.gammaincc(st.tensor(-1.0), st.tensor(1.0)).item())


def test_negative_degree_is_zero_and_high_degrees_end() -> None:
    special = st.special
    for kind in "tuvw":
        for name in ("chebyshev_polynomial_", "shifted_chebyshev_polynomial_"):
            function = getattr(special, name + kind)
            assert function(st.tensor([0.5]), -1).item() == 0
            assert math.isnan(function(st.tensor([1.5]), 10**15).item())  # as recurred to
    for name in ("laguerre_polynomial_l", "hermite_polynomial_h", "legendre_polynomial_p"):
        assert getattr(special, name)(st.tensor([0.5]), -1).item() == 0
        getattr(special, name)(st.tensor([0.5]), 10**18)
    assert special.chebyshev_polynomial_u(st.tensor([1.0, -1.0]), 3).tolist() == [4.0, -4.0]
    assert special.shifted_chebyshev_polynomial_w(0.0, st.tensor([3.0])).item() == -1


@pytest.mark.parametrize("row", range(len(GRADIENTS)))
def test_gradient_of_special_function(row: int) -> None:
    function, at = GRADIENTS[row]
    assert st.autograd.gradcheck(function, (_double(at).requires_grad_(),))


def test_polynomials_record_nothing() -> None:
    x = st.tensor([0.5], requires_grad=True)
    assert not st.special.legendre_polynomial_p(x, 3).requires_grad


def test_bad_arguments_are_refused() -> None:
    x = st.tensor([0.5])
    with pytest.raises(RuntimeError, match="negative n, got n=-1"):
        st.polygamma(-1, x)
    with pytest.raises(RuntimeError, match="p has to be greater"):
        st.mvlgamma(x, 0)
    with pytest.raises(RuntimeError, match="float_power_ has dtype Float"):
        x.float_power_(2)
    with pytest.raises(RuntimeError, match="different dtypes"):
        st.heaviside(x, st.tensor([1]))
    with pytest.raises(RuntimeError, match="floating-point"):
        st.frexp(st.tensor([1]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_lgamma_has_its_zeros(dtype: str) -> None:
    x = st.tensor([1.0, 2.0] * 20, dtype=getattr(st, dtype))
    assert (x.lgamma() == 0).all()
    assert (x[:2].lgamma() == 0).all()


@pytest.mark.check
def test_frexp_splits_and_ldexp_joins() -> None:
    x = st.tensor([0.0, -3.0, 1e-40, math.inf])
    mantissa, exponent = st.frexp(x)
    assert exponent.dtype == st.int32
    assert mantissa.tolist()[:2] == [0.0, -0.75]
    assert exponent.tolist() == [0, 2, -132, 0]
    assert st.ldexp(mantissa, exponent).tolist() == x.tolist()


def test_float_power_is_double_and_takes_negative_exponents() -> None:
    assert st.float_power(st.tensor([2]), -1).tolist() == [0.5]
    assert st.float_power(st.tensor([2]), -1).dtype == st.float64
    assert st.float_power(2, st.tensor([1 + 1j])).dtype == st.complex128
    assert _double([4.0]).float_power_(0.5).item() == 2


def test_heaviside_takes_values_at_zero() -> None:
    got = st.heaviside(st.tensor([-1.5, 0.0, 2.0]), st.tensor([0.5]))
    assert got.tolist() == [0.0, 0.5, 1.0]


def test_log_ndtr_has_finite_derivatives_far_from_0() -> None:
    values = [-100.0, -5.0, 0.0, 10.0, 100.0, 1e20]
    x = st.tensor(values, dtype=st.float32, requires_grad=True)
    (slope,) = st.autograd.grad(st.special.log_ndtr(x).sum(), x, create_graph=True)
    want = [100.01, 5.1865, 0.797885, 7.694599e-23, 0, 0]
    assert slope.tolist() == pytest.approx(want, rel=1e-4)
    (bend,) = st.autograd.grad(slope.sum(), x)
    want = [-0.9998, -0.96792, -0.63662, -7.694599e-22, 0, 0]
    assert bend.tolist() == pytest.approx(want, rel=2e-3, abs=1e-30)


def test_trigamma_left_of_0_and_at_its_poles() -> None:
    x = st.tensor([0.0, -3.0, -0.5, -2.5, 1e-3], dtype=st.float64)
    want = [math.inf, math.inf, 8.934802200544679, 9.539246644989124, 1000001.6425331959]
    assert st.polygamma(1, x).tolist() == pytest.approx(want, rel=1e-14)


def test_gradient_of_sinc_near_zero() -> None:
    x = st.tensor([0.0, 1e-12, 1e-4, 0.149, 0.151], dtype=st.float64, requires_grad=True)
    (gradient,) = st.autograd.grad(st.sinc(x).sum(), x, create_graph=True)
    slopes = [-(math.pi**2) / 3 * v for v in (0.0, 1e-12, 1e-4)]
    assert gradient.tolist()[:3] == pytest.approx(slopes, rel=1e-7)
    (second,) = st.autograd.grad(gradient.sum(), x)
    assert second.tolist()[:3] == pytest.approx([-(math.pi**2) / 3] * 3, rel=1e-7)
    assert st.autograd.gradgradcheck(st.sinc, (x,))
