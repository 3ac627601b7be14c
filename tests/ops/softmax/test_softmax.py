"""softmax and log_softmax: values against NumPy, extreme inputs, dtypes, gradients."""

from __future__ import annotations

from typing import Any

import levels
import numpy as np
import pytest
from ops.softmax import odd_rows

import shmtensor as st
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


@pytest.mark.check
def test_softmax_of_extreme_numbers() -> None:
    big = st.tensor([1000.0, 1000.0, -1000.0])
    assert st.softmax(big, 0).tolist() == [0.5, 0.5, 0.0]
    assert st.log_softmax(big, 0)[2].item() == pytest.approx(-2000.6931)
    assert st.softmax(st.tensor([0.0, -float("inf")]), 0).tolist() == [1.0, 0.0]
    assert st.softmax(st.full((2,), -float("inf")), 0).isnan().all().item()
    assert st.softmax(st.tensor([float("nan"), 1.0]), 0).isnan().all().item()


@pytest.mark.check
@pytest.mark.parametrize("level", levels.LEVELS)
def test_rows_of_every_length_at_every_level(level: str) -> None:
    assert levels.found_at(level, odd_rows) == []


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


@pytest.mark.check
def test_scalars_and_empty_tensors() -> None:
    assert st.softmax(st.tensor(3.0), 0).item() == 1
    assert st.softmax(st.zeros(2, 0), 1).shape == (2, 0)
    assert st.log_softmax(st.zeros(0, 2), 1).shape == (0, 2)


def _leaf(*shape: int) -> st.Tensor:
    return st.from_numpy(np.random.default_rng(1).random(shape)).requires_grad_()


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda a: st.softmax(a, 1), (2, 3)),
        (lambda a: st.softmax(a, 0), (2, 3, 2)),
        (lambda a: st.log_softmax(a, 1), (2, 3)),
        (lambda a: st.log_softmax(a, 1), (2, 3, 2)),
    ],
)
def test_gradients(function: object, shape: tuple[int, ...]) -> None:
    assert st.autograd.gradcheck(function, (_leaf(*shape),))


@pytest.mark.parametrize("function", [lambda a: st.softmax(a, 1), lambda a: st.log_softmax(a, 1)])
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
