"""Numbers at the ends of their ranges, NaN and ties: values, and gradients beside them."""

from __future__ import annotations

import math
from typing import Any

import pytest

import shmtensor as st
from shmtensor.nn import functional as F

NAN, INF = math.nan, math.inf


def leaf(values: list[Any], dtype: Any = st.float64) -> st.Tensor:
    return st.tensor(values, dtype=dtype).requires_grad_()


def gradient(function: Any, *leaves: st.Tensor) -> list[float]:
    return st.autograd.grad(function(*leaves).sum(), leaves)[0].tolist()


def twice(function: Any, x: st.Tensor) -> list[float]:
    (first,) = st.autograd.grad(function(x).sum(), x, create_graph=True)
    return st.autograd.grad(first.sum(), x)[0].tolist()


@pytest.mark.check
@pytest.mark.parametrize("columns", [1, 2, 9])
@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e30])
def test_deviations_whose_squares_leave_float32(scale: float, columns: int) -> None:
    x = st.tensor([scale, -scale, 0.0] * 7).reshape(21, 1).expand(21, columns).contiguous()
    deviation = scale * math.sqrt(14 / 20)
    assert x.std(0).tolist() == pytest.approx([deviation] * columns, rel=1e-6)
    assert x.T.contiguous().std(1).tolist() == pytest.approx([deviation] * columns, rel=1e-6)
    assert x.T.std(1).tolist() == pytest.approx([deviation] * columns, rel=1e-6)
    assert st.full((40, columns), scale).std(0).tolist() == [0] * columns


@pytest.mark.parametrize("function", [st.max, st.min, st.median])
def test_gradient_of_an_extreme_that_is_nan_goes_to_the_nans(function: Any) -> None:
    assert gradient(function, leaf([NAN, 1.0, NAN, 2.0])) == [0.5, 0, 0.5, 0]


def test_logcumsumexp_gradient_of_the_largest_numbers() -> None:
    assert gradient(lambda x: st.logcumsumexp(x, 0), leaf([3.4e38, 1.0], st.float32)) == [1, 0]
    x = leaf([0.0, 2.0, 1.0])
    two, three = 1 + math.exp(2), 1 + math.exp(2) + math.exp(1)
    slopes = [1 + 1 / two + 1 / three, math.exp(2) * (1 / two + 1 / three), math.exp(1) / three]
    assert gradient(lambda x: st.logcumsumexp(x, 0), x) == pytest.approx(slopes)
    assert twice(lambda x: st.logcumsumexp(x, 0), x) == pytest.approx([0, 0, 0], abs=1e-12)
    half = twice(lambda x: st.logcumsumexp(x, 0), x.detach().half().requires_grad_())
    assert half == pytest.approx([0, 0, 0], abs=0.01)


def test_half_logsumexp_over_columns_is_rounded_once() -> None:
    x = st.tensor([[-1.0], [-0.5]], dtype=st.float16)
    assert st.logsumexp(x, 0).item() == st.logsumexp(x.float(), 0).half().item()


def test_gradients_of_losses_of_infinite_and_largest_differences() -> None:
    zeros = st.zeros(3, dtype=st.float64)
    assert gradient(
        F.smooth_l1_loss, leaf([INF, -INF, 0.5]), zeros.clone().requires_grad_()
    ) == pytest.approx([1 / 3, -1 / 3, 0.5 / 3])
    assert gradient(
        lambda x: F.huber_loss(x, zeros, delta=0.25), leaf([INF, -1.0, 0.125])
    ) == pytest.approx([0.25 / 3, -0.25 / 3, 0.125 / 3])
    assert math.isnan(gradient(lambda x: F.smooth_l1_loss(x, zeros), leaf([NAN, 0, 0]))[0])
    assert gradient(lambda x: F.mse_loss(x, zeros), leaf([1.5e308, 0, 3])) == [1e308, 0, 2]
    second = twice(lambda x: F.smooth_l1_loss(x, zeros, reduction="sum"), leaf([3.0, -0.5, 0]))
    assert second == [0, 1, 1]


def test_hardswish_gradient_of_nan() -> None:
    slopes = gradient(F.hardswish, leaf([NAN, INF, -INF, 3.0, -3.0, 0.0]))
    assert math.isnan(slopes[0])
    assert slopes[1:] == [1, 0, 1, 0, 0.5]


def test_complex_to_the_power_one_is_itself() -> None:
    x = st.tensor([complex(INF, 2), complex(3, -INF), complex(-0.0, -0.0)])
    for power in (
        x**1,
        st.pow(x, 1.0, out=st.empty_like(x)),
        x.clone().pow_(1),
        x.conj().pow(1).conj(),
    ):
        assert st.view_as_real(power.resolve_conj()).tolist() == st.view_as_real(x).tolist()
        assert math.copysign(1, st.view_as_real(power.resolve_conj())[2, 0].item()) == -1


def test_integrals_of_the_largest_integers_do_not_wrap_twice() -> None:
    y = st.tensor([2**62, 2**62 - 1, 2**62, 2**62 - 1])
    assert st.cumulative_trapezoid(y).tolist() == pytest.approx([2.0**62, 2.0**63, 3 * 2.0**62])


@pytest.mark.check
def test_even_gradient_does_not_look_at_the_middle() -> None:
    (slope,) = st.gradient(st.tensor([1.0, INF, 2.0, 3.0, 7.0]), spacing=2.0)
    assert slope.tolist() == [INF, 0.25, -INF, 1.25, 2.0]


def test_half_sinc_gradient_does_not_overflow() -> None:
    x = leaf([89.0, 100.0, 0.0], st.float16)
    assert gradient(st.sinc, x) == pytest.approx([-1 / 89, 1 / 100, 0], rel=0.02)


def test_distance_counts_keep_nan_and_their_gradients_are_zeros() -> None:
    x = leaf([[NAN, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert [math.isnan(d) for d in F.pdist(x, 0).tolist()] == [True, True, False]
    assert [math.isnan(d) for d in st.cdist(x[:1], x, 0)[0].tolist()] == [True] * 3
    assert gradient(lambda x: F.pdist(x, 0.0), leaf([[0.0, 1.0], [1.0, 1.0]])) == [[0, 0], [0, 0]]
    assert F.pdist(leaf([[0.0, 1.0], [1.0, 1.0]]), 0).tolist() == [1]


def test_norm_of_order_zero_has_no_gradient() -> None:
    x = leaf([1.0, 0.0])
    assert st.autograd.grad(st.linalg.vector_norm(x, 0), x, allow_unused=True) == (None,)


@pytest.mark.parametrize("order", [0.5, 1.5, 3.0, -1.0])
def test_second_gradients_of_norms_beside_zeros(order: float) -> None:
    def norms(x: st.Tensor) -> st.Tensor:
        return st.linalg.vector_norm(x, order, dim=1)

    values = twice(norms, leaf([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]))
    assert values[0][0] == 0
    assert values[1] == [0, 0, 0]
    alone = twice(norms, leaf([[1.0, 2.0]]))[0] if order > 0 else [0, 0]
    assert values[0][1:] == pytest.approx(alone)


def test_largest_norm_that_is_nan_shares_its_gradient_between_the_nans() -> None:
    assert gradient(lambda x: st.linalg.vector_norm(x, INF), leaf([1.0, NAN, 2.0]))[::2] == [0, 0]


def test_margins_of_nan_cost_nothing() -> None:
    x = st.tensor([[NAN, 1.0, 2.0, 3.0]], dtype=st.float64)
    assert F.multi_margin_loss(x, st.tensor([1])).item() == 1.25
    assert F.multi_margin_loss(x, st.tensor([0])).item() == 0
    assert F.multilabel_margin_loss(x, st.tensor([[1, 2, -1, 0]])).item() == 1.25


@pytest.mark.parametrize("dtype", [st.float64, st.complex64])
def test_cholesky_of_nan(dtype: st.dtype) -> None:
    x = st.eye(3, dtype=dtype)
    x[1, 1] = NAN
    with pytest.raises(st.linalg.LinAlgError, match="order 2 is not positive-definite"):
        st.linalg.cholesky(x)
    assert st.linalg.cholesky_ex(st.stack([st.eye(3, dtype=dtype), x])).info.tolist() == [0, 2]


def test_product_of_one_number_has_slope_one() -> None:
    for value in (INF, NAN, 0.0):
        x = st.tensor(value, requires_grad=True)
        assert st.autograd.grad(x.prod(), x)[0].item() == 1
        assert st.autograd.grad(x.prod(0), x)[0].item() == 1
