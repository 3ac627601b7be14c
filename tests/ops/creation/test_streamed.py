"""Results of more than 16 MB are written past the caches, in blocks that end with a line of them.

Every way there, with results that begin inside of a line, rows that end inside of one, elements of
every size, and pieces that threads share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor

N = (17 << 20) // 4 + 37
"""Elements of float32 that are just beyond 16 MB, in no round number."""


def numbers(*shape: int, dtype: str = "float32") -> Any:
    count = int(np.prod(shape))
    return (np.arange(count) % 1009).astype(dtype).reshape(shape)


def same(got: shmtensor.Tensor, want: Any) -> None:
    assert np.array_equal(got.numpy(), want)


def inside(n: int, first: int) -> tuple[shmtensor.Tensor, shmtensor.Tensor]:
    """Memory of ones, and the n elements of it from *first* on."""
    whole = shmtensor.full((n + first + 5,), -1.0)
    return whole, whole[first : first + n]


@pytest.mark.check
@pytest.mark.parametrize("first", [0, 1, 15])
def test_a_result_that_begins_inside_of_a_line(first: int, threads: int) -> None:
    a = numbers(N)
    whole, out = inside(N, first)
    shmtensor.add(shmtensor.from_numpy(a), 1.0, out=out)
    same(out, a + 1)
    assert whole[:first].eq(-1).all()
    assert whole[first + N :].eq(-1).all()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_elements_of_every_size(dtype: str, threads: int) -> None:
    n = (17 << 20) // np.dtype(dtype).itemsize + 3
    a = numbers(n, dtype=dtype)
    t = shmtensor.from_numpy(a)
    same(t + t, a + a)
    same(t.flip(0), a[::-1])
    same(shmtensor.full((n,), 3, dtype=t.dtype), np.full(n, 3, dtype))
    same(shmtensor.zeros(n, dtype=t.dtype).fill_(0), np.zeros(n, dtype))


@pytest.mark.parametrize("width", [63, 65, 257, 3161])
def test_rows_that_end_inside_of_a_line(width: int, threads: int) -> None:
    a = numbers(N // width, width + 1)
    t = shmtensor.from_numpy(a)
    row = numbers(width)
    same(t[:, 1:] + shmtensor.from_numpy(row), a[:, 1:] + row)
    same(t[:, :-1].clone(memory_format=shmtensor.contiguous_format), a[:, :-1])
    same(t.flip(0), a[::-1])
    same(t.flip(1), a[:, ::-1])
    same(t.t().contiguous(), a.T)
    same(t.repeat(2, 1), np.tile(a, (2, 1)))


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("nbytes", [3 << 13, 17 << 20])
def test_short_rows_joined(dtype: str, nbytes: int, threads: int) -> None:
    item = np.dtype(dtype).itemsize
    few = ((1, 1), (3, 0, 1), (5, 16, 7))
    for widths in few if nbytes > 1 << 20 else (*few, (1, 1, 1), (1,) * 10, (2, 2), (7, 25)):
        rows = nbytes // item // sum(widths) + 1
        parts = [numbers(rows, w, dtype=dtype) + i for i, w in enumerate(widths)]
        tensors = [shmtensor.from_numpy(part) for part in parts]
        same(shmtensor.cat(tensors, 1), np.concatenate(parts, 1))
        if set(widths) == {1}:
            same(shmtensor.stack([t[:, 0] for t in tensors], 1), np.concatenate(parts, 1))
            same(shmtensor.stack(tensors, 1), np.stack(parts, 1))
            same(shmtensor.stack(tensors, -1), np.stack(parts, -1))


@pytest.mark.check
def test_rows_with_gaps_between_them(threads: int) -> None:
    a = numbers(N // 1000, 1000)
    whole = shmtensor.full((N // 1000, 1003), -1.0)
    shmtensor.mul(shmtensor.from_numpy(a), 2.0, out=whole[:, 1:1001])
    same(whole[:, 1:1001], a * 2)
    assert whole[:, 0].eq(-1).all()
    assert whole[:, 1001:].eq(-1).all()


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("rows", [256, 259, 4100])
def test_transposed_planes(dtype: str, rows: int, threads: int) -> None:
    columns = (17 << 20) // np.dtype(dtype).itemsize // rows + 1
    a = numbers(rows, columns, dtype=dtype)
    t = shmtensor.from_numpy(a)
    same(t.t().contiguous(), a.T)
    whole = shmtensor.full((columns + 1, rows + 3), 7, dtype=t.dtype)
    whole[1:, 2:-1] = t.t()
    same(whole[1:, 2:-1], a.T)
    assert whole[0].eq(7).all()
    assert whole[:, :2].eq(7).all()
    assert whole[:, -1].eq(7).all()


@pytest.mark.parametrize("shape", [(3, 1201, 1303), (2, 67, 200, 173), (5, 300, 3001)])
def test_transposed_planes_of_more_dims(shape: tuple[int, ...], threads: int) -> None:
    a = numbers(*shape)
    t = shmtensor.from_numpy(a)
    for order in ((0, *range(len(shape))[:0:-1]), (*range(1, len(shape)), 0)):
        same(t.permute(order).contiguous(), a.transpose(order))
    t = t.flatten(2)[:, 1:, ::2]
    same(t.transpose(1, 2).contiguous(), t.numpy().transpose(0, 2, 1))


def test_fills_of_views(threads: int) -> None:
    for value in (0.0, 2.5):
        whole, part = inside(N, 3)
        part.fill_(value)
        assert part.eq(value).all()
        assert whole[:3].eq(-1).all()
        assert whole[3 + N :].eq(-1).all()
    rows = shmtensor.full((N // 1000, 1003), -1.0)
    rows[:, 2:1001] = 7.0
    assert rows[:, 2:1001].eq(7).all()
    assert rows[:, :2].eq(-1).all()
    assert rows[:, 1001:].eq(-1).all()


@pytest.mark.parametrize("diagonal", [-4000, -70, 0, 1, 2000])
@pytest.mark.parametrize("shape", [(2161, 2163), (2, 3001, 800), (500, 9001)])
def test_tril_and_triu(shape: tuple[int, ...], diagonal: int, threads: int) -> None:
    a = numbers(*shape)
    t = shmtensor.from_numpy(a)
    same(t.tril(diagonal), np.tril(a, diagonal))
    same(t.triu(diagonal), np.triu(a, diagonal))
    same(t.clone().triu_(diagonal), np.triu(a, diagonal))


@pytest.mark.parametrize("dtype", ["int16", "int64", "float32", "float64", "bfloat16"])
def test_ranges(dtype: str, threads: int) -> None:
    n = 1 << 24 if dtype in ("int16", "bfloat16") else N
    got = shmtensor.arange(n, dtype=getattr(shmtensor, dtype))
    small = shmtensor.arange(n, dtype=shmtensor.float64 if "float" in dtype else shmtensor.int64)
    assert shmtensor.equal(got, small.to(got.dtype))
    assert got[1].item() == 1


def test_results_that_are_read_stay_in_the_caches(threads: int) -> None:
    a = numbers(N)
    t = shmtensor.from_numpy(a.copy())
    t.add_(t)
    same(t, a + a)
    t[1:].copy_(t[:-1].clone())
    same(t[1:], (a + a)[:-1])
