"""Pooling: values against plain loops, channels last, geometry, errors, gradients."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor.nn.functional as nnf
from shmtensor import _C

_RNG = np.random.default_rng(0)


_Z = st.zeros


@pytest.mark.check
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: st.max_pool2d(_Z(1, 1, 2, 2), 3), "Output size is too small"),
        (
            lambda: st.max_pool2d(_Z(1, 1, 9, 9), 3, 1, 2, 2),
            "smaller than or equal to half of kernel size, but got pad=2 and kernel_size=3",
        ),
        (
            lambda: st.adaptive_max_pool1d(_Z(2, 0, 7), 2),
            "non-zero size for non-batch dimensions, but input has sizes [2, 0, 7]",
        ),
        (
            lambda: st.max_pool2d(_Z(1, 1, 4, 4), 2, padding=2),
            "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2",
        ),
        (lambda: st.max_pool2d(_Z(1, 1, 4, 4), 2, stride=0), "stride should not be zero"),
        (
            lambda: nnf.adaptive_avg_pool2d(_Z(1, 2, 4, 4), (1, 2, 3)),
            "adaptive_avg_pool2d: output_size must be 2",
        ),
        (
            lambda: nnf.adaptive_avg_pool3d(_Z(1, 2, 4, 4, 4), (1,)),
            "adaptive_avg_pool3d: output_size must be 3",
        ),
        (
            lambda: nnf.adaptive_max_pool2d(_Z(1, 2, 4, 4), (1,)),
            "adaptive_max_pool2d(): internal error: output_size.size() must be 2",
        ),
    ],
)
def test_impossible_geometry_is_named(call: object, message: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def _windows(
    x: np.ndarray, kernel: int, stride: int, padding: int, dilation: int, fill: float
) -> np.ndarray:
    x = np.pad(x, [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2], constant_values=fill)
    reach = dilation * (kernel - 1) + 1
    view = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), (2, 3))
    return view[:, :, ::stride, ::stride, ::dilation, ::dilation]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2), (1, 1, 0, 1), (3, 3, 0, 1)],
)
def test_max_pool_by_definition(kernel: int, stride: int, padding: int, dilation: int) -> None:
    x = _RNG.standard_normal((2, 3, 9, 11))
    expected = _windows(x, kernel, stride, padding, dilation, -np.inf).max((-1, -2))
    values, indices = _C._nn.max_pool2d_with_indices(
        st.from_numpy(x), kernel, stride, padding, dilation
    )
    np.testing.assert_array_equal(values.numpy(), expected)
    flat = x.reshape(2, 3, -1)
    gathered = np.take_along_axis(flat, indices.numpy().reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(gathered.reshape(expected.shape), expected)


def _same(got: st.Tensor, expected: st.Tensor) -> None:
    """Equal to the last bit, NaN included."""
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("channels", [8, 11, 128, 150])
@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.float16, st.int32])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "ceil"),
    [(2, 2, 0, False), (3, 2, 1, True), (2, 3, 1, False), (7, 1, 3, False), (2, 1, 1, True)],
)
def test_channels_last_images_pool_as_contiguous_ones(
    channels: int, dtype: st.dtype, kernel: int, stride: int, padding: int, ceil: bool
) -> None:
    x = _RNG.integers(-4, 4, (2, channels, 7, 9)).astype("float64") / (
        2 if dtype != st.int32 else 1
    )
    if dtype != st.int32:
        x[0, 1, 2:5] = np.nan
        x[1, 2] = -np.inf
    contiguous = st.from_numpy(x).to(dtype)
    channels_last = contiguous.contiguous(memory_format=st.channels_last)
    window = (kernel, stride, padding)
    for call in (
        lambda t: st.max_pool2d(t, *window, 1, ceil),
        lambda t: st.max_pool2d(t, kernel, stride, padding, 2) if kernel < 5 else t,
        lambda t: _C._nn.avg_pool2d(t, *window, ceil),
        lambda t: _C._nn.avg_pool2d(t, *window, ceil, False),
        lambda t: _C._nn.avg_pool2d(t, *window, ceil, True, 3),
    ):
        got = call(channels_last)
        assert got.is_contiguous(memory_format=st.channels_last)
        _same(got, call(contiguous))
    for dilation in (1, 2) if kernel < 5 else (1,):
        both = [
            _C._nn.max_pool2d_with_indices(t, *window, dilation, ceil)
            for t in (channels_last, contiguous)
        ]
        for got, expected in zip(*both, strict=True):
            assert got.is_contiguous(memory_format=st.channels_last)
            _same(got, expected)


@pytest.mark.parametrize("channels", [1, 3, 8, 45, 150])
@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.float16, st.int32])
def test_average_pool_of_channels_last_signals(dtype: st.dtype, channels: int) -> None:
    x = (st.rand(2, 21, channels) * 100).to(dtype).transpose(1, 2)
    for kernel, stride, padding, ceil, inside in itertools.product(
        (1, 3, 4), (1, 2), (0, 1), (False, True), (False, True)
    ):
        if padding > kernel // 2:
            continue
        got = nnf.avg_pool1d(x, kernel, stride, padding, ceil, inside)
        wanted = nnf.avg_pool1d(x.contiguous(), kernel, stride, padding, ceil, inside)
        assert st.allclose(got.double(), wanted.double(), rtol=1e-6, atol=0.0)
        if channels >= 8 and dtype in (st.float32, st.float64):
            assert got.transpose(1, 2).is_contiguous()
        if not dtype.is_floating_point:
            continue
        leaves = [t.clone().requires_grad_() for t in (x, x.contiguous())]
        grad = (st.rand(2, wanted.shape[2], channels) * 9).to(dtype).transpose(1, 2)
        for leaf, own_grad in zip(leaves, (grad, grad.contiguous()), strict=True):
            nnf.avg_pool1d(leaf, kernel, stride, padding, ceil, inside).backward(own_grad)
        rtol = 2e-3 if dtype is st.float16 else 1e-6
        assert st.allclose(leaves[0].grad.double(), leaves[1].grad.double(), rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
@pytest.mark.parametrize("size", [(1, 2), (3, 4), (7, 9), (10, 12)])
def test_adaptive_pool_of_channels_last_images(dtype: st.dtype, size: tuple[int, int]) -> None:
    x = _RNG.standard_normal((2, 13, 7, 9))
    x[0, 1, 2:5] = np.nan
    x[1, 2] = -np.inf
    contiguous = st.from_numpy(x).to(dtype)
    channels_last = contiguous.contiguous(memory_format=st.channels_last)
    got = _C._nn.adaptive_avg_pool2d(channels_last, size)
    assert got.is_contiguous(memory_format=st.channels_last)
    _same(got.float(), _C._nn.adaptive_avg_pool2d(contiguous, size).float())
    both = [_C._nn.adaptive_max_pool2d(t, size) for t in (channels_last, contiguous)]
    for got, expected in zip(*both, strict=True):
        assert got.is_contiguous(memory_format=st.channels_last)
        _same(got.float(), expected.float())


def test_volumes_smaller_than_the_kernel_are_refused() -> None:
    x = st.ones(1, 1, 2, 3, 4)
    for window, padding in ((3, 1), ((1, 4, 1), (0, 2, 0)), (2**31 - 1, 2**30 - 1)):
        with pytest.raises(RuntimeError, match=r"input image \(T: 2 H: 3 W: 4\) smaller than"):
            _C._nn.avg_pool3d(x, window, 1, padding)
    assert _C._nn.avg_pool3d(x, (2, 3, 4)).item() == 1


def test_windows_with_more_elements_than_int64_counts() -> None:
    most = 2**31 - 1
    x = st.ones(1, 1, 3, 4, requires_grad=True)
    y = _C._nn.avg_pool2d(x, most, most, most // 2, count_include_pad=True)
    assert y.shape == (1, 1, 1, 1)
    assert y.item() == pytest.approx(12 / most**2, rel=1e-6)
    (gradient,) = st.autograd.grad(y, x)
    assert gradient.flatten()[5].item() == pytest.approx(most**-2.0, rel=1e-6)
    assert _C._nn.avg_pool2d(x, most, ceil_mode=True).item() == 1


def test_channels_last_volumes_pool_as_contiguous_ones() -> None:
    contiguous = st.from_numpy(_RNG.standard_normal((2, 9, 5, 6, 7)))
    volumes = contiguous.contiguous(memory_format=st.channels_last_3d)
    for call in (
        lambda t: st.max_pool3d(t, 3, 2, 1),
        lambda t: _C._nn.max_pool3d_with_indices(t, (2, 3, 2), 2, 1)[1],
    ):
        got = call(volumes)
        assert got.is_contiguous(memory_format=st.channels_last_3d)
        _same(got, call(contiguous))
    for call in (
        lambda t: _C._nn.adaptive_avg_pool3d(t, (2, 3, 4)),
        lambda t: _C._nn.avg_pool3d(t, 3, 2, 1, False, False),
    ):
        got = call(volumes)
        assert got.is_contiguous()  # as torch's
        _same(got, call(contiguous))


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
@pytest.mark.parametrize("channels", [3, 8, 140])
@pytest.mark.parametrize("shape", [(7, 9), (4, 6, 5)], ids=str)
def test_gradients_of_channels_last_equal_contiguous_ones(
    dtype: st.dtype, channels: int, shape: tuple[int, ...]
) -> None:
    n = len(shape)
    last = st.channels_last if n == 2 else st.channels_last_3d
    maxima, means = getattr(nnf, f"max_pool{n}d"), getattr(nnf, f"avg_pool{n}d")
    adaptive_mean, most = (
        getattr(nnf, f"adaptive_avg_pool{n}d"),
        getattr(nnf, f"adaptive_max_pool{n}d"),
    )
    contiguous = st.from_numpy(_RNG.standard_normal((2, channels, *shape))).to(dtype)
    for call in (
        lambda t: maxima(t, 3, 2, 1, 1, True),
        lambda t: means(t, 3, 2, 1, True),
        lambda t: means(t, 3, 1, 1, False, False),
        lambda t: adaptive_mean(t, 3),
        lambda t: most(t, 3),
    ):
        grads = []
        weights = None
        for memory_format in (st.contiguous_format, last):
            x = contiguous.detach().clone(memory_format=memory_format).requires_grad_()
            y = call(x)
            if weights is None:
                weights = st.from_numpy(_RNG.standard_normal(tuple(y.shape))).to(dtype)
            y.backward(weights.contiguous(memory_format=memory_format))
            assert x.grad is not None
            grads.append(x.grad.float())
        _same(grads[1], grads[0])


@pytest.mark.parametrize("side", [1, 2, 3, 7])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (2, 2, 1), (3, 2, 1)])
def test_pools_of_small_images(side: int, kernel: int, stride: int, padding: int) -> None:
    if side + 2 * padding < kernel:
        pytest.skip("the window does not fit")
    x = _RNG.integers(-9, 9, (3, 5, side, side)).astype("float32")
    given = st.from_numpy(x)
    high = _windows(x, kernel, stride, padding, 1, -np.inf).max((-1, -2))
    assert np.array_equal(st.max_pool2d(given, kernel, stride, padding).numpy(), high)
    total = _windows(x, kernel, stride, padding, 1, 0).sum((-1, -2))
    mean = total / np.float32(kernel**2)
    assert np.array_equal(_C._nn.avg_pool2d(given, kernel, stride, padding).numpy(), mean)
    count = _windows(np.ones_like(x), kernel, stride, padding, 1, 0).sum((-1, -2))
    inside = _C._nn.avg_pool2d(given, kernel, stride, padding, False, False)
    assert np.array_equal(inside.numpy(), total / count)


def test_max_pool_of_special_numbers() -> None:
    x = st.tensor([[[[1.0, float("nan")], [3.0, 2.0]]]])
    assert st.max_pool2d(x, 2).isnan().item()
    low, at = _C._nn.max_pool2d_with_indices(st.full((1, 1, 2, 2), -float("inf")), 2)
    assert (low.item(), at.item()) == (-float("inf"), 0)
    assert st.max_pool2d(st.arange(16).view(1, 4, 4), 2).tolist() == [[[5, 7], [13, 15]]]


@pytest.mark.check
def test_ceil_mode_keeps_the_last_window() -> None:
    x = st.arange(25.0).view(1, 1, 5, 5)
    assert st.max_pool2d(x, 2, 2, ceil_mode=True).shape == (1, 1, 3, 3)
    assert st.max_pool2d(x, 2, 2, ceil_mode=True)[0, 0, 2, 2].item() == 24


def test_average_pool_by_definition() -> None:
    x = _RNG.standard_normal((2, 3, 8, 9))
    counted = _windows(x, 3, 2, 1, 1, 0).mean((-1, -2))
    got = _C._nn.avg_pool2d(st.from_numpy(x), 3, 2, 1)
    np.testing.assert_allclose(got.numpy(), counted)
    inside = _windows(np.ones_like(x), 3, 2, 1, 1, 0).sum((-1, -2))
    got = _C._nn.avg_pool2d(st.from_numpy(x), 3, 2, 1, count_include_pad=False)
    np.testing.assert_allclose(got.numpy(), counted * 9 / inside)
    assert st.avg_pool1d(st.arange(6.0).view(1, 6), 2).tolist() == [[0.5, 2.5, 4.5]]


@pytest.mark.parametrize("width", [1, 7, 128, 129, 300])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"), [(2, 2, 0), (2, 1, 1), (5, 3, 2), (1, 4, 0)]
)
def test_pools_of_rows_of_any_width(width: int, kernel: int, stride: int, padding: int) -> None:
    if width + 2 * padding < kernel:
        pytest.skip("the window does not fit")
    x = _RNG.integers(-9, 9, (1, 2, 8, width)).astype("float32")
    given = st.from_numpy(x)
    high = _windows(x, kernel, stride, padding, 1, -np.inf).max((-1, -2))
    assert np.array_equal(st.max_pool2d(given, kernel, stride, padding).numpy(), high)
    mean = _windows(x, kernel, stride, padding, 1, 0).sum((-1, -2)) / np.float32(kernel**2)
    assert np.array_equal(_C._nn.avg_pool2d(given, kernel, stride, padding).numpy(), mean)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 2, 1, 2), (5, 1, 2, 1)]
)
def test_max_pool_without_indices_has_the_same_values(
    kernel: int, stride: int, padding: int, dilation: int
) -> None:
    x = _RNG.standard_normal((2, 3, 19, 31)).astype("float32")
    x[0, 1, 5:9] = np.nan
    x[1, 2] = -np.inf
    given = st.from_numpy(x)
    for t in (given, given.contiguous(memory_format=st.channels_last)):
        values, _ = _C._nn.max_pool2d_with_indices(t, kernel, stride, padding, dilation)
        alone = st.max_pool2d(t, kernel, stride, padding, dilation)
        np.testing.assert_array_equal(alone.numpy(), values.numpy())
        assert alone.stride() == values.stride()
    assert st.max_pool2d(given.requires_grad_(), kernel).grad_fn is not None


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pool_of_integers_is_refused(kind: str, dims: int) -> None:
    pool = getattr(nnf, f"adaptive_{kind}_pool{dims}d")
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        pool(st.ones((1, *[4] * dims), dtype=st.int64), 2)


def test_global_average_is_the_mean() -> None:
    x = _RNG.standard_normal((2, 3, 40, 50))
    got = _C._nn.adaptive_avg_pool2d(st.from_numpy(x), 1)
    np.testing.assert_allclose(got.numpy(), x.mean((2, 3), keepdims=True))
    channels_last = st.from_numpy(x).contiguous(memory_format=st.channels_last)
    assert _C._nn.adaptive_avg_pool2d(channels_last, (1, 1)).is_contiguous(
        memory_format=st.channels_last
    )


def test_adaptive_pool_windows_are_equal_shares() -> None:
    x = st.arange(10.0).view(1, 1, 10)
    assert st.adaptive_avg_pool1d(x, 3).tolist() == [[[1.5, 4.5, 7.5]]]
    values, indices = st.adaptive_max_pool1d(x, 3)
    assert values.tolist() == [[[3.0, 6.0, 9.0]]]
    assert indices.tolist() == [[[3, 6, 9]]]
    assert _C._nn.adaptive_avg_pool2d(st.ones(2, 3, 5, 7), (2, 3)).shape == (2, 3, 2, 3)


def test_max_pool_keeps_channels_last() -> None:
    x = st.zeros(2, 3, 8, 8).to(memory_format=st.channels_last)
    assert st.max_pool2d(x, 2).is_contiguous(memory_format=st.channels_last)


def _leaf(*shape: int) -> st.Tensor:
    return st.from_numpy(np.random.default_rng(1).random(shape)).requires_grad_()


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: st.max_pool2d(x, 2), ((1, 2, 4, 4),)),
        (lambda x: st.max_pool2d(x, 3, 2, 1), ((1, 2, 5, 5),)),
        (lambda x: _C._nn.avg_pool2d(x, 3, 2, 1), ((1, 2, 5, 5),)),
        (lambda x: _C._nn.adaptive_avg_pool2d(x, (2, 3)), ((1, 2, 5, 5),)),
        (lambda x: _C._nn.adaptive_max_pool2d(x, (2, 3))[0], ((1, 2, 5, 5),)),
        (lambda x: st.max_pool1d(x, 2), ((2, 6),)),
    ],
)
def test_gradients(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradcheck(function, tuple(_leaf(*s) for s in shapes))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: st.max_pool2d(x, 2), ((1, 1, 4, 4),)),
        (lambda x: _C._nn.avg_pool2d(x, 2), ((1, 1, 4, 4),)),
        (lambda x: _C._nn.adaptive_avg_pool2d(x, (2, 3)), ((1, 1, 4, 4),)),
    ],
)
def test_second_derivatives(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradgradcheck(function, tuple(_leaf(*s) for s in shapes))


@pytest.mark.parametrize(
    ("pool", "shape"),
    [
        (nnf.adaptive_avg_pool1d, (2, 3, 0)),
        (nnf.adaptive_avg_pool2d, (2, 3, 0, 4)),
        (nnf.adaptive_avg_pool3d, (3, 4, 0, 7)),
    ],
)
def test_the_one_mean_of_no_elements_is_nan(pool: Any, shape: tuple[int, ...]) -> None:
    x = st.zeros(shape, requires_grad=True)
    result = pool(x, 1)
    assert result.isnan().all() and tuple(result.shape[-2:])[-1] == 1
    result.sum().backward()
    assert x.grad.shape == x.shape
    with pytest.raises(RuntimeError, match=r"with dimension \d being empty"):
        pool(x, 2)


def test_images_without_channels_are_resized_by_area() -> None:
    assert nnf.interpolate(_Z(2, 0, 4, 4), size=(3, 2), mode="area").shape == (2, 0, 3, 2)
