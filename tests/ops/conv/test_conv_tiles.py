"""Convolutions of images with several tiles, by every algorithm, in every layout and dtype.

Tests values, and that memory is bounded by a few tiles.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ops.conv.convolutions import Case, definition
from peak import peak

import shmtensor as st
from shmtensor.nn import functional as nnf

Layout = Callable[[st.Tensor], st.Tensor]

#: A convolution that runs one algorithm, and the sizes of its images: more than one tile.
ALGORITHMS: dict[str, tuple[Case, tuple[int, ...]]] = {
    "direct: rows": ((2, 24, 9, 1, 0, 3, 1, 1, 1), (1, 120, 130)),
    "direct: strided rows": ((2, 20, 8, 2, 0, 3, 2, 2, 2), (2, 201, 230)),
    "direct: pieces of a row": ((1, 16, 8, 1, 0, 9, 1, 4, 1), (1, 40_000)),
    "many channels": ((2, 40, 48, 1, 0, 3, 1, 1, 1), (2, 60, 70)),
    "many channels, small images": ((2, 80, 96, 2, 0, 3, 1, 1, 1), (9, 20, 11)),
    "many channels, volumes": ((3, 24, 20, 1, 0, 3, 2, 2, 1), (2, 13, 36, 41)),
    "direct: planes": ((3, 8, 8, 1, 0, 3, 1, 1, 1), (2, 20, 40, 41)),
    "im2col panels": ((2, 70, 72, 1, 0, 3, 1, 2, 2), (3, 11, 14)),
    "depthwise": ((2, 20, 20, 20, 0, 3, 1, 1, 1), (2, 300, 301)),
    "depthwise: two filters for a channel": ((2, 5, 10, 5, 0, 5, 2, 1, 3), (1, 280, 290)),
    "depthwise: signal": ((1, 18, 18, 18, 0, 4, 1, 2, 1), (2, 90_001)),
    "im2col": ((2, 40, 5, 1, 0, 1, 2, 1, 1), (2, 210, 221)),
    "im2col: small images": ((2, 66, 6, 2, 0, 1, 1, 0, 1), (5, 6, 7)),
    "pointwise": ((2, 40, 8, 1, 0, 1, 1, 0, 1), (2, 90, 101)),
}
LAYOUTS: dict[str, Layout] = {
    "dense": lambda x: x,
    "channels last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "transposed planes": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "batch last": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "cut rows": lambda x: st.cat([x, x], -1)[..., : x.shape[-1]],
    "stepped rows": lambda x: st.stack([x, -x], -1)[..., 0],
    "cut channels": lambda x: st.cat([-x, x], 1)[:, x.shape[1] :],
    "channels last, cut": lambda x: (
        st.cat([x, x], 1).movedim(1, -1).contiguous().movedim(-1, 1)[:, : x.shape[1]]
    ),
}
DTYPES = [st.float32, st.float16, st.bfloat16, st.float64, st.int32, st.complex64]


@functools.cache
def numbers(algorithm: str) -> tuple[Any, Any, Any, Any]:
    """Images, weight, bias and the convolution: whole numbers that 16-bit floats hold."""
    case, (n, *sizes) = ALGORITHMS[algorithm]
    dims, channels, filters, groups, _, kernel, *_ = case
    rng = np.random.default_rng(5)
    x = rng.integers(-2, 3, (n, channels, *sizes)).astype(np.float64)
    w = rng.integers(-1, 2, (filters, channels // groups, *[kernel] * dims)).astype(np.float64)
    b = rng.integers(-8, 9, filters).astype(np.float64)
    return x, w, b, definition(x, w, case) + b.reshape(1, -1, *[1] * dims)


def convolve(algorithm: str, x: st.Tensor, w: st.Tensor, b: st.Tensor) -> st.Tensor:
    dims, _, _, groups, _, _, stride, padding, dilation = ALGORITHMS[algorithm][0]
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return getattr(nnf, f"conv{dims}d")(x, w, b, **options)  # type: ignore[no-any-return]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_dtypes(threads: int, algorithm: str, dtype: st.dtype) -> None:
    x, w, b, wanted = numbers(algorithm)
    got = convolve(algorithm, *(st.from_numpy(v).to(dtype) for v in (x, w, b)))
    assert got.dtype == dtype
    # Sums above what bfloat16 holds are rounded.
    assert got.equal(st.from_numpy(wanted).to(dtype))


@pytest.mark.parametrize("dtype", [st.float32, st.float16, st.complex64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_layouts(algorithm: str, layout: str, dtype: st.dtype) -> None:
    x, w, b, wanted = numbers(algorithm)
    images = LAYOUTS[layout](st.from_numpy(x).to(dtype))
    weight = LAYOUTS[layout](st.from_numpy(w).to(dtype))
    assert st.from_numpy(x).to(dtype).equal(images)
    got = convolve(algorithm, images, weight, st.from_numpy(b).to(dtype))
    assert got.equal(st.from_numpy(wanted).to(dtype))


@pytest.mark.parametrize("dtype", [st.float32, st.float16, st.bfloat16])
@pytest.mark.parametrize("layout", ["dense", "channels last", "transposed planes", "stepped rows"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_memory(threads: int, algorithm: str, layout: str, dtype: st.dtype) -> None:
    x, w, b, wanted = numbers(algorithm)
    images, weight = (LAYOUTS[layout](st.from_numpy(v).to(dtype)) for v in (x, w))
    bias = st.from_numpy(b).to(dtype)
    item = dtype.itemsize
    # The result, a copy of the weight, and the memory of each thread.
    most = wanted.size * item * 9 // 8 + w.size * item * 9 // 8 + threads * (1800 << 10)
    assert peak(lambda: convolve(algorithm, images, weight, bias)) <= most


@pytest.mark.check
def test_outputs_that_read_only_padding() -> None:
    for dims, sizes, channels in ((2, (3, 150), 2), (1, (200,), 3), (3, (2, 3, 90), 2)):
        x = st.ones(1, channels, *sizes)
        options = {"padding": 40, "stride": 3}
        for groups in (1, channels):
            w = st.ones(8 * channels, channels // groups, *[2] * dims)
            y = getattr(nnf, f"conv{dims}d")(x, w, groups=groups, **options)
            z = getattr(nnf, f"conv{dims}d")(x.double(), w.double(), groups=groups, **options)
            assert y.double().equal(z)
            inside = nnf.pad(x, [40] * 2 * dims)
            assert y.equal(getattr(nnf, f"conv{dims}d")(inside, w, groups=groups, stride=3))
