"""The memory formats of convolutions and their gradients are torch's.

Values are compared with those of contiguous tensors, which test_conv_forward.py and
test_conv_tiles.py check.
"""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor.nn import functional as nnf

Ints = tuple[int, ...]


def _in_format(x: st.Tensor, channels_last: bool) -> st.Tensor:
    """Channels last, or contiguous."""
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if channels_last else x.contiguous()


def _is_channels_last(x: st.Tensor) -> bool:
    rows = x.movedim(1, -1)
    assert x.is_contiguous() or rows.is_contiguous()
    return rows.is_contiguous()


def _run(name: str, x: st.Tensor, w: st.Tensor, **options: Any) -> list[st.Tensor]:
    """Return the result and the gradients of images, weight and bias."""
    groups = options.get("groups", 1)
    filters = w.shape[1] * groups if "transpose" in name else w.shape[0]
    b = st.arange(filters, device=x.device).to(x.dtype)
    leaves = [t.detach().requires_grad_() for t in (x, w, b)]
    result = getattr(nnf, name)(*leaves, **options)
    return [result, *st.autograd.grad(result, leaves, st.ones_like(result))]


def _numbers(shape: Ints, dtype: st.dtype) -> st.Tensor:
    return (st.arange(st.Size(shape).numel()).view(shape) * 7 % 5 - 2).to(dtype)


#: dtype, dims, images, weight, options: every algorithm, and several tiles.
CASES: dict[str, tuple[st.dtype, int, Ints, Ints, dict[str, Any]]] = {
    "few channels": (st.float32, 2, (2, 3, 9, 8), (4, 3, 3, 3), {"padding": 1}),
    "doubles": (st.float64, 2, (3, 16, 7, 9), (20, 16, 3, 3), {"padding": 1}),
    "pointwise, doubles": (st.float64, 2, (2, 40, 6, 5), (36, 40, 1, 1), {}),
    "dilation": (st.float32, 2, (1, 4, 14, 15), (4, 4, 3, 3), {"dilation": 3, "stride": 2}),
    "groups": (st.float32, 2, (2, 6, 8, 7), (4, 3, 2, 3), {"groups": 2, "stride": 2}),
    "depthwise": (st.float64, 2, (2, 5, 9, 7), (5, 1, 3, 3), {"groups": 5, "padding": 2}),
    "depthwise, many channels": (st.float32, 2, (2, 150, 9, 7), (150, 1, 5, 3), {"groups": 150}),
    "depthwise, bfloat16": (
        st.bfloat16,
        2,
        (3, 35, 9, 7),
        (35, 1, 3, 3),
        {"groups": 35, "padding": 2, "stride": 2},
    ),
    "depthwise, float16": (st.float16, 2, (2, 18, 40, 61), (18, 1, 3, 3), {"groups": 18}),
    "many channels": (st.float64, 2, (2, 200, 5, 4), (200, 200, 3, 3), {"padding": 1}),
    "strides": (st.float32, 2, (2, 20, 13, 16), (24, 20, 5, 4), {"stride": (2, 3), "padding": 1}),
    "strides beyond the kernel": (st.float64, 2, (2, 18, 13, 16), (16, 18, 1, 2), {"stride": 4}),
    "strides and dilation": (
        st.float32,
        2,
        (2, 17, 19, 16),
        (16, 17, 3, 4),
        {"stride": (4, 2), "dilation": (6, 3), "padding": (5, 9)},
    ),
    "strides of groups": (
        st.float32,
        2,
        (3, 32, 9, 8),
        (48, 16, 3, 3),
        {"groups": 2, "stride": 2},
    ),
    "strides of each channel": (
        st.float32,
        2,
        (2, 40, 9, 8),
        (40, 1, 3, 5),
        {"groups": 40, "stride": 2, "padding": 2},
    ),
    "groups of two": (st.float32, 2, (2, 26, 9, 7), (26, 2, 3, 3), {"groups": 13, "padding": 1}),
    "groups of four": (
        st.float64,
        2,
        (2, 36, 11, 7),
        (36, 4, 3, 2),
        {"groups": 9, "stride": 2, "padding": 1},
    ),
    "groups of eight": (st.float32, 2, (3, 40, 8, 9), (40, 8, 2, 3), {"groups": 5, "dilation": 2}),
    "groups of sixteen": (st.float32, 2, (3, 48, 9, 9), (48, 16, 3, 3), {"groups": 3}),
    "groups of four of float16": (st.float16, 2, (2, 20, 9, 7), (20, 4, 3, 3), {"groups": 5}),
    "groups of eight of bfloat16": (
        st.bfloat16,
        2,
        (2, 24, 9, 7),
        (24, 8, 3, 3),
        {"groups": 3, "padding": 1},
    ),
    "strides of volumes": (
        st.float32,
        3,
        (2, 16, 5, 6, 7),
        (16, 16, 3, 2, 3),
        {"stride": 2, "padding": 1},
    ),
    "strides of float16": (st.float16, 2, (2, 20, 9, 9), (32, 20, 3, 3), {"stride": 3}),
    "two filters a channel": (st.float32, 2, (2, 18, 9, 7), (36, 1, 3, 3), {"groups": 18}),
    "bfloat16": (st.bfloat16, 2, (2, 3, 9, 8), (5, 3, 3, 3), {"padding": 1}),
    "float16": (st.float16, 2, (2, 12, 9, 8), (3, 12, 1, 1), {"stride": 2}),
    "bfloat16 of several panels": (st.bfloat16, 2, (3, 64, 9, 7), (70, 64, 3, 3), {"padding": 1}),
    "bfloat16, strides": (
        st.bfloat16,
        2,
        (2, 20, 15, 17),
        (33, 20, 3, 2),
        {"padding": 2, "stride": (2, 3)},
    ),
    "bfloat16, dilation": (
        st.bfloat16,
        2,
        (2, 9, 15, 17),
        (16, 9, 3, 3),
        {"padding": 3, "dilation": (2, 3)},
    ),
    "bfloat16, groups": (st.bfloat16, 2, (2, 24, 9, 8), (9, 8, 3, 3), {"groups": 3, "padding": 1}),
    "bfloat16, even groups": (
        st.bfloat16,
        2,
        (2, 48, 9, 8),
        (80, 24, 3, 2),
        {"groups": 2, "padding": 1},
    ),
    "bfloat16, a large plane": (
        st.bfloat16,
        2,
        (1, 20, 150, 131),
        (33, 20, 3, 3),
        {"padding": (0, 2), "dilation": 2},
    ),
    "bfloat16, many filters": (
        st.bfloat16,
        2,
        (1, 200, 5, 4),
        (300, 200, 3, 3),
        {"padding": 1},
    ),
    "bfloat16, few channels": (st.bfloat16, 2, (3, 3, 19, 8), (40, 3, 3, 3), {"padding": 1}),
    "bfloat16, short filters of volumes": (
        st.bfloat16,
        3,
        (2, 4, 7, 9, 8),
        (48, 4, 2, 1, 3),
        {"padding": 1},
    ),
    "bfloat16, few filters": (st.bfloat16, 2, (2, 40, 9, 8), (3, 40, 3, 3), {"padding": 1}),
    "products of bfloat16": (st.bfloat16, 2, (3, 64, 7, 9), (40, 64, 1, 1), {}),
    "strides of products of bfloat16": (
        st.bfloat16,
        2,
        (2, 32, 9, 9),
        (8, 32, 1, 1),
        {"stride": 2},
    ),
    "padding behind products": (st.float64, 2, (1, 2, 150, 131), (3, 2, 1, 1), {"padding": 5}),
    "parts": (st.float64, 2, (2, 3, 150, 131), (5, 3, 3, 3), {"padding": 1}),
    "parts of rows": (st.float64, 2, (1, 2, 2, 20_000), (3, 2, 1, 5), {"padding": (0, 2)}),
    "volumes": (st.float32, 3, (2, 3, 5, 6, 7), (4, 3, 2, 3, 3), {"padding": 1, "stride": 2}),
    "volumes of halves": (st.bfloat16, 3, (1, 3, 5, 6, 4), (4, 3, 3, 3, 3), {}),
    "padded volumes of halves": (
        st.bfloat16,
        3,
        (2, 6, 5, 6, 4),
        (8, 6, 3, 3, 3),
        {"padding": 1, "stride": 2},
    ),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_channels_last_is_kept(case: str, transposed: bool, threads: int) -> None:
    """If images or weight are channels last, so are results, gradients and what Meta predicts."""
    dtype, dims, shape, kernel, options = CASES[case]
    name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    x, w = _numbers(shape, dtype), _numbers(kernel, dtype)
    if transposed:
        x = _numbers((shape[0], kernel[0], *shape[2:]), dtype)
    before = st.get_num_threads()
    st.set_num_threads(threads)
    try:
        want = _run(name, x, w, **options)
        assert not any(_is_channels_last(t) for t in want[:2])
        for of_images, of_weight in ((True, False), (False, True), (True, True)):
            if of_weight and not of_images and kernel[1] == 1:
                continue  # a filter of one channel has both formats
            if of_weight and not of_images and max(kernel[2:]) == 1:
                continue
            got = _run(name, _in_format(x, of_images), _in_format(w, of_weight), **options)
            assert _is_channels_last(got[0])
            assert _is_channels_last(got[1])
            for one, other in zip(got, want, strict=True):
                assert st.equal(one, other)
            there = [
                st.empty_strided(t.shape, t.stride(), dtype=dtype, device="meta")
                for t in (_in_format(x, of_images), _in_format(w, of_weight))
            ]
            predicted = _run(name, *there, **options)
            assert [t.stride() for t in predicted] == [t.stride() for t in got]
    finally:
        st.set_num_threads(before)


def _strides(x: st.Tensor, w: st.Tensor, **options: Any) -> list[Ints]:
    return [t.stride() for t in _run(f"conv{x.dim() - 2}d", x, w, **options)]


@pytest.mark.check
def test_volumes_keep_channels_last_where_torch_does() -> None:
    def keeps(n: int, size: Ints, kernel: int, groups: int, dtype: st.dtype) -> bool:
        x = _in_format(st.ones(n, 4, *size, dtype=dtype), True)
        w = st.ones(4, 4 // groups, kernel, kernel, kernel, dtype=dtype)
        return _is_channels_last(nnf.conv3d(x, w, groups=groups, padding=1))

    assert keeps(2, (5, 5, 5), 3, 1, st.float32)
    assert keeps(1, (5, 5, 5), 3, 2, st.float32)
    assert keeps(1, (5, 5, 5), 4, 1, st.float32)
    assert keeps(1, (80, 65, 2), 3, 1, st.float32)
    assert keeps(1, (5, 5, 5), 3, 1, st.bfloat16)
    assert not keeps(1, (5, 5, 5), 3, 1, st.float32)
    assert not keeps(1, (80, 64, 2), 3, 1, st.float32)
    assert not keeps(2, (5, 5, 5), 3, 1, st.float64)


def test_format_of_signals_follows_the_weight_alone() -> None:
    x, w = st.ones(2, 4, 7), st.ones(6, 4, 3)
    assert _strides(_in_format(x, True), w)[:3] == [(30, 5, 1), (28, 7, 1), (12, 3, 1)]
    assert _strides(x, _in_format(w, True))[:3] == [(30, 1, 6), (28, 1, 4), (12, 1, 4)]
    assert st.equal(nnf.conv1d(x, _in_format(w, True)), nnf.conv1d(x, w))


def test_signals_of_bfloat16() -> None:
    x, w = _numbers((3, 10, 90), st.bfloat16), _numbers((20, 10, 5), st.bfloat16)
    want = _run("conv1d", x, w, padding=2)
    for last in (False, True):
        got = _run("conv1d", _in_format(x, last), _in_format(w, True), padding=2)
        assert _is_channels_last(got[0])
        assert all(st.equal(a, b) for a, b in zip(got, want, strict=True))


def test_strides_alone_decide_the_format_of_one_channel() -> None:
    x = st.ones(2, 1, 7, 7).as_strided((2, 1, 7, 7), (49, 1, 7, 1))
    assert nnf.conv2d(x, st.ones(6, 1, 3, 3)).stride() == (150, 1, 30, 6)
    assert nnf.conv_transpose2d(x, st.ones(1, 6, 3, 3)).stride() == (486, 1, 54, 6)


@pytest.mark.check
def test_empty_batch_is_contiguous() -> None:
    x = st.empty(0, 4, 7, 7).to(memory_format=st.channels_last)
    assert nnf.conv2d(x, st.ones(6, 4, 3, 3)).stride() == (150, 25, 5, 1)


def test_complex_gradients_are_contiguous() -> None:
    x = _in_format(_numbers((2, 3, 5, 6), st.complex64), True)
    got = _run("conv2d", x, _numbers((4, 3, 3, 3), st.complex64))
    assert [_is_channels_last(t) for t in got[:3]] == [True, False, False]


def test_gradient_of_a_pointwise_weight_is_contiguous() -> None:
    x, w = st.ones(2, 4, 7, 7).to(memory_format=st.channels_last), st.ones(6, 4, 1, 1)
    assert _strides(x, w)[2] == (4, 1, 1, 1)
    assert _strides(x.bfloat16(), w.bfloat16())[2] == (4, 1, 4, 4)


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
@pytest.mark.parametrize("kernel", [1, 2])
def test_tiles_of_padding_alone(kernel: int, dtype: st.dtype) -> None:
    x, w = _numbers((1, 2, 3, 4), dtype), _numbers((3, 2, kernel, kernel), dtype)
    for options in ({"padding": 40, "stride": 9}, {"padding": 130}, {"padding": (150, 0)}):
        want = _run("conv2d", x, w, **options)
        got = _run("conv2d", _in_format(x, True), w, **options)
        assert _is_channels_last(got[0])
        assert all(st.equal(a, b) for a, b in zip(got, want, strict=True))


#: Sizes of images and weight, options: the output_padding is larger than a stride.
OUTPUT_PADDING: dict[str, tuple[Ints, Ints, dict[str, Any]]] = {
    "products": ((1, 72, 3, 3), (72, 20, 1, 1), {"groups": 8, "dilation": 3}),
    "rows": ((2, 8, 8, 13), (8, 20, 3, 1), {"stride": (2, 1), "dilation": 3}),
    "volumes": ((1, 16, 3, 4, 13), (16, 16, 2, 1, 2), {"stride": (1, 2, 1), "dilation": 3}),
}


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("case", OUTPUT_PADDING)
def test_output_padding_does_not_change_gradients(case: str, last: bool, dtype: st.dtype) -> None:
    """Gradients with an output_padding equal those without it."""
    shape, kernel, options = OUTPUT_PADDING[case]
    transposed = getattr(nnf, f"conv_transpose{len(shape) - 2}d")
    x, w = (_in_format(_numbers(t, dtype), last).requires_grad_() for t in (shape, kernel))
    y, within = transposed(x, w, output_padding=2, **options), transposed(x, w, **options)
    grad = _in_format(_numbers(tuple(y.shape), dtype), last)
    cut = grad[tuple(slice(n) for n in within.shape)]
    got = st.autograd.grad(y, (x, w), grad)
    want = st.autograd.grad(within, (x, w), _in_format(cut, last))
    assert all(st.equal(a, b) for a, b in zip(got, want, strict=True))
