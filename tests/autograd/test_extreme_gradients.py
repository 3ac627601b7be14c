"""Gradients at zeros, infinities and NaN, where formulas that are right elsewhere give or lose NaN.

Second derivatives of cumprod at zeros: test_cumprod_zeros.py. Values of the functions: tests/ops.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, nan
from typing import Any

import pytest

import shmtensor as st

F = st.nn.functional


def _gradients(function: Callable[..., Any], *values: Any) -> list[Any]:
    inputs = [st.tensor(v, dtype=st.float64).requires_grad_() for v in values]
    return [g.tolist() for g in st.autograd.grad(function(*inputs).sum(), inputs)]


def _same(got: Any, expected: Any) -> None:
    assert got == pytest.approx(expected, nan_ok=True)


@pytest.mark.check
@pytest.mark.parametrize("value", [0.0, inf, nan, 2.0])
def test_running_product_of_one_element_has_slope_one(value: float) -> None:
    x = st.tensor([[value]], dtype=st.float64).requires_grad_()
    (gradient,) = st.autograd.grad(x.cumprod(1).sum(), x, create_graph=True)
    assert gradient.tolist() == [[1.0]]
    assert not gradient.requires_grad


def test_product_of_one_zero_has_slope_one() -> None:
    x = st.tensor([[0.0], [2.0]], dtype=st.float64).requires_grad_()
    for function in (st.prod, lambda x: x.prod(1)):
        (gradient,) = st.autograd.grad(function(x[:1]).sum(), x, create_graph=True)
        assert gradient.tolist() == [[1.0], [0.0]]
        assert not gradient.requires_grad


def test_product_beside_a_zero_and_an_infinity() -> None:
    # Each is the product of the others; 0 * inf is NaN.
    _same(_gradients(st.prod, [2.0, 0.0, 3.0, inf])[0], [nan, inf, nan, 0.0])
    _same(_gradients(lambda x: x.prod(0), [2.0, 0.0, 0.0, inf])[0], [nan, nan, nan, 0.0])
    _same(_gradients(st.prod, [2.0, 0.0, 3.0])[0], [0.0, 6.0, 0.0])


def test_running_product_behind_a_zero_does_not_spoil_what_is_before() -> None:
    # The last product is NaN, but does not depend on what is before the zeros.
    got = _gradients(lambda x: x.cumprod(0)[:2], [2.0, 0.0, 3.0])[0]
    _same(got, [1.0, 2.0, 0.0])
    got = _gradients(lambda x: x.cumprod(0), [2.0, 0.0, 3.0, 0.0, inf])[0]
    _same(got, [1.0, 8.0, 0.0, 0.0, 0.0])


def test_exponent_of_zero_has_slope_zero_for_every_seed() -> None:
    base = st.tensor([0.0, 0.0, 2.0], dtype=st.float64)
    exponent = st.tensor([0.0, 2.0, 1.0], dtype=st.float64).requires_grad_()
    seed = st.ones(3, dtype=st.float64).requires_grad_()
    (slope,) = st.autograd.grad(base.pow(exponent), exponent, seed, create_graph=True)
    _same(slope.tolist(), [0.0, 0.0, 2 * log(2)])
    (by_seed,) = st.autograd.grad(slope.sum(), seed)
    _same(by_seed.tolist(), [0.0, 0.0, 2 * log(2)])


def test_complex_exponent_of_zero_with_a_negative_part_has_no_slope_zero() -> None:
    base = st.zeros(3, dtype=st.complex128)
    exponent = st.tensor([1.0, 0.0, -1.0], dtype=st.complex128).requires_grad_()
    (slope,) = st.autograd.grad(base.pow(exponent).abs().sum(), exponent)
    assert slope[:1].tolist() == [0]
    assert not st.isfinite(slope[2:]).any()


@pytest.mark.check
def test_remainder_of_fmod_has_second_derivatives() -> None:
    x = st.tensor([7.0, -7.0], dtype=st.float64).requires_grad_()
    y = st.tensor([2.0, 2.0], dtype=st.float64).requires_grad_()
    first = st.autograd.grad(st.fmod(x, y).sum(), (x, y), create_graph=True)
    assert first[1].tolist() == [-3.0, 3.0]
    second = st.autograd.grad(first[1].sum(), (x, y))
    assert [t.tolist() for t in second] == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("p", [-0.5, 0.5, 1.5, 3.0, 4.0])
def test_norm_that_is_nan_has_gradients_of_nan(p: float) -> None:
    (got,) = _gradients(
        lambda x: st.linalg.vector_norm(x, p, 1), [[nan, 0.0, 1.0], [1.0, 0.0, 0.0]]
    )
    _same(got[0], [nan, nan, nan])
    assert not st.tensor(got[1]).isnan().any()


def test_masked_deviation_of_equal_numbers_has_no_slope() -> None:
    # It is the root of the variance, with or without a mask; std itself says 0.
    mask = st.ones(3, dtype=st.bool)
    _same(_gradients(st.masked.std, [1.0, 1.0, 1.0])[0], [nan, nan, nan])
    _same(_gradients(lambda x: st.masked.std(x, mask=mask), [1.0, 1.0, 1.0])[0], [nan, nan, nan])
    _same(_gradients(st.std, [1.0, 1.0, 1.0])[0], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("shape", [(3, 2), (3, 2, 4), (3, 2, 200)])
def test_batch_norm_of_fixed_statistics_does_not_look_at_its_input(shape: tuple[int, ...]) -> None:
    x = st.zeros(shape, dtype=st.float64)
    x[0] = nan
    x[1, 0] = inf
    mean, var = st.zeros(2, dtype=st.float64), st.tensor([3.0, 8.0], dtype=st.float64)
    for view in (x, x.transpose(0, -1).contiguous().transpose(0, -1)):
        leaf = view.detach().requires_grad_()
        F.batch_norm(
            leaf, mean, var, weight=st.tensor([2.0, 3.0]).double(), eps=1.0
        ).sum().backward()
        assert leaf.grad[:, 0].unique().tolist() == [1.0]
        assert leaf.grad[:, 1].unique().tolist() == [1.0]


@pytest.mark.parametrize("value", [0.0, inf, nan, 2.0])
def test_determinant_of_one_element_has_slope_one(value: float) -> None:
    x = st.tensor([[[value]], [[1.0]]], dtype=st.float64).requires_grad_()
    (gradient,) = st.autograd.grad(st.linalg.det(x).sum(), x, create_graph=True)
    assert gradient.tolist() == [[[1.0]], [[1.0]]]
    assert not gradient.requires_grad


def test_overwritten_tensor_has_a_gradient_of_zeros() -> None:
    x = st.ones(3).requires_grad_()
    y = st.ones(3).requires_grad_()
    gradients = st.autograd.grad(x.clone().copy_(y).sum(), (x, y))
    assert [g.tolist() for g in gradients] == [[0.0] * 3, [1.0] * 3]
    whole = x.clone()
    whole[1:] = y[1:]
    gradients = st.autograd.grad(whole.sum(), (x, y))
    assert [g.tolist() for g in gradients] == [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    matrix = st.ones(2, 2).requires_grad_()
    (gradient,) = st.autograd.grad(st.linalg.matrix_power(matrix, 0).sum(), matrix)
    assert gradient.tolist() == [[0.0, 0.0], [0.0, 0.0]]
