"""layer_norm, batch_norm, group_norm, instance_norm: values against NumPy, errors, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from roundings import assert_summed

import shmtensor as st

_RNG = np.random.default_rng(0)


def _normal(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.check
@pytest.mark.parametrize("width", [1, 5, 700])
def test_layer_norm_by_definition(width: int) -> None:
    x, w, b = _RNG.standard_normal((4, 3, width)), _RNG.random((3, width)), _RNG.random((3, width))
    got = st.layer_norm(st.from_numpy(x), (3, width), st.from_numpy(w), st.from_numpy(b))
    np.testing.assert_allclose(got.numpy(), _normal(x, (1, 2)) * w + b, atol=1e-12)
    turned = st.from_numpy(x.transpose(2, 1, 0).copy()).permute(2, 1, 0)
    np.testing.assert_allclose(
        st.layer_norm(turned, (width,)).numpy(), _normal(x, (2,)), atol=1e-12
    )


def test_layer_norm_of_16_bit_floats() -> None:
    x = st.from_numpy(_RNG.standard_normal((3, 64)).astype("float32"))
    got = st.layer_norm(x.bfloat16(), (64,))
    assert got.dtype is st.bfloat16
    wide = x.bfloat16().double()
    assert_summed(got, st.layer_norm(wide, (64,)), (wide.abs() + 1) / wide.std(1, keepdim=True))


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 2), (2, 3, 0), (4, 0)], ids=str)
def test_batch_norm_of_nothing_has_no_statistics(shape: tuple[int, ...]) -> None:
    x, w = st.empty(shape, requires_grad=True), st.ones(shape[1], requires_grad=True)
    mean, var = st.ones(shape[1]), st.ones(shape[1])
    got = st.batch_norm(x, w, w, mean, var, True, 0.1, 1e-5, False)
    assert got.shape == shape
    got.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [0] * shape[1]
    assert mean.tolist() == var.tolist() == [1] * shape[1]
    with pytest.raises(RuntimeError, match="input tensor must have at least one element"):
        st.native_batch_norm(x, w, w, mean, var, True, 0.1, 1e-5)


@pytest.mark.check
@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 5)], ids=str)
def test_batch_norm_trains_and_evaluates(shape: tuple[int, ...]) -> None:
    x = _RNG.standard_normal(shape)
    axes = tuple(i for i in range(x.ndim) if i != 1)
    mean, var = np.zeros(3), np.ones(3)
    tm, tv = st.from_numpy(mean.copy()), st.from_numpy(var.copy())
    got = st.batch_norm(st.from_numpy(x), None, None, tm, tv, True, 0.1, 1e-5, False)
    np.testing.assert_allclose(got.numpy(), _normal(x, axes), atol=1e-12)
    np.testing.assert_allclose(tm.numpy(), 0.1 * x.mean(axes))
    np.testing.assert_allclose(tv.numpy(), 0.9 + 0.1 * x.var(axes, ddof=1))
    got = st.batch_norm(st.from_numpy(x), None, None, tm, tv, False, 0.1, 1e-5, False)
    shaped = [v.numpy().reshape(-1, *[1] * (x.ndim - 2)) for v in (tm, tv)]
    np.testing.assert_allclose(got.numpy(), (x - shaped[0]) / np.sqrt(shaped[1] + 1e-5))


def test_group_and_instance_norm_by_definition() -> None:
    x, w, b = _RNG.standard_normal((2, 6, 3, 4)), _RNG.random(6), _RNG.random(6)
    grouped = _normal(x.reshape(2, 3, -1), (2,)).reshape(x.shape)
    expected = grouped * w.reshape(-1, 1, 1) + b.reshape(-1, 1, 1)
    got = st.group_norm(st.from_numpy(x), 3, st.from_numpy(w), st.from_numpy(b))
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)
    got = st.instance_norm(st.from_numpy(x), None, None, None, None, True, 0.1, 1e-5, False)
    np.testing.assert_allclose(got.numpy(), _normal(x, (2, 3)), atol=1e-12)


_TRAINED = (True, 0.1, 1e-5, False)
_X = st.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: st.layer_norm(st.zeros(2, 3), (4,)),
            RuntimeError,
            "Given normalized_shape=[4], expected input with shape [*, 4], but got input of "
            "size[2, 3]",
        ),
        (
            lambda: st.batch_norm(
                st.zeros(2, 3), None, None, st.zeros(4), st.zeros(4), True, 0.1, 1e-5, False
            ),
            RuntimeError,
            "running_mean should contain 3 elements not 4",
        ),
        (
            lambda: st.rms_norm(st.zeros(3), (2, 3)),
            ValueError,
            "Input tensor must have at least 2 dimensions, but got 1",
        ),
        (
            lambda: st.layer_norm(st.zeros(2, 3, dtype=st.float64), (3,), st.ones(3)),
            RuntimeError,
            "all inputs must share same datatype, but the input is Double and a parameter Float",
        ),
        (
            lambda: st.group_norm(st.zeros(2, 3).half(), 1, st.ones(3, dtype=st.float64)),
            RuntimeError,
            "expect parameter to have scalar type of Float, but got Double beside an input of Half",
        ),
        (
            lambda: st.batch_norm(
                st.zeros(2, 3).half(), st.ones(3), None, *[st.ones(3).half()] * 2, *_TRAINED
            ),
            RuntimeError,
            "expect parameter to have scalar type of Float, but got Half beside an input of Half",
        ),
        (
            lambda: st.group_norm(st.zeros(2, 3), 2),
            RuntimeError,
            "Expected number of channels in input to be divisible by num_groups",
        ),
        (
            lambda: st.ops.aten._batch_norm_double_backward(
                *([None] * 3), _X, _X, None, None, _X[0], _X[0], _X[0], False, 1e-5
            ),
            RuntimeError,
            "running_mean and running_var must be defined in evaluation mode",
        ),
        (
            lambda: st.ops.aten._batch_norm_double_backward(
                *([None] * 3), _X[0], _X[0], *([None] * 3), _X[0], _X[0], True, 1e-5
            ),
            RuntimeError,
            "batch_norm: expected an input of two or more dims, got [3]",
        ),
        (
            lambda: st.ops.aten.native_layer_norm_backward(
                _X, _X, [2**62], _X[:, 0], _X[:, 0], _X[0], [1, 1, 1]
            ),
            RuntimeError,
            "layer norm backward: normalized_shape has 4611686018427387904 at dimension 0, "
            "input has shape [2, 3]",
        ),
        (
            lambda: st.ops.aten._group_norm_double_backward(
                *([None] * 3), *([_X] * 4), None, 2, 3, 1, 0
            ),
            RuntimeError,
            "Expected num groups to be greater than 0, got 0",
        ),
    ],
)
def test_wrong_shapes_are_named(call: object, error: type, message: str) -> None:
    with pytest.raises(error) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def _leaf(*shape: int) -> st.Tensor:
    return st.from_numpy(np.random.default_rng(1).random(shape)).requires_grad_()


_MEAN, _VAR = st.full((3,), 0.4, dtype=st.float64), st.full((3,), 0.7, dtype=st.float64)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w, b: st.layer_norm(x, (4,), w, b), ((3, 4), (4,), (4,))),
        (lambda x: st.layer_norm(x, (2, 4)), ((3, 2, 4),)),
        (
            lambda x, w, b: st.batch_norm(x, w, b, None, None, True, 0.1, 1e-5, False),
            ((4, 3, 2), (3,), (3,)),
        ),
        (
            lambda x, w, b: st.batch_norm(x, w, b, _MEAN, _VAR, False, 0.1, 1e-5, False),
            ((4, 3, 2), (3,), (3,)),
        ),
        (lambda x, w, b: st.group_norm(x, 2, w, b), ((2, 4, 3), (4,), (4,))),
    ],
)
def test_gradients(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradcheck(function, tuple(_leaf(*s) for s in shapes))
