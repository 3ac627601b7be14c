"""Forward convolutions: shapes, strides, dilations and groups at every instruction-set level.

Gradients by definition are in test_conv_backward.py, layouts and memory in test_conv_tiles.py.
"""

from __future__ import annotations

import pytest
from levels import LEVELS, found_at
from ops.conv import convolutions

import shmtensor as st
from shmtensor.nn import functional as nnf


@pytest.mark.parametrize("level", LEVELS)
def test_convolutions_match_their_definition(level: str) -> None:
    assert found_at(level, convolutions) == []


@pytest.mark.check
def test_nan_reaches_only_outputs_that_read_it() -> None:
    x = st.zeros(1, 2, 20, 20)
    x[0, 1, 10, 10] = float("nan")
    y = nnf.conv2d(x, st.ones(8, 2, 3, 3), padding=1)
    assert int(y.isnan().sum()) == 8 * 9
    assert bool(y[:, :, 9:12, 9:12].isnan().all())


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize(
    ("image", "weight", "options"),
    [
        ((2, 3, 9, 9), (5, 3, 3, 3), {}),
        ((5, 20, 14, 14), (33, 20, 3, 3), {"padding": 1, "stride": 2}),
        ((3, 16, 12, 12), (40, 16, 1, 1), {}),
        ((2, 64, 3, 3), (64, 64, 3, 3), {}),
        ((2, 5, 40, 300), (17, 5, 3, 3), {"padding": 1}),
    ],
)
def test_bfloat16_is_summed_in_float32_and_rounded_once(
    image: tuple[int, ...], weight: tuple[int, ...], options: dict[str, int], with_bias: bool
) -> None:
    st.manual_seed(3)
    x, w, b = (st.randn(s).bfloat16() for s in (image, weight, weight[:1]))
    if not with_bias:
        b = None
    got = nnf.conv2d(x, w, b, **options)
    exact = nnf.conv2d(x.double(), w.double(), None if b is None else b.double(), **options)
    reach = nnf.conv2d(x.double().abs(), w.double().abs(), **options) + 4
    assert got.dtype == st.bfloat16
    allowed = exact.abs() * 2.0**-8 + reach * (w[0].numel() * 2.0**-23)
    assert bool(((got.double() - exact).abs() <= allowed).all())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3])
def test_views_equal_their_copies(kernel: int, threads: int) -> None:
    before = st.get_num_threads()
    st.set_num_threads(threads)
    try:
        x, w = st.randn(3, 12, 5, 24, 22), st.randn(9, 12, 1, kernel, kernel)
        for view in (
            x,
            x[:, ::2],
            x[:, :, 1:3],
            x[:, :, :, 2:],
            x[..., 3:],
            x[:, :1].expand(3, 12, 5, 24, 22),
        ):
            weight = w[:, : view.shape[1]]
            assert st.equal(nnf.conv3d(view, weight), nnf.conv3d(view.clone().contiguous(), weight))
    finally:
        st.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_share_images_and_filters(threads: int) -> None:
    before = st.get_num_threads()
    st.set_num_threads(threads)
    try:
        for n in (1, 5):
            x, w = st.ones(n, 32, 32, 32), st.ones(20, 32, 3, 3)
            y = nnf.conv2d(x, w, padding=1)
            assert bool((y[:, :, 1:-1, 1:-1] == 288).all())
            assert bool((y[:, :, 0, 0] == 128).all())
    finally:
        st.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("filters", [8, 20, 50, 130])
@pytest.mark.parametrize("kernel", [1, 3])
def test_results_keep_channels_last(kernel: int, filters: int, threads: int) -> None:
    before = st.get_num_threads()
    st.set_num_threads(threads)
    last = {"memory_format": st.channels_last}
    try:
        x = st.arange(3 * 24 * 30 * 21).reshape(3, 24, 30, 21).fmod(7.0).contiguous(**last)
        w = st.arange(filters * 24 * kernel**2).reshape(filters, 24, kernel, kernel).fmod(5.0)
        b = st.arange(filters).float()
        for view in (x, x[:1], x[1::2], x[:, :, 3:-4], x[..., 2:-1], x[:, 5:], x[:, :, ::2, ::3]):
            weight = w[:, : view.shape[1]].contiguous()
            for options in ({}, {"padding": 2}, {"stride": 2, "padding": 1}, {"dilation": 3}):
                want = nnf.conv2d(view.contiguous(), weight, b, **options)
                for given in (weight, weight.contiguous(**last)):
                    got = nnf.conv2d(view, given, b, **options)
                    assert st.equal(got, want)
                    assert got.is_contiguous(**last)
                    assert not got.is_contiguous()
    finally:
        st.set_num_threads(before)


@pytest.mark.check
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [16, 40, 67])
def test_depthwise_keeps_channels_last(channels: int, threads: int) -> None:
    before = st.get_num_threads()
    st.set_num_threads(threads)
    last = {"memory_format": st.channels_last}
    try:
        x = st.arange(3 * channels * 30 * 33).reshape(3, channels, 30, 33).fmod(7.0)
        x = x.contiguous(**last)
        w, b = (
            st.arange(channels * 9).reshape(channels, 1, 3, 3).fmod(5.0),
            st.arange(channels).float(),
        )
        for view in (x, x[1:], x[:, :, 3:-4, 2:], x[:, :, ::2, ::3]):
            for options in ({}, {"padding": 2}, {"stride": 2, "padding": 1}, {"dilation": 3}):
                for given in (w, w.contiguous(**last)):
                    got = nnf.conv2d(view, given, b, groups=channels, **options)
                    assert got.is_contiguous(**last)
                    want = nnf.conv2d(view.contiguous(), w, b, groups=channels, **options)
                    assert st.equal(got, want)
    finally:
        st.set_num_threads(before)


def test_16_bit_results_keep_channels_last() -> None:
    last = {"memory_format": st.channels_last}
    x = st.arange(2 * 24 * 30 * 21).reshape(2, 24, 30, 21).fmod(7.0).half()
    w = st.arange(50 * 24 * 9).reshape(50, 24, 3, 3).fmod(5.0).half()
    got = nnf.conv2d(x.contiguous(**last), w, padding=1)
    assert got.is_contiguous(**last)
    assert st.equal(got, nnf.conv2d(x.double(), w.double(), padding=1).half())


def test_gradients_keep_channels_last() -> None:
    last = {"memory_format": st.channels_last}
    x = st.randn(2, 16, 9, 8).contiguous(**last).requires_grad_()
    y = nnf.conv2d(x, st.randn(20, 16, 3, 3), padding=1)
    (grad,) = st.autograd.grad(y, x, st.randn(y.shape).contiguous(**last))
    assert grad.is_contiguous(**last)


@pytest.mark.parametrize("dtype", [st.float32, st.float64])
@pytest.mark.parametrize(
    ("size", "kernel", "options"),
    [
        ((14, 14), (3, 3), {"padding": 1}),
        ((9, 17), (3, 3), {"padding": 1, "stride": 2}),
        ((20, 33), (5, 7), {"padding": (2, 3)}),
        ((10, 8), (2, 5), {"dilation": (2, 1)}),
        ((30, 41), (3, 3), {"stride": 3, "padding": 1, "dilation": 2}),
        ((5, 5), (5, 5), {"padding": 4}),
        ((7, 16), (1, 1), {}),
    ],
)
@pytest.mark.parametrize("filters", [1, 2])
def test_depthwise_gradients_equal_those_of_single_planes(
    dtype: st.dtype,
    size: tuple[int, int],
    kernel: tuple[int, int],
    options: dict[str, int],
    filters: int,
) -> None:
    st.manual_seed(1)
    channels = 3
    x = st.randn(2, channels, *size, dtype=dtype).requires_grad_()
    w = st.randn(channels * filters, 1, *kernel, dtype=dtype).requires_grad_()
    y = nnf.conv2d(x, w, groups=channels, **options)
    g = st.randn(y.shape, dtype=dtype)
    got = st.autograd.grad(y, (x, w), g)
    planes = [
        nnf.conv2d(x[:, c : c + 1], w[c * filters : (c + 1) * filters], **options)
        for c in range(channels)
    ]
    whole = st.cat(planes, 1)
    wanted = st.autograd.grad(whole, (x, w), g)
    near = {st.float32: 1e-5, st.float64: 1e-13}[dtype]
    for a, b in ((y, whole), *zip(got, wanted, strict=True)):
        assert st.allclose(a, b, rtol=near, atol=near * 10)


def test_depthwise_weight_gradient_ignores_infinity_beyond_a_row() -> None:
    x = st.zeros(1, 2, 14, 14)
    x[0, 0, 3, 13] = float("inf")
    w = st.ones(2, 1, 3, 3).requires_grad_()
    y = nnf.conv2d(x, w, padding=1, groups=2)
    (grad,) = st.autograd.grad(y, w, st.ones_like(y))
    assert grad[0, 0, :, 0].tolist() == [0.0] * 3
    assert not bool(grad.isnan().any())


@pytest.mark.parametrize("far", [1000, 2**31 - 16, 2**40])
@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
@pytest.mark.parametrize("is_nhwc", [False, True])
def test_strides_far_larger_than_the_image_take_no_memory(
    far: int, groups: int, dtype: st.dtype, is_nhwc: bool
) -> None:
    """Each output is the first element times the one filter element that reads it."""
    x = st.randn(1, 16, 4, 4).to(dtype)
    w = st.randn(16, 16 // groups, 2, 2).to(dtype)
    if is_nhwc:
        x = x.to(memory_format=st.channels_last)
    x, w = x.requires_grad_(), w.requires_grad_()
    y = nnf.conv2d(x, w, stride=far, padding=far, dilation=far, groups=groups)
    first = x.detach()[0, :, 0, 0].reshape(groups, 1, -1, 1, 1).double()
    parts = w.detach().reshape(groups, 16 // groups, -1, 2, 2).double()
    expected = (parts * first).sum(2).flip(-1, -2).reshape(1, 16, 2, 2)
    eps = st.finfo(dtype).eps
    summed = st.float32 if dtype is st.bfloat16 else dtype
    assert st.allclose(y.double(), expected, rtol=eps, atol=64 * st.finfo(summed).eps)
    y.sum().backward()
    slopes = first.expand(groups, 16 // groups, -1, 2, 2).reshape(w.shape)
    assert st.allclose(w.grad.double(), slopes, rtol=eps, atol=0)


def test_rows_far_apart_are_not_padded() -> None:
    x, w = st.randn(1, 4, 3, 100), st.randn(16, 4, 3, 3)
    assert st.allclose(nnf.conv2d(x, w, stride=(2**40, 1)), nnf.conv2d(x, w), atol=1e-5)
    image, filters = st.randn(1, 2, 4, 4), st.randn(2, 1, 2, 2)
    far, padding = (2**31 - 1, 2**31 - 16), (2**30 - 1, 2**30 - 8)
    nothing = nnf.conv2d(image, filters, padding=padding, dilation=far, groups=2)
    assert nothing.shape == (1, 2, 3, 4)
    assert not nothing.any()
