"""Unary functions: values, special values, accuracy over the range, dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ops.samples import COMPLEX, FLOATS, INTS, array, check, tensor, values

import shmtensor

NUMPY = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
    "square": np.square,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "neg": np.negative,
    "abs": np.abs,
    "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
}
#: Units in the last place that a float32 function may miss by.
ULPS = {
    "exp": 2,
    "log": 2,
    "tanh": 3,
    "expm1": 3,
    "log1p": 3,
    "log2": 3,
    "log10": 3,
    "sin": 3,
    "cos": 3,
}
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    3e38,
    -3e38,
    1e-30,
    88.8,
    -104.0,
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(NUMPY))
def test_function_equals_numpy(name: str, dtype: str) -> None:
    a = np.concatenate([values(dtype), np.array(EDGES, dtype)])
    with np.errstate(all="ignore"):
        want = NUMPY[name](a.astype(np.float64)).astype(dtype)
    check(getattr(shmtensor, name)(tensor(a)), want, rtol=1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "sigmoid", "erf", "sin"])
def test_short_floats_are_calculated_in_float32(name: str, dtype: str) -> None:
    a = np.abs(values(dtype)) + np.float32(0.5)
    got = getattr(shmtensor, name)(tensor(a, dtype))
    wide = getattr(shmtensor, name)(tensor(array(tensor(a, dtype)).astype(np.float32)))
    check(got, array(wide.to(got.dtype)), dtype, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(ULPS))
def test_float32_function_is_accurate_over_its_range(name: str) -> None:
    low, high = (-87.0, 88.0) if name in ("exp", "expm1") else (-30.0, 30.0)
    if name.startswith("log"):
        low, high = 1e-6, 1e6
    a = np.linspace(low, high, 20011, dtype=np.float32)
    got = array(getattr(shmtensor, name)(tensor(a)))
    want = NUMPY[name](a.astype(np.float64))
    ulp = np.spacing(np.maximum(np.abs(want), 1e-30).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(got - want) / ulp) <= ULPS[name]


@pytest.mark.check
@pytest.mark.parametrize("name", ["erf", "erfc", "lgamma"])
def test_special_function_equals_the_c_library(name: str) -> None:
    a = np.linspace(-4.9, 5, 1001)
    want = np.array([getattr(math, name)(x) for x in a])
    check(getattr(shmtensor, name)(tensor(a)), want, rtol=1e-13)
    inner = a > 0  # near the poles of lgamma a float32 is too coarse
    check(
        getattr(shmtensor, name)(tensor(a[inner].astype(np.float32))),
        want[inner].astype(np.float32),
        rtol=2e-6,
    )


def test_erfinv_inverts_erf() -> None:
    a = np.array([-1.0, -0.999, -0.6, -1e-3, 0.0, 0.3, 0.9, 1.0, 1.5])
    got = array(shmtensor.erfinv(tensor(a)))
    assert got[0] == -np.inf
    assert got[-2] == np.inf
    assert np.isnan(got[-1])
    np.testing.assert_allclose([math.erf(x) for x in got[1:-2]], a[1:-2], rtol=1e-13, atol=1e-16)


def test_digamma_is_the_derivative_of_lgamma() -> None:
    known = {
        1.0: -0.5772156649015329,
        0.5: -1.9635100260214235,
        10.0: 2.251752589066721,
        -0.5: 0.03648997397857652,
    }
    a = np.array(list(known))
    check(shmtensor.digamma(tensor(a)), np.array(list(known.values())), rtol=1e-13)


def test_sine_of_large_angles_is_right() -> None:
    a = np.array([1e4, 1e6, -3e8, 0.5, 1e30], np.float32)
    check(shmtensor.sin(tensor(a)), np.sin(a.astype(np.float64)).astype(np.float32), rtol=3e-7)
    check(shmtensor.cos(tensor(a)), np.cos(a.astype(np.float64)).astype(np.float32), rtol=3e-7)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "log",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "sqrt",
        "asin",
        "acos",
        "atan",
        "log1p",
        "expm1",
    ],
)
def test_complex_function_equals_numpy(name: str, dtype: str) -> None:
    a = values(dtype)
    check(
        getattr(shmtensor, name)(tensor(a)),
        NUMPY[name](a),
        rtol=1e-5 if dtype == "complex64" else 1e-13,
    )


@pytest.mark.parametrize("dtype", COMPLEX)
def test_parts_of_complex_numbers(dtype: str) -> None:
    a = values(dtype)
    real = "float32" if dtype == "complex64" else "float64"
    check(shmtensor.abs(tensor(a)), np.abs(a), real, rtol=1e-6)
    check(shmtensor.angle(tensor(a)), np.angle(a), real, rtol=1e-6)
    check(shmtensor.conj(tensor(a)).resolve_conj(), np.conj(a))
    check(shmtensor.sgn(tensor(a)), a / np.abs(a), rtol=1e-6)


def test_conj_of_real_numbers_is_the_tensor_itself() -> None:
    a = shmtensor.ones(3)
    assert shmtensor.conj(a) is a


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", ["neg", "abs", "square", "floor", "ceil", "trunc", "round"])
def test_integers_stay_integers(name: str, dtype: str) -> None:
    a = values(dtype)
    with np.errstate(all="ignore"):
        want = NUMPY[name](a).astype(dtype)
    check(getattr(shmtensor, name)(tensor(a)), want)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", ["exp", "sqrt", "sin", "sigmoid"])
def test_integers_become_the_default_dtype(name: str, dtype: str) -> None:
    a = np.arange(5).astype(dtype)
    check(
        getattr(shmtensor, name)(tensor(a)),
        array(getattr(shmtensor, name)(tensor(a.astype(np.float32)))),
        "float32",
    )


def test_sign_and_signbit() -> None:
    a = shmtensor.tensor([-2.0, -0.0, 0.0, 3.0, float("nan")])
    assert shmtensor.sign(a).tolist() == [-1, 0, 0, 1, 0]
    assert shmtensor.signbit(a).tolist()[:4] == [True, True, False, False]


def test_round_goes_to_even_and_takes_decimals() -> None:
    a = shmtensor.tensor([0.5, 1.5, 2.5, -0.5, 1.2345])
    assert shmtensor.round(a).tolist() == [0.0, 2.0, 2.0, -0.0, 1.0]
    assert shmtensor.round(a, decimals=2)[4].item() == pytest.approx(1.23)
    assert shmtensor.round(shmtensor.tensor([1234.0]), decimals=-2).item() == 1200.0


@pytest.mark.check
def test_frac_keeps_the_sign() -> None:
    check(shmtensor.frac(tensor(np.array([1.5, -1.5]))), np.array([0.5, -0.5]))


def test_tests_for_special_values() -> None:
    a = shmtensor.tensor([1.0, float("inf"), -float("inf"), float("nan")])
    assert shmtensor.isnan(a).tolist() == [False, False, False, True]
    assert shmtensor.isinf(a).tolist() == [False, True, True, False]
    assert shmtensor.isfinite(a).tolist() == [True, False, False, False]
    assert shmtensor.isposinf(a).tolist() == [False, True, False, False]
    assert shmtensor.isneginf(a).tolist() == [False, False, True, False]
    assert shmtensor.isfinite(shmtensor.tensor([1, 2])).tolist() == [True, True]


def test_nan_to_num_replaces() -> None:
    a = shmtensor.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    assert shmtensor.nan_to_num(a).tolist() == [
        0.0,
        np.finfo(np.float32).max,
        np.finfo(np.float32).min,
        1.0,
    ]
    assert shmtensor.nan_to_num(a, 1.0, 2.0, 3.0).tolist() == [1.0, 2.0, 3.0, 1.0]


def test_logit_clamps_with_eps() -> None:
    a = shmtensor.tensor([0.0, 0.5, 1.0, -1.0])
    plain = shmtensor.logit(a).tolist()
    assert plain[:3] == [-np.inf, 0.0, np.inf]
    assert math.isnan(plain[3])
    assert shmtensor.logit(a, eps=0.25)[0].item() == pytest.approx(math.log(1 / 3), rel=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sigmoid_is_between_0_and_1(dtype: str) -> None:
    a = tensor(np.array([-200.0, -1.0, 0.0, 1.0, 200.0]), dtype)
    got = array(shmtensor.sigmoid(a))
    assert float(got[0]) < 1e-30
    assert got[2] == 0.5
    assert got[4] == 1
    assert got[1] + got[3] == pytest.approx(1, rel=1e-2)


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_exponentials_keep_nan_and_limits(dtype: str) -> None:
    functional = shmtensor.nn.functional
    a = tensor(np.array([np.nan, -np.inf, np.inf, -1200.0, 1200.0] * 7), dtype)
    epsilon = shmtensor.finfo(a.dtype).eps
    limits = {
        shmtensor.exp: (0, np.inf, 0, np.inf),
        shmtensor.exp2: (0, np.inf, 0, np.inf),
        shmtensor.expm1: (-1, np.inf, -1, np.inf),
        shmtensor.tanh: (-1, 1, -1, 1),
        shmtensor.sigmoid: (0, 1, 0, 1),
        shmtensor.erf: (-1, 1, -1, 1),
        shmtensor.cosh: (np.inf, np.inf, np.inf, np.inf),
        functional.gelu: (np.nan, np.inf, 0, 1200),
        functional.softplus: (0, np.inf, 0, 1200),
        functional.logsigmoid: (-np.inf, 0, -1200, 0),
        functional.mish: (np.nan, np.inf, 0, 1200),
    }
    for function, expected in limits.items():
        got = array(function(a)).astype(np.float64)
        want = np.array([np.nan, *expected] * 7)
        np.testing.assert_allclose(got, want, rtol=epsilon, atol=1e-30, err_msg=function.__name__)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_reciprocals_and_angles_of_zeros_and_infinities(dtype: str) -> None:
    parts = (0.0, -0.0, 2.5, -3.0, math.inf, -math.inf)
    z = np.array([complex(a, b) for a in parts for b in parts])
    a = tensor(z, dtype)
    np.testing.assert_allclose(array(shmtensor.angle(a)), np.angle(z), rtol=1e-6)
    one = tensor(np.ones_like(z), dtype)
    np.testing.assert_allclose(array(shmtensor.reciprocal(a)), array(one / a), rtol=1e-6)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    a = shmtensor.linspace(-9, 9, 20_003)
    threads = shmtensor.get_num_threads()
    found = []
    try:
        for n in (1, 2, 3):
            shmtensor.set_num_threads(n)
            # Often enough that helpers are awake.
            found += [shmtensor.tanh(a) for _ in range(50)][-2:]
    finally:
        shmtensor.set_num_threads(threads)
    assert all(shmtensor.equal(x, found[0]) for x in found)


def test_other_names_are_the_same_functions() -> None:
    a = shmtensor.tensor([0.25])
    for other, name in {
        "absolute": "abs",
        "arccos": "acos",
        "arctanh": "atanh",
        "negative": "neg",
        "fix": "trunc",
    }.items():
        assert getattr(shmtensor, other)(a).item() == getattr(shmtensor, name)(a).item()
