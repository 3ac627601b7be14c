"""Normalisation of channels-last images: rows of few columns, divided among threads."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st

F = st.nn.functional

DTYPES = [(st.float64, 1e-12), (st.float32, 2e-5), (st.float16, 1e-2), (st.bfloat16, 1e-1)]
SHAPES = [
    (9, 3, 5, 4),
    (1, 1, 7, 5),
    (2, 16, 70, 61),
    (3, 5, 150, 81),
    (1, 24, 47, 51),
    (3, 48, 31, 29),
]


def gradients(x: st.Tensor, grad: st.Tensor, norm: Any, *parameters: st.Tensor) -> list[st.Tensor]:
    """Return the result and the gradients of all."""
    leaves = [t.detach().clone().requires_grad_() for t in (x, *parameters)]
    out = norm(*leaves)
    out.backward(grad)
    return [out.detach(), *(t.grad for t in leaves)]


def check(shape: tuple[int, ...], dtype: st.dtype, tolerance: float, norm: Any) -> None:
    st.manual_seed(3)
    x, grad = st.randn(shape).mul(2).add(3).to(dtype), st.randn(shape).to(dtype)
    parameters = [st.randn(shape[1]).to(dtype) for _ in range(2)]
    want = gradients(x.double(), grad.double(), norm, *(p.double() for p in parameters))
    last = x.contiguous(memory_format=st.channels_last)
    for g in (grad, grad.contiguous(memory_format=st.channels_last)):
        for found, right in zip(gradients(last, g, norm, *parameters), want, strict=True):
            assert found.dtype is dtype
            size = right.abs().amax().item() + 1
            assert ((found.double() - right).abs() <= tolerance * size).all()


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_of_few_channels(threads, shape, dtype, tolerance):
    check(shape, dtype, tolerance, lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True))


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (20, 4, 9, 9)])
def test_group_norm_of_few_channels(threads, shape, dtype, tolerance):
    for groups in {1, 2 - shape[1] % 2, shape[1]}:
        check(shape, dtype, tolerance, lambda x, w, b, n=groups: F.group_norm(x, n, w, b))


@pytest.mark.check
def test_batch_norm_of_columns_that_lie_apart(threads):
    whole = st.randn(3001, 40, dtype=st.float64)
    for x in (whole[:, 3:22], whole[::3, :7], whole.T[:, :40], whole.flip(1)[:, ::2]):
        found = F.batch_norm(x, None, None, training=True)
        want = (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()
        assert (found - want).abs().max() <= 1e-12
        shifted = F.batch_norm(x, x.mean(0), x.var(0))
        assert (shifted - (x - x.mean(0)) / (x.var(0) + 1e-5).sqrt()).abs().max() <= 1e-12
