"""Losses: values against NumPy, special values, reductions, errors, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor.nn.functional as nnf
from shmtensor import _C

_RNG = np.random.default_rng(0)
_FIRST = _RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _the_same_numbers_in_every_order() -> None:
    _RNG.bit_generator.state = _FIRST


def _softmax(a: np.ndarray, dim: int) -> np.ndarray:
    e = np.exp(a - a.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def _nll(
    log_p: np.ndarray, target: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(target))
    w = np.ones(log_p.shape[1]) if weight is None else weight
    keep = target != -100
    safe = np.where(keep, target, 0)
    return np.where(keep, -log_p[rows, safe] * w[safe], 0.0), np.where(keep, w[safe], 0.0)


@pytest.mark.check
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_nll_loss_and_cross_entropy(weighted: bool, reduction: str) -> None:
    x = _RNG.standard_normal((6, 4))
    target = np.array([0, 3, 1, -100, 2, 2])
    weight = _RNG.random(4) if weighted else None
    log_p = np.log(_softmax(x, 1))
    losses, used = _nll(log_p, target, weight)
    expected = {"none": losses, "mean": losses.sum() / used.sum(), "sum": losses.sum()}[reduction]
    arguments = (st.from_numpy(target), st.from_numpy(weight) if weighted else None)
    got = nnf.nll_loss(st.from_numpy(log_p), *arguments, reduction=reduction)
    np.testing.assert_allclose(got.numpy(), expected)
    got = nnf.cross_entropy(st.from_numpy(x), *arguments, reduction=reduction)
    np.testing.assert_allclose(got.numpy(), expected)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 2, 2, 2)], ids=str)
def test_losses_over_positions(shape: tuple[int, ...]) -> None:
    x = _RNG.standard_normal(shape)
    target = _RNG.integers(0, 3, (shape[0], *shape[2:]))
    flat = np.moveaxis(x, 1, -1).reshape(-1, 3)
    losses, _ = _nll(np.log(_softmax(flat, 1)), target.reshape(-1), None)
    got = nnf.cross_entropy(st.from_numpy(x), st.from_numpy(target), reduction="none")
    np.testing.assert_allclose(got.numpy(), losses.reshape(target.shape))
    assert nnf.cross_entropy(st.from_numpy(x), st.from_numpy(target)).item() == pytest.approx(
        losses.mean()
    )


def test_label_smoothing_mixes_with_the_uniform_loss() -> None:
    x = _RNG.standard_normal((5, 4))
    target = np.array([0, 1, 2, 3, -100])
    log_p = np.log(_softmax(x, 1))
    hard, _ = _nll(log_p, target, None)
    smooth = np.where(target != -100, -log_p.sum(1), 0)
    expected = 0.9 * hard.sum() / 4 + 0.1 / 4 * smooth.sum() / 4
    got = nnf.cross_entropy(st.from_numpy(x), st.from_numpy(target), label_smoothing=0.1)
    assert got.item() == pytest.approx(expected)


def test_probabilities_as_targets() -> None:
    x, p = _RNG.standard_normal((5, 4)), _softmax(_RNG.standard_normal((5, 4)), 1)
    expected = -(np.log(_softmax(x, 1)) * p).sum() / 5
    got = nnf.cross_entropy(st.from_numpy(x), st.from_numpy(p))
    assert got.item() == pytest.approx(expected)


def test_all_targets_ignored_is_nan() -> None:
    assert nnf.cross_entropy(st.zeros(2, 3), st.tensor([-100, -100])).isnan().item()


@pytest.mark.parametrize("dtype", [st.float16, st.float32, st.float64])
@pytest.mark.parametrize("n", [1, 2049, 150_000])
@pytest.mark.parametrize("loss", [nnf.mse_loss, nnf.l1_loss, nnf.smooth_l1_loss, nnf.huber_loss])
def test_losses_of_differences_sum_without_a_tensor_of_errors(
    loss: Any, n: int, dtype: st.dtype
) -> None:
    a, b = st.from_numpy(_RNG.standard_normal((2, n)) * 2).to(dtype).unbind()
    tolerance = {st.float16: 2e-3, st.float32: 1e-6, st.float64: 1e-13}[dtype]
    exact = loss(a.double(), b.double(), reduction="none")
    for reduction, expected in (("mean", exact.mean()), ("sum", exact.sum())):
        if dtype is st.float16 and reduction == "sum" and n > 2049:
            continue  # beyond its range
        got = loss(a, b, reduction=reduction)
        recorded = loss(a.clone().requires_grad_(), b, reduction=reduction)
        assert got.item() == pytest.approx(expected.item(), rel=tolerance)
        assert got.item() == pytest.approx(recorded.item(), rel=2 * tolerance)
        assert recorded.grad_fn is not None


@pytest.mark.check
def test_losses_of_two_dtypes_promote_but_for_huber() -> None:
    a, b = st.ones(3), st.zeros(3, dtype=st.float64)
    for reduction in ("none", "mean"):
        assert nnf.smooth_l1_loss(a, b, reduction=reduction).dtype is st.float64
        assert nnf.huber_loss(a, b, reduction=reduction).dtype is st.float32
        assert nnf.huber_loss(b, a, reduction=reduction).dtype is st.float64


@pytest.mark.parametrize("loss", [nnf.mse_loss, nnf.l1_loss, nnf.smooth_l1_loss, nnf.huber_loss])
def test_losses_of_special_differences(loss: Any) -> None:
    inf, nan = float("inf"), float("nan")
    assert loss(st.tensor([inf, 0.0]), st.zeros(2)).item() == inf
    assert st.isnan(loss(st.tensor([0.0, nan]), st.zeros(2))).item()
    assert st.isnan(loss(st.tensor([inf]), st.tensor([inf]))).item()
    assert loss(st.ones(0), st.ones(0), reduction="sum").item() == 0


def test_elementwise_losses() -> None:
    a, b = _RNG.random((3, 4)), _RNG.random((3, 4))
    d = a - b
    nn = _C._nn
    ta, tb = st.from_numpy(a), st.from_numpy(b)
    assert nn.mse_loss(ta, tb, 1).item() == pytest.approx((d**2).mean())
    assert nn.l1_loss(ta, tb, 2).item() == pytest.approx(np.abs(d).sum())
    beta = np.where(np.abs(d) < 0.3, d**2 / 0.6, np.abs(d) - 0.15)
    np.testing.assert_allclose(nn.smooth_l1_loss(ta, tb, 0, 0.3).numpy(), beta)
    np.testing.assert_allclose(nn.huber_loss(ta, tb, 0, 0.3).numpy(), beta * 0.3)
    bce = -(b * np.log(a) + (1 - b) * np.log(1 - a))
    np.testing.assert_allclose(nn.binary_cross_entropy(ta, tb, None, 0).numpy(), bce)
    logits = np.log(a / (1 - a))
    got = st.binary_cross_entropy_with_logits(st.from_numpy(logits), tb, None, None, 0)
    np.testing.assert_allclose(got.numpy(), bce, rtol=1e-9)
    np.testing.assert_allclose(st.kl_div(ta, tb, 0).numpy(), b * (np.log(b) - a))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: nnf.cross_entropy(st.zeros(2, 3), st.tensor([1, 5])),
            IndexError,
            "Target 5 is out of bounds.",
        ),
        (
            lambda: nnf.nll_loss(st.zeros(0), st.zeros(0, dtype=st.int64)),
            ValueError,
            "For 1D input, 1D target must have size 1, but got target size: 0",
        ),
        (
            lambda: nnf.cross_entropy(st.zeros(2, 3), st.zeros(3, dtype=st.int64)),
            ValueError,
            "Expected input batch_size (2) to match target batch_size (3).",
        ),
        (
            lambda: nnf.nll_loss(st.zeros(2, 3), st.zeros(2)),
            RuntimeError,
            "expected target dtype to be Long or Byte, but got Float",
        ),
        (
            lambda: nnf.nll_loss(st.zeros(2, 3), st.tensor([0, 1]), weight=st.zeros(2)),
            RuntimeError,
            "for all 3 classes or no classes but got weight tensor of shape: [2]",
        ),
        (
            lambda: nnf.nll_loss(st.zeros(2, 3, 4), st.zeros(2, 5, dtype=st.int64)),
            RuntimeError,
            "Expected target size [2, 4], got [2, 5]",
        ),
        (
            lambda: nnf.cross_entropy(st.zeros(2, 3), st.tensor([1, 1]), label_smoothing=2.0),
            RuntimeError,
            "label_smoothing must be between 0.0 and 1.0. Got: 2",
        ),
        (
            lambda: _C._nn.binary_cross_entropy(st.tensor([2.0]), st.tensor([1.0])),
            RuntimeError,
            "all elements of input should be between 0 and 1",
        ),
        (
            lambda: _C._nn.binary_cross_entropy(st.tensor([1.0]), st.tensor([-0.5])),
            RuntimeError,
            "all elements of target should be between 0 and 1, but they are from -0.5 to -0.5",
        ),
    ],
)
def test_impossible_targets_are_named(call: object, error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def _leaf(*shape: int) -> st.Tensor:
    return st.from_numpy(np.random.default_rng(1).random(shape)).requires_grad_()


_TARGET = st.tensor([0, 2, -100])
_WEIGHT = st.tensor([0.5, 1.5, 2.0], dtype=st.float64)
_GOAL = st.tensor([[0.1, 0.9, 0.5], [0.3, 0.2, 1.0]], dtype=st.float64)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda a: nnf.cross_entropy(a, _TARGET, _WEIGHT), ((3, 3),)),
        (lambda a: nnf.cross_entropy(a, _TARGET, reduction="none"), ((3, 3),)),
        (lambda a: nnf.cross_entropy(a, _TARGET, _WEIGHT, label_smoothing=0.2), ((3, 3),)),
        (lambda a: nnf.cross_entropy(a, st.ones(1, 2, 2, dtype=st.int64)), ((1, 3, 2, 2),)),
        (lambda a: nnf.nll_loss(a, _TARGET, reduction="sum"), ((3, 3),)),
        (lambda a, b: _C._nn.mse_loss(a, b), ((2, 3), (2, 3))),
        (lambda a, b: _C._nn.mse_loss(a, b, 0), ((2, 3), (2, 3))),
        (lambda a, b: _C._nn.smooth_l1_loss(a, b + 1, 2, 0.7), ((2, 3), (2, 3))),
        (lambda a: _C._nn.binary_cross_entropy(a, _GOAL), ((2, 3),)),
        (lambda a: st.binary_cross_entropy_with_logits(a, _GOAL, None, _GOAL + 1), ((2, 3),)),
    ],
)
def test_gradients(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradcheck(function, tuple(_leaf(*s) for s in shapes))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: nnf.cross_entropy(a, _TARGET),
        lambda a: _C._nn.mse_loss(a, _WEIGHT),
    ],
)
def test_second_derivatives(function: object) -> None:
    assert st.autograd.gradgradcheck(function, (_leaf(3, 3),))
