"""Small planes, short rows and narrow slices, for which loops handle several at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

import shmtensor as st
from shmtensor.nn import functional as nnf

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "uint8", "complex128"]


def numbers(shape: tuple[int, ...], dtype: str = "float32") -> st.Tensor:
    """Whole numbers that every dtype has."""
    a = np.random.default_rng(7).integers(0, 100, size=shape)
    return st.from_numpy(a).to(getattr(st, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16])
def test_narrow_slices_are_selected(width: int, dtype: str) -> None:
    x = numbers((50, width), dtype)
    places = [0, 49, 3, 3, -50 + 57, 21]
    index = st.tensor(places)
    rows = x.tolist()
    assert x.index_select(0, index).tolist() == [rows[k] for k in places]
    volume = numbers((4, 50, width), dtype)
    wanted = [[plane[k] for k in places] for plane in volume.tolist()]
    assert volume.index_select(1, index).tolist() == wanted
    # Slices that lie where no element of their size could.
    flat = numbers((50 * width + 1,), dtype)
    apart = flat[1:].view(50, width)
    assert apart.index_select(0, index).tolist() == [apart.tolist()[k] for k in places]
    for bad in (50, -1):
        with pytest.raises(IndexError, match="out of range"):
            x.index_select(0, st.tensor([0, bad, 1]))
    assert x.index_select(0, st.tensor([], dtype=st.int64)).shape == (0, width)


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "uint8"])
@pytest.mark.parametrize("shape", [(40, 30, 3, 3), (3, 5, 31, 1), (700, 2, 2, 15), (1, 2, 40, 40)])
def test_nearest(shape: tuple[int, ...], dtype: str, threads: int) -> None:
    x = numbers(shape, dtype)
    doubled = np.repeat(np.repeat(x.double().numpy(), 2, 2), 2, 3)
    for y in (x, x.transpose(0, 1).contiguous().transpose(0, 1)):
        np.testing.assert_array_equal(nnf.interpolate(y, scale_factor=2).double().numpy(), doubled)
    line = x.flatten(0, 1)[:, :, 0]
    wide = np.repeat(line.double().numpy(), 3, 1)
    np.testing.assert_array_equal(
        nnf.interpolate(line.unsqueeze(0), scale_factor=3)[0].double().numpy(), wide
    )


@pytest.mark.check
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("shape", [(40, 30, 3, 3), (3, 5, 33, 4), (700, 1, 2, 15), (1, 1, 3, 40)])
def test_padded_planes(shape: tuple[int, ...], mode: str) -> None:
    x = numbers(shape)
    name = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    wanted = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 0), (1, 1)), mode=name)
    np.testing.assert_array_equal(nnf.pad(x, (1, 1, 1, 0), mode=mode).numpy(), wanted)


@pytest.mark.parametrize("threads", [1, 2], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("plane", [(3, 3), (7, 5), (2, 7), (300, 3), (70, 6)])
@pytest.mark.parametrize("options", [(2, 2, 0), (3, 1, 1), (2, 1, 0), (3, 2, 1)])
def test_averages(
    plane: tuple[int, int], options: tuple[int, int, int], dtype: str, threads: int
) -> None:
    kernel, stride, padding = options
    if min(plane) + 2 * padding < kernel:
        plane = (plane[0] + 2, plane[1] + 2)
    x = numbers((30, 40, *plane), dtype)
    for counted in (True, False):
        found = nnf.avg_pool2d(x, kernel, stride, padding, count_include_pad=counted)
        ones = np.pad(np.ones(plane), padding)
        a = np.pad(x.double().numpy(), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        for i, j in ((0, 0), (found.shape[2] - 1, found.shape[3] - 1), (0, found.shape[3] // 2)):
            rows = slice(i * stride, i * stride + kernel)
            columns = slice(j * stride, j * stride + kernel)
            shares = kernel * kernel if counted else ones[rows, columns].sum()
            sums = a[:, :, rows, columns].sum((2, 3))
            wanted = sums // shares if dtype == "int64" else sums / shares
            kept = st.from_numpy(wanted).to(x.dtype).double().numpy()
            np.testing.assert_allclose(
                found[:, :, i, j].double().numpy(), kept, rtol=2e-7 if dtype != "float16" else 1e-3
            )


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("length", [1, 2, 19, 20, 21, 28, 255, 1025, 5000])
def test_logarithms_of_rows(length: int, dtype: str) -> None:
    kind = getattr(st, dtype)
    x = (numbers((35, length), "float64") / 16 - 3).to(kind)
    x[3, 0], x[17, length - 1], x[20, length // 2] = -math.inf, math.inf, math.nan
    exact = x.double().numpy()
    with np.errstate(invalid="ignore"):
        top = exact.max(1, keepdims=True)
        sums = np.log(np.exp(exact - top).sum(1, keepdims=True))
        wanted = exact - top - sums
    near = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    good = [r for r in range(35) if r not in (17, 20) and not (r == 3 and length == 1)]
    for found in (st.log_softmax(x, 1), st.log_softmax(x.t().contiguous(), 0).t()):
        np.testing.assert_allclose(found.double().numpy()[good], wanted[good], rtol=near, atol=near)
        assert found[20].isnan().all()
        assert found[17, length - 1].isnan()
    for total in (st.logsumexp(x, 1), st.logsumexp(x.t().contiguous(), 0)):
        np.testing.assert_allclose(
            total.double().numpy()[good], (top + sums)[good, 0], rtol=near, atol=near
        )
        assert total[17] == math.inf
        assert total[20].isnan()
