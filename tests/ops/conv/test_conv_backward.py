"""Gradients of convolutions, and transposed ones, against their definition."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as nnf

#: images, channels, filters, groups, sizes, kernel, stride, padding, dilation
Case = tuple[int, int, int, int, tuple[int, ...], int, int, int, int]
CASES: dict[str, Case] = {
    "several images in a box": (5, 4, 6, 1, (7, 6), 3, 2, 1, 1),
    "several boxes in an image": (2, 16, 8, 1, (70, 66), 3, 2, 1, 1),
    "boxes of one row": (1, 3, 5, 1, (5001,), 4, 3, 2, 2),
    "im2col of several images": (9, 70, 4, 1, (5, 5), 1, 1, 0, 1),
    "pointwise with a stride": (2, 8, 6, 2, (9, 8), 1, 2, 0, 1),
    "pointwise": (3, 12, 40, 2, (9, 8), 1, 1, 0, 1),
    "stride 1": (2, 6, 9, 3, (17, 18), 3, 1, 1, 1),
    "padding beyond the kernel": (2, 4, 4, 1, (6, 5), 2, 1, 3, 1),
    "depthwise": (2, 18, 36, 18, (9, 21), 3, 2, 1, 1),
    "volumes": (2, 4, 4, 2, (6, 7, 8), 3, 2, 1, 1),
    "volumes cut along two dims": (1, 2, 3, 1, (5, 60, 70), 3, 2, 2, 2),
    "many filters": (3, 12, 40, 1, (13, 11), 3, 1, 1, 1),
    "many filters of groups, boxes of one row": (2, 6, 36, 2, (4001,), 5, 2, 3, 2),
    "many filters, pointwise": (3, 33, 17, 1, (9, 11), 1, 1, 0, 1),
    "many filters, volumes": (2, 9, 18, 1, (5, 6, 7), 3, 2, 1, 1),
    "outputs that read only padding": (1, 2, 2, 1, (1, 2), 1, 3, 2, 1),
}
#: The largest error of an element, relative to the sum of the magnitudes of its products.
DTYPES = {st.float32: 1e-6, st.float64: 1e-14, st.float16: 1e-3, st.bfloat16: 8e-3}


def taps(case: Case, out: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield each element of a kernel, and the slices of the padded images under it."""
    dims, (kernel, stride, _, dilation) = len(case[4]), case[5:]
    for at in itertools.product(range(kernel), repeat=dims):
        slices = tuple(
            slice(a * dilation, a * dilation + stride * (n - 1) + 1, stride)
            for a, n in zip(at, out, strict=True)
        )
        yield at, (Ellipsis, *slices)


def definition(x: Any, w: Any, g: Any, case: Case) -> tuple[Any, Any]:
    """Return the gradients of images and weight, in double."""
    images, channels, filters, groups, sizes, _, _, padding, _ = case
    padded = np.pad(x, [(0, 0), (0, 0), *[(padding, padding)] * len(sizes)])
    padded = padded.reshape(images, groups, channels // groups, *padded.shape[2:])
    g = g.reshape(images, groups, filters // groups, *g.shape[2:])
    w = w.reshape(groups, filters // groups, *w.shape[1:])
    for_x, for_w = np.zeros_like(padded), np.zeros_like(w)
    for at, slices in taps(case, g.shape[3:]):
        for_x[slices] += np.einsum("ngf...,gfc->ngc...", g, w[(..., *at)])
        under = padded[slices].reshape(*padded.shape[:3], -1)
        for_w[(..., *at)] = np.einsum("ngfs,ngcs->gfc", g.reshape(*g.shape[:3], -1), under)
    inside = (Ellipsis, *(slice(padding, padding + n) for n in sizes))
    return for_x[inside].reshape(x.shape), for_w.reshape(-1, *for_w.shape[2:])


def with_strides(x: st.Tensor, how: str) -> st.Tensor:
    """Return *x* with other strides."""
    if how == "channels last":
        return x.movedim(1, -1).contiguous().movedim(-1, 1)
    if how == "batch last":
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    return x[:, :, None].expand(-1, -1, 2, *[-1] * (x.dim() - 2))[:, :, 1] if how == "gaps" else x


def close(got: st.Tensor, expected: Any, magnitude: Any, dtype: st.dtype) -> None:
    assert got.dtype == dtype
    # The gradient of channels-last images may be channels last.
    assert got.is_contiguous() or got.movedim(1, -1).is_contiguous()
    error = np.abs(got.double().numpy() - expected)
    assert bool((error <= DTYPES[dtype] * (magnitude + 1e-3)).all())


@pytest.mark.parametrize("how", ["dense", "channels last", "batch last", "gaps"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_gradients_by_definition(threads: int, name: str, dtype: st.dtype, how: str) -> None:
    del threads
    case = CASES[name]
    images, channels, filters, groups, sizes, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(0)

    def operand(*shape: int) -> st.Tensor:
        return with_strides(st.from_numpy(rng.normal(size=shape)).to(dtype), how)

    x = operand(images, channels, *sizes).requires_grad_()
    w = operand(filters, channels // groups, *[kernel] * len(sizes)).requires_grad_()
    convolve = getattr(nnf, f"conv{len(sizes)}d")
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    y = convolve(x, w, **options)
    g = operand(*y.shape)
    got = st.autograd.grad(y, (x, w), g)
    arrays = [t.detach().double().numpy() for t in (x, w, g)]
    expected = definition(*arrays, case)
    magnitudes = definition(*map(np.abs, arrays), case)
    for one in zip(got, expected, magnitudes, strict=True):
        close(*one, dtype)
    # The transposed convolution is the input gradient, whose padding may be smaller.
    left = [
        n - ((m - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1)
        for n, m in zip(sizes, y.shape[2:], strict=True)
    ]
    if min(left) < 0 or max(left) >= max(stride, dilation):
        return
    transpose = getattr(nnf, f"conv_transpose{len(sizes)}d")
    bias = operand(1, channels).reshape(-1)
    b = bias.double().numpy().reshape(1, -1, *[1] * len(sizes))
    made = transpose(g, w, bias, output_padding=left, **options)
    close(made.detach(), expected[0] + b, magnitudes[0] + np.abs(b), dtype)


@pytest.mark.check
@pytest.mark.parametrize("dtype", [st.float32, st.bfloat16])
def test_expanded_gradient(dtype: st.dtype) -> None:
    x = st.randn(2, 4, 12, 11).to(dtype).requires_grad_()
    w = st.randn(6, 4, 3, 3).to(dtype).requires_grad_()
    b = st.zeros(6, dtype=dtype).requires_grad_()
    for stride in (1, 2):
        y = nnf.conv2d(x, w, b, padding=1, stride=stride)
        ones = st.ones(1, dtype=dtype).expand(*y.shape)
        plain = st.autograd.grad(y, (x, w, b), ones.contiguous(), retain_graph=True)
        for got, expected in zip(st.autograd.grad(y, (x, w, b), ones), plain, strict=True):
            # The same sums in another order, rounded once.
            assert st.allclose(got, expected, rtol=2 * st.finfo(dtype).eps, atol=1e-4)


def test_no_output_reads_the_output_padding() -> None:
    x, w = st.randn(2, 3, 4, 5), st.randn(3, 2, 1, 1)
    got = nnf.conv_transpose2d(x, w, dilation=2, output_padding=1)
    assert st.equal(got[:, :, 4:], st.zeros(2, 2, 1, 6))
    assert st.equal(got[:, :, :, 5:], st.zeros(2, 2, 5, 1))
    assert st.allclose(got[:, :, :4, :5], nnf.conv_transpose2d(x, w), rtol=1e-5, atol=1e-6)
