"""Gradients that are constant piece by piece.

With create_graph they require grad, and their derivatives are zeros. Those of operators whose
formulas look at the input: tests/nn/test_second_derivatives.py, tests/ops/spec.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st

F = st.nn.functional

CONSTANT: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), (1, 2, 6)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (1, 2, 4, 4)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (1, 1, 2, 4, 4)),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 2), (1, 2, 6)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, padding=1), (1, 2, 4, 4)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), (1, 1, 2, 4, 4)),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 3), (1, 2, 5)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, 3), (1, 2, 5, 4)),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, 2), (1, 1, 3, 3, 3)),
    "adaptive_avg_pool1d": (lambda x: F.adaptive_avg_pool1d(x, 3), (1, 2, 5)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (3, 1)), (1, 2, 5, 4)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, 2), (1, 1, 3, 3, 3)),
    "fractional_max_pool2d": (lambda x: F.fractional_max_pool2d(x, 2, 3), (1, 1, 6, 6)),
    "reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), (2, 3, 5)),
    "replicate": (lambda x: F.pad(x, (2, 1), mode="replicate"), (2, 3, 5)),
    "stft": (lambda x: st.view_as_real(st.stft(x, 8, return_complex=True)), (40,)),
    "nll_loss": (lambda x: F.nll_loss(x, st.tensor([0, 2])), (2, 3)),
    "nll_loss2d": (lambda x: F.nll_loss(x, st.tensor([[0, 2]])), (1, 3, 2)),
    "fmod": (lambda x: st.fmod(st.full_like(x, 2.0), x), (4,)),
    "area": (lambda x: F.interpolate(x, 2, mode="area"), (1, 2, 5)),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_constant_gradient_requires_grad(name: str) -> None:
    function, shape = CONSTANT[name]
    x = (st.randn(*shape, dtype=st.float64) + 3).requires_grad_()
    (gradient,) = st.autograd.grad(function(x).sum(), x, create_graph=True)
    assert gradient.requires_grad
    (second,) = st.autograd.grad(gradient.sum(), x)
    assert second.shape == x.shape
    assert not second.any()


@pytest.mark.parametrize("name", CONSTANT)
def test_constant_gradient_is_linear_in_what_comes_in(name: str) -> None:
    function, shape = CONSTANT[name]
    x = (st.randn(*shape, dtype=st.float64) + 3).requires_grad_()
    st.manual_seed(1)
    result = function(x)
    seed = st.randn(result.shape, dtype=st.float64).requires_grad_()
    (gradient,) = st.autograd.grad(result, x, seed, create_graph=True)
    weight = st.randn(*shape, dtype=st.float64)
    (back,) = st.autograd.grad(gradient, seed, weight, retain_graph=True)
    # <J^T seed, weight> = <seed, J weight>
    assert st.allclose((gradient * weight).sum(), (seed * back).sum())
    both = st.autograd.grad(gradient, (x, seed), weight)
    assert not both[0].any()
    assert st.equal(both[1], back)


@pytest.mark.parametrize("name", CONSTANT)
def test_without_create_graph_nothing_is_recorded(name: str) -> None:
    function, shape = CONSTANT[name]
    x = st.rand(*shape, dtype=st.float64).add(1).requires_grad_()
    (gradient,) = st.autograd.grad(function(x).sum(), x)
    assert not gradient.requires_grad


@pytest.mark.check
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.pad(x, (1, 1), mode="circular"),
        lambda x: F.adaptive_avg_pool2d(x, 1),
        lambda x: F.interpolate(x, 4, mode="nearest"),
    ],
    ids=["circular", "mean", "nearest"],
)
def test_gradient_of_a_linear_map_depends_on_nothing(function: Callable[[Any], Any]) -> None:
    x = st.rand(1, 2, 3, dtype=st.float64).requires_grad_()
    (gradient,) = st.autograd.grad(function(x).sum(), x, create_graph=True)
    assert not gradient.requires_grad


def test_slope_of_prelu_depends_on_the_input() -> None:
    x = st.tensor([-2.0, 3.0]).requires_grad_()
    w = st.tensor([0.5])
    (gradient,) = st.autograd.grad(F.prelu(x, w).sum(), x, create_graph=True)
    assert gradient.tolist() == [0.5, 1.0]
    assert st.autograd.grad(gradient.sum(), x)[0].tolist() == [0.0, 0.0]


def test_zeros_have_the_shapes_of_the_inputs() -> None:
    x = st.randn(2, 3, 4, dtype=st.float64).requires_grad_()
    w = st.rand(3, dtype=st.float64).requires_grad_()
    gradients = st.autograd.grad(F.prelu(x, w).sum(), (x, w), create_graph=True)
    second = st.autograd.grad([g.sum() for g in gradients], (x, w))
    assert [t.shape for t in second] == [(2, 3, 4), (3,)]
    assert st.allclose(second[1], (x <= 0).sum((0, 2)).to(st.float64))


@pytest.mark.check
def test_gradient_accumulates_through_a_graph() -> None:
    x = st.tensor([[[1.0, 3.0, 2.0, 5.0]]], dtype=st.float64).requires_grad_()
    (gradient,) = st.autograd.grad(F.max_pool1d(x * x, 2).sum(), x, create_graph=True)
    assert gradient.tolist() == [[[0.0, 6.0, 0.0, 10.0]]]
    (second,) = st.autograd.grad(gradient.sum(), x)
    assert second.tolist() == [[[0.0, 2.0, 0.0, 2.0]]]


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: F.hardsigmoid(x).sum(), "hardsigmoid_backward"),
        (lambda x: F.multi_margin_loss(x, st.tensor([0])), "multi_margin_loss_backward"),
        (
            lambda x: F.multilabel_margin_loss(x, st.tensor([[0, -1]])),
            "multilabel_margin_loss_back",
        ),
        (lambda x: F.ctc_loss(x[None].log_softmax(-1), st.tensor([[1]]), (1,), (1,)), "_ctc_loss_"),
    ],
    ids=["hardsigmoid", "multi_margin", "multilabel_margin", "ctc"],
)
def test_missing_second_derivative_raises(function: Callable[[Any], Any], name: str) -> None:
    x = st.tensor([[0.5, 0.2]], dtype=st.float64).requires_grad_()
    (gradient,) = st.autograd.grad(function(x), x, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(RuntimeError, match=f"derivative for aten::{name}.* is not implemented"):
        st.autograd.grad(gradient.sum(), x)


def test_second_derivatives_of_prelu_at_zero_are_zero() -> None:
    x = st.tensor([0.0, -0.0, 1.0, -1.0]).requires_grad_()
    w = st.tensor([0.25]).requires_grad_()
    first = st.autograd.grad(F.prelu(x, w).sum(), (x, w), create_graph=True)
    assert first[0].tolist() == [0.25, 0.25, 1.0, 0.25]
    second = st.autograd.grad(first[0].sum() + 3 * first[1].sum(), (x, w))
    assert second[0].tolist() == [0, 0, 0, 3]
    assert second[1].tolist() == [1]
