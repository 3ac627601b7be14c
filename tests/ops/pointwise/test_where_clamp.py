"""Comparisons, logical operators, where, clamp, masked_fill and lerp."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from ops.samples import ALL, BAREBONES_UNSIGNED, COMPLEX, FLOATS, INTS, array, check, tensor, values

import shmtensor

OPERATORS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_comparison_equals_numpy(name: str, dtype: str) -> None:
    if dtype in COMPLEX + BAREBONES_UNSIGNED and name not in ("eq", "ne"):
        pytest.skip("these have no order")
    a, b = values(dtype), values(dtype, seed=1)
    b[::3] = a[::3]
    want = OPERATORS[name](a, b)
    check(getattr(shmtensor, name)(tensor(a, dtype), tensor(b, dtype)), want, "bool")
    check(OPERATORS[name](tensor(a, dtype), tensor(b, dtype)), want, "bool")


@pytest.mark.check
def test_comparison_with_nan_is_false_but_for_ne() -> None:
    a = shmtensor.tensor([float("nan"), 1.0])
    assert (a == a).tolist() == [False, True]
    assert (a != a).tolist() == [True, False]
    assert (a < 2).tolist() == [False, True]
    assert (a >= 1).tolist() == [False, True]


def test_comparison_promotes_but_results_are_bool() -> None:
    a = shmtensor.tensor([1, 2, 3])
    assert (a > 1.5).tolist() == [False, True, True]
    assert (a.to(shmtensor.uint8) == a).dtype == shmtensor.bool


def test_comparison_in_place_keeps_the_dtype() -> None:
    a = shmtensor.tensor([1.0, 3.0])
    assert a.gt_(2).tolist() == [0.0, 1.0]
    assert a.dtype == shmtensor.float32


def test_complex_order_is_refused() -> None:
    with pytest.raises(
        (RuntimeError, NotImplementedError), match="not implemented for 'ComplexFloat'"
    ):
        shmtensor.lt(shmtensor.tensor([1j]), shmtensor.tensor([2j]))


@pytest.mark.parametrize("dtype", ["bool", "int64", "float32", "complex64"])
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_equals_numpy(name: str, dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    check(getattr(shmtensor, name)(tensor(a), tensor(b)), getattr(np, name)(a, b))
    check(shmtensor.logical_not(tensor(a)), np.logical_not(a))


@pytest.mark.parametrize("dtype", ALL)
def test_where_equals_numpy(dtype: str) -> None:
    a, b = values(dtype), values(dtype, seed=1)
    choice = values("bool", seed=2)
    got = shmtensor.where(tensor(choice), tensor(a, dtype), tensor(b, dtype))
    check(got, np.where(choice, a, b), dtype, rtol=0.0)


def test_where_broadcasts_and_promotes() -> None:
    got = shmtensor.where(shmtensor.tensor([[True], [False]]), shmtensor.tensor([1, 2]), 0.5)
    assert got.tolist() == [[1.0, 2.0], [0.5, 0.5]]
    assert got.dtype == shmtensor.float32
    assert shmtensor.where(shmtensor.tensor([True, False]), 1, 2).dtype == shmtensor.int64


def test_where_of_a_condition_alone_gives_positions() -> None:
    rows, columns = shmtensor.where(shmtensor.tensor([[0, 1], [1, 0]]))
    assert rows.tolist() == [0, 1]
    assert columns.tolist() == [1, 0]


def test_where_needs_a_boolean_condition() -> None:
    with pytest.raises(RuntimeError, match="where expected condition to be a boolean tensor"):
        shmtensor.where(shmtensor.tensor([1.0]), shmtensor.tensor([1.0]), shmtensor.tensor([1.0]))


@pytest.mark.parametrize("dtype", INTS + FLOATS)
def test_clamp_equals_numpy(dtype: str) -> None:
    a = values(dtype)
    check(shmtensor.clamp(tensor(a, dtype), 1, 3), np.clip(a, 1, 3), dtype)
    check(shmtensor.clamp(tensor(a, dtype), min=1), np.maximum(a, np.array(1, a.dtype)), dtype)
    check(shmtensor.clamp_max(tensor(a, dtype), 2), np.minimum(a, np.array(2, a.dtype)), dtype)


def test_clamp_with_tensors_and_nan() -> None:
    a = shmtensor.tensor([1.0, float("nan"), 5.0])
    got = shmtensor.clamp(
        a, shmtensor.tensor([2.0, 2.0, 2.0]), shmtensor.tensor([3.0, 3.0, float("nan")])
    )
    assert got[0].item() == 2.0
    assert shmtensor.isnan(got).tolist() == [False, True, True]
    assert shmtensor.clamp(shmtensor.tensor([4.0]), 3, 2).item() == 2.0


def test_clamp_limits_beyond_a_dtype_are_refused() -> None:
    a = shmtensor.tensor([-128, 0, 127], dtype=shmtensor.int8)
    assert shmtensor.clamp(a, -127, 126).tolist() == [-127, 0, 126]
    for limits in ((-1000, 1000), (-1000, None), (None, 1000)):
        with pytest.raises(RuntimeError, match="cannot be converted to type int8_t without"):
            shmtensor.clamp(a, *limits)
    with pytest.raises(RuntimeError, match="c10::Half without overflow"):
        shmtensor.ones(2, dtype=shmtensor.float16).clamp_max(1e30)


def test_numbers_in_where_give_way_to_tensors_without_dims() -> None:
    small = shmtensor.tensor(1, dtype=shmtensor.uint8)
    yes = shmtensor.tensor(True)
    assert shmtensor.where(yes, 2, small).dtype is shmtensor.uint8
    assert shmtensor.where(yes, small, 2).dtype is shmtensor.uint8
    assert shmtensor.where(yes, 2, 1).dtype is shmtensor.int64


def test_clamp_without_limits_is_refused() -> None:
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max' must not be None"):
        shmtensor.clamp(shmtensor.ones(2))


@pytest.mark.parametrize("dtype", ALL)
def test_masked_fill_equals_numpy(dtype: str) -> None:
    a, mask = values(dtype), values("bool", seed=3)
    want = a.copy()
    want[mask] = 1
    check(tensor(a, dtype).masked_fill(tensor(mask), 1), want, dtype, rtol=0.0)
    inner = tensor(a, dtype)
    assert inner.masked_fill_(tensor(mask), shmtensor.tensor(1)) is inner
    check(inner, want, dtype, rtol=0.0)


@pytest.mark.check
def test_masked_fill_broadcasts_the_mask_and_checks_it() -> None:
    a = shmtensor.zeros(2, 3)
    assert a.masked_fill(shmtensor.tensor([True, False, True]), 2).tolist() == [[2, 0, 2]] * 2
    with pytest.raises(RuntimeError, match="only supports boolean masks"):
        a.masked_fill(shmtensor.tensor([1, 0, 1]), 2)
    with pytest.raises(RuntimeError, match="without overflow"):
        shmtensor.zeros(2, dtype=shmtensor.uint8).masked_fill(shmtensor.tensor([True, False]), 300)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_lerp_and_scaled_products_equal_numpy(dtype: str) -> None:
    a, b, c = (values(dtype, seed=s) for s in range(3))
    c[c == 0] = 2
    check(shmtensor.lerp(tensor(a), tensor(b), tensor(c)), a + c * (b - a), rtol=1e-4)
    check(
        shmtensor.lerp(tensor(a), tensor(b), 0.25), a + (b - a) * np.array(0.25, dtype), rtol=1e-5
    )
    check(shmtensor.addcmul(tensor(a), tensor(b), tensor(c), value=2), a + 2 * b * c, rtol=1e-5)
    check(shmtensor.addcdiv(tensor(a), tensor(b), tensor(c), value=2), a + 2 * (b / c), rtol=1e-4)


def test_lerp_ends_are_exact() -> None:
    a, b = shmtensor.tensor([0.1, 7.0]), shmtensor.tensor([0.7, -3.0])
    assert shmtensor.lerp(a, b, 0.0).tolist() == a.tolist()
    assert shmtensor.lerp(a, b, 1.0).tolist() == b.tolist()


def test_integer_addcdiv_is_refused() -> None:
    a = shmtensor.tensor([1, 2])
    with pytest.raises(RuntimeError, match="Integer division with addcdiv is no longer supported"):
        shmtensor.addcdiv(a, a, a)


def test_closeness_has_numpys_rule() -> None:
    a = np.array([1.0, 1.0, np.inf, np.nan, 0.0])
    b = np.array([1.0 + 1e-6, 1.1, np.inf, np.nan, 1e-9])
    check(shmtensor.isclose(tensor(a), tensor(b)), np.isclose(a, b))
    check(shmtensor.isclose(tensor(a), tensor(b), equal_nan=True), np.isclose(a, b, equal_nan=True))
    assert shmtensor.allclose(tensor(a[:1]), tensor(b[:1]))
    assert not shmtensor.allclose(tensor(a), tensor(b))
    with pytest.raises(RuntimeError, match="rtol must be greater than or equal to zero"):
        shmtensor.isclose(tensor(a), tensor(b), rtol=-1.0)
    with pytest.raises(RuntimeError, match="Float did not match Double"):
        shmtensor.isclose(shmtensor.ones(2), shmtensor.ones(2, dtype=shmtensor.float64))


@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_closeness_of_whole_numbers(dtype: str) -> None:
    a = tensor(values(dtype))
    assert shmtensor.allclose(a, a)


def test_equal_needs_the_same_shape_and_values() -> None:
    a = shmtensor.tensor([1, 2])
    assert shmtensor.equal(a, a.clone())
    assert not shmtensor.equal(a, shmtensor.tensor([1, 3]))
    assert not shmtensor.equal(a, shmtensor.tensor([[1, 2]]))
    assert shmtensor.equal(shmtensor.zeros(0), shmtensor.zeros(0))


def activation(name: str, x: np.ndarray) -> np.ndarray:
    exp = np.exp(-np.abs(x))
    sigmoid = np.where(x >= 0, 1 / (1 + exp), exp / (1 + exp))
    return {
        "relu": np.maximum(x, 0),
        "silu": x * sigmoid,
        "softplus": np.logaddexp(0, x),
        "leaky_relu": np.where(x > 0, x, 0.01 * x),
        "elu": np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "hardtanh": np.clip(x, -1, 1),
        "hardsigmoid": np.clip(x + 3, 0, 6) / 6,
        "hardswish": x * np.clip(x + 3, 0, 6) / 6,
        "mish": x * np.tanh(np.logaddexp(0, x)),
        "log_sigmoid": -np.logaddexp(0, -x),
    }[name]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "name",
    "relu silu softplus leaky_relu elu hardtanh hardsigmoid hardswish mish log_sigmoid".split(),
)
def test_activation_equals_its_formula(name: str, dtype: str) -> None:
    x = values(dtype)
    got = getattr(shmtensor._C._nn, name)(tensor(x))
    check(
        got,
        activation(name, x.astype(np.float64)).astype(dtype),
        rtol=2e-6 if dtype == "float32" else 1e-13,
    )


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_equals_its_formula(approximate: str) -> None:
    from math import erf, pi, sqrt

    x = values("float64")
    if approximate == "none":
        want = np.array([0.5 * v * (1 + erf(v / sqrt(2))) for v in x])
    else:
        want = 0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))
    check(shmtensor._C._nn.gelu(tensor(x), approximate=approximate), want, rtol=1e-13)
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        shmtensor._C._nn.gelu(tensor(x), approximate="exact")


@pytest.mark.parametrize("dtype", [shmtensor.float16, shmtensor.float32, shmtensor.float64])
@pytest.mark.parametrize("step", [1, 2])
def test_elu_of_blocks_with_and_without_negatives(dtype: shmtensor.dtype, step: int) -> None:
    a = np.random.default_rng(3).uniform(0, 3, 900).astype("float32")
    a[[130, 400, 899]] = [-1.5, -np.inf, -1e-3]
    a[[5, 600]] = np.nan, -0.0
    x = shmtensor.from_numpy(np.repeat(a, step)).to(dtype)[::step]
    wide = x.double().numpy()
    with np.errstate(invalid="ignore"):
        for got, want in (
            (shmtensor.nn.functional.elu(x, 0.7), np.where(wide < 0, 0.7 * np.expm1(wide), wide)),
            (
                shmtensor.nn.functional.celu(x, 2.0),
                np.where(wide < 0, 2 * np.expm1(wide / 2), wide),
            ),
        ):
            rtol = {shmtensor.float16: 1e-3, shmtensor.float32: 3e-7}.get(dtype, 1e-15)
            np.testing.assert_allclose(got.double().numpy(), want, rtol=rtol)
    assert shmtensor.signbit(shmtensor.nn.functional.elu(x))[600].item()


def test_relu_keeps_nan() -> None:
    assert np.isnan(array(shmtensor.relu(shmtensor.tensor([float("nan"), -1.0])))).tolist() == [
        True,
        False,
    ]


def make(value: Any) -> Any:
    return shmtensor.tensor(value, dtype=shmtensor.float64, requires_grad=True)


def test_clamp_and_where_gradients_go_where_the_value_came_from() -> None:
    x = make([-2.0, 0.5, 2.0])
    shmtensor.clamp(x, -1, 1).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 0.0]
    a, b = make([1.0, 2.0]), make([3.0, 4.0])
    shmtensor.where(shmtensor.tensor([True, False]), a, b).sum().backward()
    assert a.grad.tolist() == [1.0, 0.0]
    assert b.grad.tolist() == [0.0, 1.0]


def test_masked_fill_is_contiguous() -> None:
    x = shmtensor.arange(6).reshape(2, 3).t()
    mask = shmtensor.tensor([[True, False], [False, False], [False, True]])
    for m in (mask, mask.t().contiguous().t(), mask[:, :1]):
        got = x.masked_fill(m, 9)
        assert got.is_contiguous()
        assert got.tolist() == [
            [9 if m.expand(3, 2)[i, j] else x[i, j] for j in (0, 1)] for i in range(3)
        ]
    assert x.masked_fill_(mask, 9).stride() == (1, 3)


def test_fractions_do_not_wrap() -> None:
    for dtype, number in (
        (shmtensor.uint8, -0.5),
        (shmtensor.uint8, -1.0),
        (shmtensor.uint8, 255.5),
        (shmtensor.int8, 127.5),
        (shmtensor.int8, -128.5),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            shmtensor.full((2,), number, dtype=dtype)
    assert shmtensor.full((1,), -1, dtype=shmtensor.uint8).tolist() == [255]
    assert shmtensor.full((1,), 255.0, dtype=shmtensor.uint8).tolist() == [255]
    assert shmtensor.full((1,), -128.0, dtype=shmtensor.int8).tolist() == [-128]
