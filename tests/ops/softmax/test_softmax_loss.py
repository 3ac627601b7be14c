"""Softmax and losses: values against NumPy, extremes, reductions, errors, gradients."""

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


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 5, 100])
def test_softmax_along_any_dim(dim: int, dtype: str, width: int) -> None:
    a = (_RNG.standard_normal((3, 7, width)) * 5).astype(dtype)
    expected = _softmax(a.astype("float64"), dim)
    rtol = 1e-5 if dtype == "float32" else 1e-12
    t = st.from_numpy(a)
    np.testing.assert_allclose(st.softmax(t, dim).numpy(), expected, rtol, 1e-7)
    log = st.log_softmax(t, dim).numpy()
    np.testing.assert_allclose(
        log, np.log(expected), rtol * 10, 1e-5 if dtype == "float32" else 1e-12
    )
    turned = st.from_numpy(a.transpose(2, 0, 1).copy()).permute(1, 2, 0)
    np.testing.assert_allclose(st.softmax(turned, dim).numpy(), expected, rtol, 1e-7)


def test_softmax_of_extreme_numbers() -> None:
    big = st.tensor([1000.0, 1000.0, -1000.0])
    assert st.softmax(big, 0).tolist() == [0.5, 0.5, 0.0]
    assert st.log_softmax(big, 0)[2].item() == pytest.approx(-2000.6931)
    assert st.softmax(st.tensor([0.0, -float("inf")]), 0).tolist() == [1.0, 0.0]
    assert st.softmax(st.full((2,), -float("inf")), 0).isnan().all().item()
    assert st.softmax(st.tensor([float("nan"), 1.0]), 0).isnan().all().item()


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
def test_softmax_of_16_bit_floats_is_rounded_once(dtype: st.dtype) -> None:
    a = st.from_numpy(_RNG.standard_normal((4, 50)).astype("float32")).to(dtype)
    assert st.equal(st.softmax(a, 1), st.softmax(a.float(), 1).to(dtype))
    assert st.softmax(a, 0).dtype is dtype


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16])
@pytest.mark.parametrize("length", [3, 128, 129])
@pytest.mark.parametrize("function", [st.softmax, st.log_softmax])
def test_columns_of_16_bit_floats_are_rounded_once(
    dtype: st.dtype, length: int, function: Any
) -> None:
    a = st.from_numpy(_RNG.standard_normal((length, 70)).astype("float32")).to(dtype)
    grad = st.from_numpy(_RNG.standard_normal((length, 70)).astype("float32")).to(dtype)
    halves = a.clone().requires_grad_()
    assert st.equal(function(halves, 0), function(a.float(), 0).to(dtype))
    (got,) = st.autograd.grad(function(halves, 0), halves, grad)
    # The gradient is the rounded result's, rounded once; its sum loses `length` roundings.
    out = function(halves, 0).detach().double()
    g = grad.double()
    if function is st.softmax:
        want, scale = (g - (g * out).sum(0)) * out, out
    else:
        want, scale = g - out.exp() * g.sum(0), out.exp()
    lost = length * st.finfo(st.float32).eps * g.abs().max() * scale
    half_step = st.finfo(dtype).eps / 2
    smallest = st.finfo(dtype).smallest_normal * st.finfo(dtype).eps
    assert ((got.double() - want).abs() <= half_step * want.abs() + lost + smallest).all()


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
def test_short_rows_are_calculated_together(dtype: st.dtype) -> None:
    # The gradient is made from the logarithm, which bfloat16 has rounded by up to 0.03.
    rtol, atol = {
        st.float32: (1e-6, 1e-6),
        st.float64: (1e-14, 1e-14),
        st.bfloat16: (4e-3, 4e-2),
    }[dtype]
    for length in (1, 2, 3, 10, 16, 19, 20, 21):
        for rows in (1, 25, 26, 600):
            x = (st.from_numpy(_RNG.standard_normal((rows, length)) * 4)).to(dtype)
            x[0, 0] = float("nan")
            x[-1, -1] = -float("inf")
            grad = st.from_numpy(_RNG.standard_normal((rows, length))).to(dtype)
            with np.errstate(invalid="ignore", divide="ignore"):
                expected = _softmax(x.double().numpy(), 1)
                logs = np.log(expected)
            y = x.clone().requires_grad_()
            log = y.log_softmax(1)
            log.backward(grad)
            wide = grad.double().numpy()
            back = wide - expected * wide.sum(1, keepdims=True)
            for found, right in ((x.softmax(1), expected), (log, logs), (y.grad, back)):
                np.testing.assert_allclose(
                    found.detach().double().numpy(), right, rtol, atol, equal_nan=True
                )


def test_softmax_takes_a_dtype() -> None:
    assert st.softmax(st.arange(3), 0, dtype=st.float64).dtype is st.float64
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        st.softmax(st.arange(3), 0)


def test_scalars_and_empty_tensors() -> None:
    assert st.softmax(st.tensor(3.0), 0).item() == 1
    assert st.softmax(st.zeros(2, 0), 1).shape == (2, 0)
    assert st.log_softmax(st.zeros(0, 2), 1).shape == (0, 2)


def _nll(
    log_p: np.ndarray, target: np.ndarray, weight: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(target))
    w = np.ones(log_p.shape[1]) if weight is None else weight
    keep = target != -100
    safe = np.where(keep, target, 0)
    return np.where(keep, -log_p[rows, safe] * w[safe], 0.0), np.where(keep, w[safe], 0.0)


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
        (lambda a: st.softmax(a, 1), ((2, 3),)),
        (lambda a: st.softmax(a, 0), ((2, 3, 2),)),
        (lambda a: st.log_softmax(a, 1), ((2, 3),)),
        (lambda a: st.log_softmax(a, 1), ((2, 3, 2),)),
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
        lambda a: st.softmax(a, 1),
        lambda a: st.log_softmax(a, 1),
        lambda a: nnf.cross_entropy(a, _TARGET),
        lambda a: _C._nn.mse_loss(a, _WEIGHT),
    ],
)
def test_second_derivatives(function: object) -> None:
    assert st.autograd.gradgradcheck(function, (_leaf(3, 3),))


def test_gradients_of_softmax_have_the_dtype_of_its_result() -> None:
    a = st.ones(2, 3, dtype=st.float16)
    for function in (_C._softmax_backward_data, _C._log_softmax_backward_data):
        assert function(a, a, 1, st.float32).dtype is st.float16


@pytest.mark.parametrize("dtype", [st.bool, st.int32])
def test_softmax_of_nothing_has_any_dtype(dtype: st.dtype) -> None:
    nothing = st.empty(3, 0, dtype=dtype)
    for got in (nothing.softmax(0), nothing.log_softmax(1)):
        assert got.shape == (3, 0)
        assert got.dtype is dtype
    with pytest.raises(NotImplementedError):
        st.ones(3, dtype=dtype).softmax(0)
