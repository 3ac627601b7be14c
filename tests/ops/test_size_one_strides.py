"""Dims of size 1 may have any stride: no operator may read memory by it."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor.nn import functional as nnf

FAR = 2**61


def _far(shape: tuple[int, ...]) -> st.Tensor:
    """Random numbers, dense, where dims of one element have a stride beyond all memory."""
    x = st.randn(*shape)
    strides = [FAR if n == 1 else s for n, s in zip(shape, x.stride(), strict=True)]
    return x.as_strided(shape, strides)


SHAPES = [(1, 8, 1, 5), (2, 8, 1, 5), (1, 1, 6, 5), (2, 1, 1, 5), (2, 3, 4, 1)]

OPERATORS: dict[str, Any] = {
    "conv2d": lambda x: nnf.conv2d(x, st.ones(16, x.shape[1], 3, 3), padding=1),
    "conv2d of pixels": lambda x: nnf.conv2d(x, st.ones(16, x.shape[1], 1, 1)),
    "conv2d of each channel": lambda x: nnf.conv2d(
        x, st.ones(x.shape[1], 1, 3, 3), padding=1, groups=x.shape[1]
    ),
    "conv_transpose2d": lambda x: nnf.conv_transpose2d(x, st.ones(x.shape[1], 4, 3, 3), stride=2),
    "interpolate nearest": lambda x: nnf.interpolate(x, scale_factor=2),
    "interpolate": lambda x: nnf.interpolate(x, scale_factor=2, mode="bilinear"),
    "grid_sample": lambda x: nnf.grid_sample(
        x, _far((x.shape[0], 1, 7, 2)).fill_(0.3), align_corners=False
    ),
    "avg_pool2d": lambda x: nnf.avg_pool2d(x, 2, padding=1),
    "pad": lambda x: nnf.pad(x, (1, 1, 1, 1), mode="replicate"),
    "batch_norm": lambda x: nnf.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: nnf.group_norm(x, 1),
    "permute": lambda x: x.permute(3, 2, 1, 0).contiguous(),
    "gather": lambda x: x.gather(3, st.zeros(x.shape, dtype=st.int64)),
    "cdist": lambda x: st.cdist(x, x),
    "fft of columns": lambda x: st.view_as_real(st.fft.fft(x, dim=1)),
    "fft": lambda x: st.view_as_real(st.fft.fft(x)),
    "matmul": lambda x: x @ x.transpose(2, 3),
    "matmul of one matrix": lambda x: x[0, 0].T @ x[0, 0],
    "einsum": lambda x: st.einsum("abcd,abcd->ab", x, x),
    "attention": lambda x: nnf.scaled_dot_product_attention(x, x, x),
    "attention of halves": lambda x: nnf.scaled_dot_product_attention(
        x.bfloat16(), x.bfloat16(), x.bfloat16()
    ).float(),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_strides_of_lone_dims_mean_nothing(shape: tuple[int, ...], name: str) -> None:
    x = _far(shape)
    assert st.allclose(OPERATORS[name](x), OPERATORS[name](x * 1), atol=1e-5)


@pytest.mark.check
@pytest.mark.parametrize("far", [2**40, FAR])
def test_attention_of_lone_rows_and_columns(far: int) -> None:
    """The library takes no strides above 2^31; what it refused was never made."""
    q = st.randn(1200).as_strided((2, 2, 300, 1), (600, 300, 1, far))
    k = st.randn(1200).as_strided((2, 2, 300, 1), (600, 300, 1, far))
    one = st.randn(256).as_strided((2, 2, 1, 64), (128, 64, far, 1))
    many, v = st.randn(2, 2, 300, 64), st.randn(2, 2, 300, 8)
    attend = nnf.scaled_dot_product_attention
    assert st.allclose(attend(q, k, v), attend(q * 1, k * 1, v), atol=1e-5)
    assert st.allclose(attend(one, many, v), attend(one * 1, many, v), atol=1e-5)


def test_products_of_rows_farther_apart_than_the_library_takes() -> None:
    rows = st.randn(4, 3).as_strided((1, 4, 3), (2**33, 3, 1))
    assert st.allclose(st.bmm(rows, rows.mT), st.bmm(rows * 1, (rows * 1).mT), atol=1e-5)
    row = st.randn(5).as_strided((1, 5), (2**33, 1))
    assert st.allclose(row.T @ row, (row * 1).T @ (row * 1))
    assert st.allclose(row @ row.T, (row * 1) @ (row * 1).T)
    assert st.allclose(st.mv(row.T, st.ones(1)), row[0])
