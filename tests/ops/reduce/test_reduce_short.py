"""Reductions of few elements each, tril and triu of narrow matrices, copies of short rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import shmtensor

SHORT = [2, 3, 5, 7, 8, 15, 16, 17]


def rows_of(n: int, dtype: shmtensor.dtype) -> list[list[float]]:
    """So many rows that a tile is full and another is begun, with equal elements among them."""
    x = [[float((i * 7 + k * 5) % 11) for k in range(n)] for i in range(301)]
    if dtype in (shmtensor.float32, shmtensor.float64, shmtensor.float16):
        x[3][n - 1] = x[299][0] = x[300][1] = math.nan
        x[7][0], x[8][1] = math.inf, -math.inf
    return x


def first_best(row: list[float], best: Callable[[list[float]], float]) -> int:
    for k, x in enumerate(row):
        if math.isnan(x):
            return k
    return row.index(best(row))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("n", SHORT)
@pytest.mark.parametrize("layout", ["rows", "columns", "apart"])
def test_amax_and_amin(dtype: str, n: int, layout: str) -> None:
    rows = rows_of(n, getattr(shmtensor, dtype))
    x = shmtensor.tensor(rows, dtype=getattr(shmtensor, dtype))
    if layout == "columns":
        x = x.t().contiguous().t()
    elif layout == "apart":
        x = shmtensor.stack([x, x], 2)[:, :, 0]
    for name, best in (("max", max), ("min", min)):
        wanted = [first_best(row, best) for row in rows]
        values, indices = getattr(x, name)(1)
        assert indices.tolist() == wanted
        assert getattr(x, f"arg{name}")(1).tolist() == wanted
        for found in (values, getattr(x, f"a{name}")(1)):
            for value, row, at in zip(found.tolist(), rows, wanted, strict=True):
                assert value == row[at] or (math.isnan(value) and math.isnan(row[at]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int16", "int64", "complex64"])
@pytest.mark.parametrize("n", SHORT)
def test_sums(dtype: str, n: int) -> None:
    kind = getattr(shmtensor, dtype)
    rows = [[float((i + k) % 4 - 1) for k in range(n)] for i in range(301)]
    x = shmtensor.tensor(rows, dtype=kind)
    sums, products = [sum(row) for row in rows], [math.prod(row) for row in rows]
    for y, dim in ((x, 1), (x.t().contiguous(), 0), (x[::2].t(), 0)):
        step = 1 if y.numel() == x.numel() else 2
        assert y.sum(dim).tolist() == sums[::step]
        assert y.count_nonzero(dim).tolist() == [sum(v != 0 for v in row) for row in rows[::step]]
        assert y.any(dim).tolist() == [any(row) for row in rows[::step]]
        if dtype != "float16":
            assert y.prod(dim).tolist() == products[::step]
        if kind.is_floating_point:
            wanted = shmtensor.tensor([s / n for s in sums[::step]], dtype=shmtensor.float64)
            assert y.mean(dim).tolist() == wanted.to(kind).tolist()
            out = shmtensor.zeros(len(wanted), 2, dtype=kind)
            shmtensor.mean(y, dim, out=out[:, 0])
            assert out.tolist() == [[v, 0.0] for v in wanted.to(kind).tolist()]


@pytest.mark.check
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_errors_of_few(reduction: str) -> None:
    x, y = shmtensor.full((3, 50), 2.0), shmtensor.zeros(3, 50)
    found = shmtensor.nn.functional.mse_loss(x, y, reduction=reduction)
    assert found.sum() == {"mean": 4.0, "sum": 600.0, "none": 600.0}[reduction]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape, dim", [((9, 1), 1), ((1, 9), 0), ((3, 1, 3), 1), ((), 0)])
def test_sort_of_singles(shape: tuple[int, ...], dim: int, descending: bool) -> None:
    x = shmtensor.randn(shape)
    values, indices = x.sort(dim, descending=descending)
    assert values.tolist() == x.tolist()
    assert indices.tolist() == shmtensor.zeros(shape, dtype=shmtensor.int64).tolist()
    assert indices.dtype == shmtensor.int64
    assert x.argsort(dim).tolist() == indices.tolist()
    values.fill_(7.0)
    assert not (x == 7).any()
    turned, _ = shmtensor.arange(6.0).reshape(2, 3).t().unsqueeze(1).sort(1)
    assert turned.tolist() == [[[0.0, 3.0]], [[1.0, 4.0]], [[2.0, 5.0]]]


@pytest.mark.parametrize("diagonal", [-50, -3, -1, 0, 1, 2, 50])
@pytest.mark.parametrize("shape", [(40, 2), (3, 20, 3), (2, 3), (5, 5), (2, 2, 1)])
def test_triangles(shape: tuple[int, ...], diagonal: int) -> None:
    x = shmtensor.arange(1.0, 1.0 + math.prod(shape)).reshape(shape)
    rows, columns = shmtensor.arange(shape[-2]).unsqueeze(1), shmtensor.arange(shape[-1])
    low = (columns - rows <= diagonal).to(x.dtype) * x
    high = (columns - rows >= diagonal).to(x.dtype) * x
    assert x.tril(diagonal).tolist() == low.tolist()
    assert x.triu(diagonal).tolist() == high.tolist()
    assert x.clone().tril_(diagonal).tolist() == low.tolist()
    assert x.clone().triu_(diagonal).tolist() == high.tolist()


@pytest.mark.parametrize("dtype", ["float32", "uint8", "complex128"])
@pytest.mark.parametrize("repeats", [1, 2, 3, 15, 16])
def test_copies_with_short_inner_dims(repeats: int, dtype: str) -> None:
    x = shmtensor.arange(240).reshape(4, 60).to(getattr(shmtensor, dtype))
    rows = x.tolist()
    assert x.repeat_interleave(repeats, 1).tolist() == [
        [v for v in row for _ in range(repeats)] for row in rows
    ]
    assert x.repeat_interleave(repeats).tolist() == [
        v for row in rows for v in row for _ in range(repeats)
    ]
