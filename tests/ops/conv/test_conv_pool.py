"""Convolution and pooling: values against plain loops, geometry, errors, gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import shmtensor as st
import shmtensor.nn.functional as nnf
from shmtensor import _C

_RNG = np.random.default_rng(0)


def _convolve(
    x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int
) -> np.ndarray:
    """The definition, one output at a time."""
    n_spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * n_spatial)
    reach = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    sizes = [(s - r) // stride + 1 for s, r in zip(x.shape[2:], reach, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes), dtype=x.dtype)
    per_group = w.shape[0] // groups
    for f in range(w.shape[0]):
        channels = slice(f // per_group * w.shape[1], (f // per_group + 1) * w.shape[1])
        for at in itertools.product(*map(range, sizes)):
            window = tuple(
                slice(a * stride, a * stride + r, dilation) for a, r in zip(at, reach, strict=True)
            )
            axes = tuple(range(1, x.ndim))
            out[(slice(None), f, *at)] = (x[(slice(None), channels, *window)] * w[f]).sum(axes)
    return out


@pytest.mark.parametrize(
    ("x", "w", "stride", "padding", "dilation", "groups"),
    [
        ((2, 3, 8, 9), (4, 3, 3, 3), 1, 0, 1, 1),
        ((2, 3, 8, 9), (4, 3, 3, 2), 2, 1, 1, 1),
        ((2, 4, 8, 9), (6, 2, 3, 3), 1, 2, 2, 2),
        ((3, 4, 5, 5), (4, 1, 3, 3), 1, 1, 1, 4),
        ((2, 3, 7, 35), (6, 1, 3, 3), 1, 1, 1, 3),
        ((1, 2, 9, 40), (2, 1, 2, 5), 2, 2, 2, 2),
        ((2, 5, 6, 6), (7, 5, 1, 1), 1, 0, 1, 1),
        ((2, 5, 6, 6), (7, 5, 1, 1), 2, 0, 1, 1),
        ((2, 3, 10), (4, 3, 3), 2, 1, 2, 1),
        ((2, 2, 4, 5, 6), (3, 2, 2, 3, 2), 1, 1, 1, 1),
        ((70, 2, 3, 3), (3, 2, 2, 2), 1, 0, 1, 1),
        ((1, 1, 40, 40), (2, 1, 5, 5), 1, 2, 1, 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolution_by_definition(
    x: tuple[int, ...],
    w: tuple[int, ...],
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    dtype: str,
) -> None:
    a, b = _RNG.standard_normal(x), _RNG.standard_normal(w)
    bias = _RNG.standard_normal(w[0])
    expected = _convolve(a, b, stride, padding, dilation, groups)
    expected += bias.reshape(-1, *[1] * (len(x) - 2))
    function = {1: st.conv1d, 2: st.conv2d, 3: st.conv3d}[len(x) - 2]
    tensors = [st.from_numpy(v.astype(dtype)) for v in (a, b, bias)]
    got = function(*tensors, stride, padding, dilation, groups).numpy()
    np.testing.assert_allclose(got, expected, 1e-4, 1e-4 if dtype == "float32" else 1e-11)


def test_transposed_convolution_is_the_adjoint() -> None:
    x = st.from_numpy(_RNG.standard_normal((2, 4, 5, 6)))
    w = st.from_numpy(_RNG.standard_normal((4, 3, 3, 3)))
    y = st.conv_transpose2d(x, w, None, 2, 1, 1)
    assert y.shape == (2, 3, 10, 12)
    image = st.from_numpy(_RNG.standard_normal((2, 3, 10, 12)))
    left = (st.conv2d(image, w, None, 2, 1) * x).sum().item()
    assert left == pytest.approx((image * y).sum().item())


def test_padding_by_name() -> None:
    x, w = st.ones(1, 1, 5, 6), st.ones(1, 1, 3, 4)
    assert nnf.conv2d(x, w, padding="same").shape == (1, 1, 5, 6)
    assert st.conv2d(x, w, padding="same").shape == (1, 1, 5, 6)
    assert st.equal(st.conv2d(x, w, padding="same"), nnf.conv2d(x, w, padding="same"))
    assert st.conv2d(x, w, padding="valid").shape == (1, 1, 3, 3)


def test_convolution_without_batch_and_of_nothing() -> None:
    w = st.ones(2, 3, 3, 3)
    assert st.conv2d(st.ones(3, 4, 4), w).shape == (2, 2, 2)
    assert st.conv2d(st.ones(0, 3, 4, 4), w).shape == (0, 2, 2, 2)
    assert st.conv2d(st.empty(5, 3, 4, 4, device="meta"), w.to("meta")).shape == (5, 2, 2, 2)


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16, st.int64, st.complex64])
def test_convolution_of_other_dtypes(dtype: st.dtype) -> None:
    y = st.conv2d(st.ones(1, 2, 4, 4).to(dtype), st.ones(1, 2, 3, 3).to(dtype))
    assert y.dtype is dtype
    assert y.float().tolist() == [[[[18.0, 18.0], [18.0, 18.0]]]] if not dtype.is_complex else True


_Z = st.zeros


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: st.conv2d(_Z(1, 3, 4, 4), _Z(2, 2, 3, 3)),
            "Given groups=1, weight of size [2, 2, 3, 3], expected input[1, 3, 4, 4] to have 2 "
            "channels, but got 3 channels instead",
        ),
        (
            lambda: st.conv2d(_Z(1, 3, 2, 2), _Z(2, 3, 3, 3)),
            "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size "
            "can't be greater than actual input size",
        ),
        (
            lambda: st.conv2d(_Z(3, 4), _Z(2, 3, 3, 3)),
            "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: "
            "[3, 4]",
        ),
        (
            lambda: st.conv2d(_Z(1, 3, 4, 4), _Z(2, 3, 3, 3), _Z(3)),
            "expected bias to be 1-dimensional with 2 elements, but got bias of size [3] instead",
        ),
        (
            lambda: st.conv2d(_Z(1, 3, 4, 4), _Z(2, 3, 3, 3), stride=0),
            "non-positive stride is not supported",
        ),
        (
            lambda: st.conv2d(_Z(1, 3, 4, 4), _Z(2, 3, 3, 3), padding=-1),
            "negative padding is not supported",
        ),
        (
            lambda: st.conv2d(_Z(1, 4, 4, 4), _Z(3, 2, 3, 3), groups=2),
            "expected weight to be divisible by 2 at dimension 0",
        ),
        (
            lambda: st.conv2d(_Z(1, 3, 4, 4), _Z(2, 3, 3, 3).double()),
            "expected scalar type Float but found Double",
        ),
        (
            lambda: st.conv2d(_Z(1, 3, 4, 4), _Z(2, 3, 3, 3), padding="foo"),
            "Invalid padding string: 'foo'",
        ),
        (
            lambda: nnf.conv_transpose2d(_Z(1, 2, 3, 3), _Z(2, 3, 2, 2), stride=2**31),
            "integer multiplication overflow with sizes=[1, 3, 4294967298, 4294967298]",
        ),
        (
            lambda: nnf.conv_transpose3d(_Z(1, 1, 2, 2, 2), _Z(1, 1, 2, 2, 2), dilation=2**40),
            "integer multiplication overflow",
        ),
        (
            lambda: st.conv2d(_Z(1, 2, 3, 3), _Z(3, 2, 2, 2), padding=2**40),
            "integer multiplication overflow",
        ),
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
            lambda: st.conv2d(_Z(2, 4, 7, 0), _Z(6, 4, 3, 2), padding=1),
            "zero batch or zero channel inputs are supported, but got input shape: [2, 4, 7, 0]",
        ),
        (
            lambda: st.max_pool2d(_Z(1, 1, 4, 4), 2, padding=2),
            "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2",
        ),
        (lambda: st.max_pool2d(_Z(1, 1, 4, 4), 2, stride=0), "stride should not be zero"),
        (
            lambda: st.conv_transpose2d(_Z(1, 2, 2, 4), _Z(2, 3, 1, 1), padding=1),
            "size per channel: (2 x 4). Calculated output size per channel: (0 x 2). Output size",
        ),
        (
            lambda: st.conv_transpose1d(_Z(1, 2, 1), _Z(2, 3, 1), padding=1),
            "per channel: (1 x 1). Calculated output size per channel: (1 x -1). Output size is",
        ),
        (
            lambda: nnf.unfold(_Z(1, 4, 4, 4), 2, stride=(1, 2, 3)),
            "It is expected stride equals to 2, but got size 3",
        ),
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


def test_a_pad_that_only_cuts_keeps_the_order_of_strides() -> None:
    turned = st.arange(12.0).reshape(3, 4).t()
    for pad, stride in (((0, 0), (1, 4)), ((-1, 0), (1, 4)), ((0, 0, -1, -1), (1, 2))):
        cut = nnf.pad(turned, pad)
        assert cut.stride() == stride
        assert cut.data_ptr() != turned.data_ptr()
        assert st.equal(cut, nnf.pad(turned.contiguous(), pad))
    x = st.ones(3, 4, dtype=st.float64, requires_grad=True)
    nnf.pad(x, (-1, -1)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 1, 1, 0]] * 3


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_borders_of_no_channels_are_refused(mode: str) -> None:
    assert nnf.pad(_Z(0, 2, 4), (1, 1), mode=mode).shape == (0, 2, 6)
    for shape in ((2, 0, 4), (0, 4), (0, 3, 3, 4)):
        with pytest.raises(RuntimeError, match="0 batch size and other non-zero dimensions"):
            nnf.pad(_Z(*shape), (1, 1) * (1 + (len(shape) == 4) * 2), mode=mode)


def test_convolution_of_one_element_that_looks_like_many() -> None:
    """Images that could not lie dense; one window of them is read."""
    for dtype in (st.float64, st.int8, st.bfloat16):
        image = st.full((), 3, dtype=dtype).expand(1, 2, 2**31, 2**30)
        w = st.ones(1, 2, 2, 2, dtype=dtype)
        assert st.conv2d(image, w, stride=2**31).tolist() == [[[[24]]]]


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
    picked = np.take_along_axis(flat, indices.numpy().reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(picked.reshape(expected.shape), expected)


def _same(got: st.Tensor, expected: st.Tensor) -> None:
    """Equal to the last bit, NaN included."""
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


@pytest.mark.parametrize("channels", [8, 11, 128, 150])
@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.float16, st.int32])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "ceil"),
    [(2, 2, 0, False), (3, 2, 1, True), (2, 3, 1, False), (7, 1, 3, False), (2, 1, 1, True)],
)
def test_pools_of_channels_last_images_are_those_of_planes(
    channels: int, dtype: st.dtype, kernel: int, stride: int, padding: int, ceil: bool
) -> None:
    x = _RNG.integers(-4, 4, (2, channels, 7, 9)).astype("float64") / (
        2 if dtype != st.int32 else 1
    )
    if dtype != st.int32:
        x[0, 1, 2:5] = np.nan
        x[1, 2] = -np.inf
    planes = st.from_numpy(x).to(dtype)
    pixels = planes.contiguous(memory_format=st.channels_last)
    window = (kernel, stride, padding)
    for call in (
        lambda t: st.max_pool2d(t, *window, 1, ceil),
        lambda t: st.max_pool2d(t, kernel, stride, padding, 2) if kernel < 5 else t,
        lambda t: _C._nn.avg_pool2d(t, *window, ceil),
        lambda t: _C._nn.avg_pool2d(t, *window, ceil, False),
        lambda t: _C._nn.avg_pool2d(t, *window, ceil, True, 3),
    ):
        got = call(pixels)
        assert got.is_contiguous(memory_format=st.channels_last)
        _same(got, call(planes))
    for dilation in (1, 2) if kernel < 5 else (1,):
        both = [
            _C._nn.max_pool2d_with_indices(t, *window, dilation, ceil) for t in (pixels, planes)
        ]
        for got, expected in zip(*both, strict=True):
            assert got.is_contiguous(memory_format=st.channels_last)
            _same(got, expected)


@pytest.mark.parametrize("channels", [1, 3, 8, 45, 150])
@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.float16, st.int32])
def test_averages_of_lines_whose_channels_are_neighbours(dtype: st.dtype, channels: int) -> None:
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
        lines = [t.clone().requires_grad_() for t in (x, x.contiguous())]
        grad = (st.rand(2, wanted.shape[2], channels) * 9).to(dtype).transpose(1, 2)
        for line, laid in zip(lines, (grad, grad.contiguous()), strict=True):
            nnf.avg_pool1d(line, kernel, stride, padding, ceil, inside).backward(laid)
        rtol = 2e-3 if dtype is st.float16 else 1e-6
        assert st.allclose(lines[0].grad.double(), lines[1].grad.double(), rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
@pytest.mark.parametrize("size", [(1, 2), (3, 4), (7, 9), (10, 12)])
def test_equal_shares_of_channels_last_images(dtype: st.dtype, size: tuple[int, int]) -> None:
    x = _RNG.standard_normal((2, 13, 7, 9))
    x[0, 1, 2:5] = np.nan
    x[1, 2] = -np.inf
    planes = st.from_numpy(x).to(dtype)
    pixels = planes.contiguous(memory_format=st.channels_last)
    got = _C._nn.adaptive_avg_pool2d(pixels, size)
    assert got.is_contiguous(memory_format=st.channels_last)
    _same(got.float(), _C._nn.adaptive_avg_pool2d(planes, size).float())
    both = [_C._nn.adaptive_max_pool2d(t, size) for t in (pixels, planes)]
    for got, expected in zip(*both, strict=True):
        assert got.is_contiguous(memory_format=st.channels_last)
        _same(got.float(), expected.float())


def test_averages_of_volumes_smaller_than_the_window_are_refused() -> None:
    x = st.ones(1, 1, 2, 3, 4)
    for window, padding in ((3, 1), ((1, 4, 1), (0, 2, 0)), (2**31 - 1, 2**30 - 1)):
        with pytest.raises(RuntimeError, match=r"input image \(T: 2 H: 3 W: 4\) smaller than"):
            _C._nn.avg_pool3d(x, window, 1, padding)
    assert _C._nn.avg_pool3d(x, (2, 3, 4)).item() == 1


def test_windows_of_more_elements_than_can_be_counted() -> None:
    most = 2**31 - 1
    x = st.ones(1, 1, 3, 4, requires_grad=True)
    y = _C._nn.avg_pool2d(x, most, most, most // 2, count_include_pad=True)
    assert y.shape == (1, 1, 1, 1)
    assert y.item() == pytest.approx(12 / most**2, rel=1e-6)
    (gradient,) = st.autograd.grad(y, x)
    assert gradient.flatten()[5].item() == pytest.approx(most**-2.0, rel=1e-6)
    assert _C._nn.avg_pool2d(x, most, ceil_mode=True).item() == 1


def test_pools_of_channels_last_volumes_are_those_of_planes() -> None:
    planes = st.from_numpy(_RNG.standard_normal((2, 9, 5, 6, 7)))
    volumes = planes.contiguous(memory_format=st.channels_last_3d)
    for call in (
        lambda t: st.max_pool3d(t, 3, 2, 1),
        lambda t: _C._nn.max_pool3d_with_indices(t, (2, 3, 2), 2, 1)[1],
    ):
        got = call(volumes)
        assert got.is_contiguous(memory_format=st.channels_last_3d)
        _same(got, call(planes))
    for call in (
        lambda t: _C._nn.adaptive_avg_pool3d(t, (2, 3, 4)),
        lambda t: _C._nn.avg_pool3d(t, 3, 2, 1, False, False),
    ):
        got = call(volumes)
        assert got.is_contiguous()  # as torch's
        _same(got, call(planes))


@pytest.mark.parametrize("dtype", [st.float32, st.float64, st.bfloat16])
@pytest.mark.parametrize("channels", [3, 8, 140])
@pytest.mark.parametrize("shape", [(7, 9), (4, 6, 5)], ids=str)
def test_gradients_of_channels_last_pools_are_those_of_planes(
    dtype: st.dtype, channels: int, shape: tuple[int, ...]
) -> None:
    n = len(shape)
    last = st.channels_last if n == 2 else st.channels_last_3d
    maxima, means = getattr(nnf, f"max_pool{n}d"), getattr(nnf, f"avg_pool{n}d")
    shares, most = getattr(nnf, f"adaptive_avg_pool{n}d"), getattr(nnf, f"adaptive_max_pool{n}d")
    planes = st.from_numpy(_RNG.standard_normal((2, channels, *shape))).to(dtype)
    for call in (
        lambda t: maxima(t, 3, 2, 1, 1, True),
        lambda t: means(t, 3, 2, 1, True),
        lambda t: means(t, 3, 1, 1, False, False),
        lambda t: shares(t, 3),
        lambda t: most(t, 3),
    ):
        grads = []
        weights = None
        for memory_format in (st.contiguous_format, last):
            x = planes.detach().clone(memory_format=memory_format).requires_grad_()
            y = call(x)
            if weights is None:
                weights = st.from_numpy(_RNG.standard_normal(tuple(y.shape))).to(dtype)
            y.backward(weights.contiguous(memory_format=memory_format))
            assert x.grad is not None
            grads.append(x.grad.float())
        _same(grads[1], grads[0])


@pytest.mark.parametrize("side", [1, 2, 3, 7])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (2, 2, 1), (3, 2, 1)])
def test_pools_of_small_planes(side: int, kernel: int, stride: int, padding: int) -> None:
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
def test_maxima_are_the_same_without_their_places(
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
def test_adaptive_pools_of_integers_are_refused(kind: str, dims: int) -> None:
    pool = getattr(nnf, f"adaptive_{kind}_pool{dims}d")
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        pool(st.ones((1, *[4] * dims), dtype=st.int64), 2)


def test_one_average_of_a_plane_is_its_mean() -> None:
    x = _RNG.standard_normal((2, 3, 40, 50))
    got = _C._nn.adaptive_avg_pool2d(st.from_numpy(x), 1)
    np.testing.assert_allclose(got.numpy(), x.mean((2, 3), keepdims=True))
    turned = st.from_numpy(x).contiguous(memory_format=st.channels_last)
    assert _C._nn.adaptive_avg_pool2d(turned, (1, 1)).is_contiguous(memory_format=st.channels_last)


def test_adaptive_pools_share_evenly() -> None:
    x = st.arange(10.0).view(1, 1, 10)
    assert st.adaptive_avg_pool1d(x, 3).tolist() == [[[1.5, 4.5, 7.5]]]
    values, indices = st.adaptive_max_pool1d(x, 3)
    assert values.tolist() == [[[3.0, 6.0, 9.0]]]
    assert indices.tolist() == [[[3, 6, 9]]]
    assert _C._nn.adaptive_avg_pool2d(st.ones(2, 3, 5, 7), (2, 3)).shape == (2, 3, 2, 3)


def test_pools_keep_channels_last() -> None:
    x = st.zeros(2, 3, 8, 8).to(memory_format=st.channels_last)
    assert st.max_pool2d(x, 2).is_contiguous(memory_format=st.channels_last)


def _leaf(*shape: int) -> st.Tensor:
    return st.from_numpy(np.random.default_rng(1).random(shape)).requires_grad_()


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w, b: st.conv2d(x, w, b, 2, 1), ((2, 2, 5, 4), (3, 2, 3, 3), (3,))),
        (lambda x, w: st.conv2d(x, w, None, 1, 1, 2, 2), ((1, 4, 5, 5), (2, 2, 2, 2))),
        (lambda x, w: st.conv2d(x, w), ((2, 3, 3, 3), (2, 3, 1, 1))),
        (lambda x, w, b: st.conv1d(x, w, b, 2), ((2, 2, 7), (3, 2, 3), (3,))),
        (lambda x, w: st.conv3d(x, w), ((1, 2, 3, 3, 3), (2, 2, 2, 2, 2))),
        (
            lambda x, w, b: st.conv_transpose2d(x, w, b, 2, 1, 1),
            ((1, 2, 3, 3), (2, 3, 3, 3), (3,)),
        ),
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
        (lambda x, w, b: st.conv2d(x, w, b, 2, 1), ((1, 2, 4, 4), (2, 2, 3, 3), (2,))),
        (lambda x: st.max_pool2d(x, 2), ((1, 1, 4, 4),)),
        (lambda x: _C._nn.avg_pool2d(x, 2), ((1, 1, 4, 4),)),
        (lambda x: _C._nn.adaptive_avg_pool2d(x, (2, 3)), ((1, 1, 4, 4),)),
    ],
)
def test_second_derivatives(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradgradcheck(function, tuple(_leaf(*s) for s in shapes))
