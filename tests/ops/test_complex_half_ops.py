"""Operators on complex32: each equals the complex64 result rounded once; the rest raise.

Promotion, casts and views are in ``tests/tensor/test_complex_half.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st


def halves(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(*shape, 2)).astype(np.float16)
    return st.view_as_complex(st.from_numpy(parts))


def equals_complex64(function: Callable[..., Any], *inputs: Any) -> None:
    """The halves' result must be that of complex64, rounded to the result's dtype."""
    got = function(*inputs)
    want = function(*(t.to(st.complex64) for t in inputs))
    narrow = {st.complex64: st.complex32, st.float32: st.float16}.get(want.dtype, want.dtype)
    assert got.dtype is narrow
    assert got.shape == want.shape
    assert got.tolist() == want.to(narrow).tolist()


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a + b,
        lambda a, b: a - b,
        lambda a, b: a * b,
        lambda a, b: st.add(a, b, alpha=2 - 1j),
        lambda a, b: st.rsub(a, b),
        lambda a, b: a == b,
        lambda a, b: a != b,
        lambda a, b: st.where(a.real > 0, a, b),
        lambda a, b: st.addcmul(a, a, b, value=0.5),
        lambda a, b: st.cat([a, b], 1),
        lambda a, b: st.stack([a, b]).flatten(),
        lambda a, b: st.block_diag(a, b),
        lambda a, b: a.t() + b,
        lambda a, b: a[:, ::2] * b[:, 1:3],
        lambda a, b: a.masked_fill(b.real > 0, 2j),
    ],
)
def test_two_operands(function: Callable[..., Any]) -> None:
    equals_complex64(function, halves(4, 4), halves(4, 4, seed=1))


@pytest.mark.parametrize(
    "function",
    [
        st.neg,
        st.abs,
        st.sgn,
        st.conj_physical,
        st.positive,
        st.isfinite,
        st.isinf,
        st.isnan,
        st.isreal,
        st.any,
        st.all,
        st.count_nonzero,
        st.nonzero,
        lambda a: a.any(0),
        lambda a: a.roll(2, 1),
        lambda a: a.flip(0),
        lambda a: a.repeat(2, 1),
        lambda a: a.tril() + a.triu(1),
        lambda a: a[[2, 0]],
        lambda a: a[a.real > 0],
        lambda a: a.index_select(1, st.tensor([3, 3, 0])),
        lambda a: a.gather(0, st.zeros(1, 5, dtype=st.int64)),
        lambda a: a.index_fill(0, st.tensor([1]), 1 + 1j),
        lambda a: a.index_copy(0, st.tensor([1]), a[:1]),
        lambda a: a.index_add(0, st.tensor([2]), a[:1], alpha=2),
        lambda a: a.repeat_interleave(2, 1),
        lambda a: a.unfold(1, 2, 1),
        lambda a: a.diagonal().conj().contiguous(),
        lambda a: st.nn.functional.pad(a, (1, 2), value=3),
        lambda a: st.fft.fftshift(a),
    ],
)
def test_one_operand(function: Callable[[Any], Any]) -> None:
    equals_complex64(function, halves(4, 5))


@pytest.mark.check
def test_long_runs_equal_short_ones() -> None:
    a, b = halves(3, 1000), halves(3, 1000, seed=1)
    equals_complex64(lambda x, y: x * y, a, b)
    equals_complex64(lambda x, y: x * y[:, :1], a, b)


@pytest.mark.parametrize("order", [0, 1, 2, 3, float("inf"), float("-inf")])
def test_norms_are_halves(order: float) -> None:
    z = halves(3, 40)
    got = st.linalg.vector_norm(z, order, dim=1)
    want = st.linalg.vector_norm(z.to(st.complex128), order, dim=1)
    assert got.dtype is st.float16
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=2e-3)


def test_accumulated_index_put() -> None:
    z = st.zeros(3, dtype=st.complex32)
    z.index_put_(
        (st.tensor([0, 2, 0]),), st.tensor([1j, 2, 3], dtype=st.complex32), accumulate=True
    )
    assert z.tolist() == [3 + 1j, 0j, 2 + 0j]


def test_complex_of_halves() -> None:
    half = st.tensor([1.5, -2], dtype=st.float16)
    assert st.complex(half, 2 * half).tolist() == [1.5 + 3j, -2 - 4j]
    assert st.complex(half, half).dtype is st.complex32
    with pytest.raises(NotImplementedError, match="\"polar_cpu\" not implemented for 'Half'"):
        st.polar(half, half)


def test_in_place_and_out() -> None:
    z = halves(5)
    want = (z + z * 2j).tolist()
    out = st.empty(0, dtype=st.complex32)
    assert st.add(z, z * 2j, out=out) is out
    assert out.tolist() == want
    z.add_(z * 2j)
    assert z.tolist() == want
    assert z.copy_(st.arange(5)).tolist() == [0j, 1 + 0j, 2 + 0j, 3 + 0j, 4 + 0j]
    with pytest.raises(RuntimeError, match="result type ComplexHalf can't be cast to the desired"):
        st.zeros(5, dtype=st.float16).add_(z)


@pytest.mark.check
@pytest.mark.parametrize("name", ["randn", "rand"])
def test_random_numbers_are_those_of_halves(name: str) -> None:
    st.manual_seed(3)
    z = getattr(st, name)(20, dtype=st.complex32)
    assert z.dtype is st.complex32
    assert len(set(z.tolist())) > 10
    assert bool(st.isfinite(z).all())


@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_are_made_in_complex64(transposed: bool) -> None:
    function = st.conv_transpose2d if transposed else st.conv2d
    image, kernel, bias = halves(2, 3, 6, 6), halves(3, 3, 3, 3, seed=1), halves(3, seed=2)
    equals_complex64(function, image, kernel, bias)
    weight = kernel.requires_grad_()
    function(image, weight, bias).abs().backward(st.ones_like(function(image, weight, bias).real))
    assert weight.grad.dtype is st.complex32


def test_gradients_have_the_dtype() -> None:
    a = halves(3).requires_grad_()
    b = halves(3, seed=1).requires_grad_()
    (a * b).abs().backward(st.ones(3, dtype=st.float16))
    wide_a = a.detach().to(st.complex64).requires_grad_()
    wide_b = b.detach().to(st.complex64).requires_grad_()
    (wide_a * wide_b).abs().backward(st.ones(3))
    for narrow, wide in ((a.grad, wide_a.grad), (b.grad, wide_b.grad)):
        assert narrow.dtype is st.complex32
        off = (narrow.to(st.complex64) - wide).abs()
        assert bool((off <= 2 * st.finfo(st.float16).eps * wide.abs()).all())


def test_gradient_of_a_cast_comes_back_in_the_inputs_dtype() -> None:
    x = st.ones(2, requires_grad=True)
    (x.chalf() * 2j).imag.backward(st.ones(2, dtype=st.float16))
    assert x.grad.tolist() == [2, 2]
    z = st.tensor([3 + 4j], dtype=st.complex32, requires_grad=True)
    z.norm(float("inf")).backward()
    assert z.grad.dtype is st.complex32


@pytest.mark.parametrize(
    "function",
    [
        lambda z: z.sum(),
        lambda z: z.prod(),
        lambda z: z.mean(),
        lambda z: z / 2,
        lambda z: z**2,
        lambda z: z @ z,
        lambda z: z.reshape(1, 3) @ z.reshape(3, 1),
        lambda z: z.exp(),
        lambda z: z.sqrt(),
        lambda z: z.angle(),
        lambda z: z.reciprocal(),
        lambda z: z.cumsum(0),
        lambda z: z.logical_not(),
        lambda z: z.lerp(z, 0.5),
        lambda z: z.nan_to_num(),
        lambda z: z < z,
        lambda z: z.bernoulli_(),
        lambda z: st.arange(3, dtype=st.complex32),
    ],
)
def test_what_torch_has_not_is_refused(function: Callable[[Any], Any]) -> None:
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexHalf'"):
        function(halves(3))


def test_sum_of_nothing_needs_no_loop() -> None:
    assert st.zeros(0, 2, dtype=st.complex32).sum(0).tolist() == [0j, 0j]
