"""Reductions and scans over dims of size 1, which are copies."""

from __future__ import annotations

import math

import pytest

import shmtensor

VALUES = [math.nan, -0.0, math.inf, -math.inf, 0.0, -2.5] + [float(i) for i in range(94)]
LAYOUTS = [((100, 1), 1), ((1, 100), 0), ((4, 1, 25), 1), ((100, 1), -1)]


def same(found: shmtensor.Tensor, wanted: list[float]) -> None:
    """As `==` has it, but with NaN like NaN, and zeros of the same sign."""
    for a, b in zip(found.reshape(-1).tolist(), wanted, strict=True):
        assert (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )


@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
@pytest.mark.parametrize("keepdim", [True, False])
def test_values(shape: tuple[int, ...], dim: int, keepdim: bool) -> None:
    x = shmtensor.tensor(VALUES).reshape(shape)
    summed = [v + 0.0 for v in VALUES]
    for name in ("amax", "amin", "prod"):
        same(getattr(shmtensor, name)(x, dim=dim, keepdim=keepdim), VALUES)
    for name in ("sum", "mean"):
        same(getattr(shmtensor, name)(x, dim=dim, keepdim=keepdim), summed)
    same(shmtensor.nansum(x, dim=dim, keepdim=keepdim), [0.0 if v != v else v for v in summed])
    for p in (1, 2, math.inf, -math.inf):
        found = shmtensor.linalg.vector_norm(x, p, dim=dim, keepdim=keepdim)
        same(found, [abs(v) for v in VALUES])
    same(x.cumsum(dim), summed)
    same(x.cumprod(dim), VALUES)
    best = x.max(dim, keepdim=keepdim)
    same(best.values, VALUES)
    assert not best.indices.any()
    wanted = [s for d, s in enumerate(shape) if keepdim or d != dim % len(shape)]
    assert list(best.indices.shape) == list(best.values.shape) == wanted


@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_indices_are_zero(shape: tuple[int, ...], dim: int, name: str) -> None:
    found = getattr(shmtensor, name)(shmtensor.tensor(VALUES).reshape(shape), dim=dim)
    assert found.dtype == shmtensor.int64
    assert found.numel() == 100
    assert not found.any()


@pytest.mark.check
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "bfloat16"])
def test_tests(dtype: str) -> None:
    x = shmtensor.tensor([[0.0], [1.0]] * 50).to(getattr(shmtensor, dtype))
    for found in (x.any(1), x.all(1)):
        assert found.tolist() == [False, True] * 50
        assert found.dtype == (shmtensor.uint8 if dtype == "uint8" else shmtensor.bool)
    assert x.sum(1).tolist() == [0, 1] * 50


def test_dtypes_and_outputs() -> None:
    x = shmtensor.arange(100, dtype=shmtensor.int8).reshape(100, 1)
    assert x.sum(1).dtype == x.prod(1).dtype == x.cumsum(1).dtype == shmtensor.int64
    out = shmtensor.empty(0, dtype=shmtensor.float64)
    assert shmtensor.sum(x.to(shmtensor.float64), 1, out=out) is out
    assert out.tolist() == list(range(100))
    mean = shmtensor.mean(x.to(shmtensor.float32), 1, dtype=shmtensor.float64)
    assert mean.dtype == shmtensor.float64


@pytest.mark.check
def test_own_memory() -> None:
    """Results do not share the memory of what they are made of."""
    x = shmtensor.ones(100, 1)
    results = [x.sum(1), x.amax(1), x.cumsum(1), shmtensor.linalg.vector_norm(x, dim=1)]
    x.zero_()
    for found in results:
        assert found.sum() == 100


@pytest.mark.parametrize("n", [1, 7, 16, 17, 28, 31, 32, 33, 40, 50, 63, 64, 100, 2047, 2100, 4131])
def test_rows_of_every_length(n: int) -> None:
    """Sums of vectors' worth of elements, of few, and of the rest."""
    x = shmtensor.arange(3 * n, dtype=shmtensor.float64).reshape(3, n)
    assert x.sum(1).tolist() == [float(sum(range(i * n, i * n + n))) for i in range(3)]
    assert x.amax(1).tolist() == [i * n + n - 1.0 for i in range(3)]
    assert x.amin(1).tolist() == [float(i * n) for i in range(3)]
    assert (x * 0 + 1).prod(1).tolist() == [1.0] * 3
    assert x.to(shmtensor.int32).sum(1).tolist() == x.sum(1).tolist()


@pytest.mark.parametrize("index", [[0], [0, 0, 0], []])
def test_index_select_of_the_only_slice(index: list[int]) -> None:
    x = shmtensor.arange(12.0).reshape(4, 1, 3)
    found = x.index_select(1, shmtensor.tensor(index, dtype=shmtensor.int64))
    assert found.tolist() == [[row[0]] * len(index) for row in x.tolist()]
    found.fill_(-1.0)
    assert x.min() == 0
    for bad in (1, -2):
        with pytest.raises(IndexError):
            x.index_select(1, shmtensor.tensor([0, bad]))
    assert shmtensor.tensor(5.0).index_select(0, shmtensor.tensor([0])).item() == 5.0
