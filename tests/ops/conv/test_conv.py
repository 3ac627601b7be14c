"""Convolution: values against plain loops, unfold, geometry, errors, gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import shmtensor as st
import shmtensor.nn.functional as nnf

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


@pytest.mark.check
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


@pytest.mark.check
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
        (
            lambda: st.conv2d(_Z(2, 4, 7, 0), _Z(6, 4, 3, 2), padding=1),
            "zero batch or zero channel inputs are supported, but got input shape: [2, 4, 7, 0]",
        ),
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
    ],
)
def test_impossible_geometry_is_named(call: object, message: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)


def test_expanded_image_that_does_not_fit_into_memory() -> None:
    """A dense copy would not fit into memory; only one patch of the image is read."""
    for dtype in (st.float64, st.int8, st.bfloat16):
        image = st.full((), 3, dtype=dtype).expand(1, 2, 2**31, 2**30)
        w = st.ones(1, 2, 2, 2, dtype=dtype)
        assert st.conv2d(image, w, stride=2**31).tolist() == [[[[24]]]]


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
    ],
)
def test_gradients(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradcheck(function, tuple(_leaf(*s) for s in shapes))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w, b: st.conv2d(x, w, b, 2, 1), ((1, 2, 4, 4), (2, 2, 3, 3), (2,))),
    ],
)
def test_second_derivatives(function: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert st.autograd.gradgradcheck(function, tuple(_leaf(*s) for s in shapes))
