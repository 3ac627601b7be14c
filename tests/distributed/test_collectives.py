"""What collectives compute, against numpy, for worlds of one to four ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ranks import run

import shmtensor as T
from shmtensor import distributed as dist

OPS = dist.ReduceOp
# One step, several chunks of one meeting, many chunks; and no multiple of anything.
SIZES = (0, 1, 5, 1000, 70_001, 600_011)
WHOLE = ["uint8", "int8", "int16", "int32", "int64"]
REAL = ["float32", "float64", "float16", "bfloat16"]
FOLD = {
    OPS.SUM: np.add,
    OPS.PRODUCT: np.multiply,
    OPS.MIN: np.minimum,
    OPS.MAX: np.maximum,
    OPS.BAND: np.bitwise_and,
    OPS.BOR: np.bitwise_or,
    OPS.BXOR: np.bitwise_xor,
}


def values(n: int, rank: int, dtype: str) -> Any:
    """A rank's tensor: small whole numbers, so that sums are exact in every dtype."""
    return ((T.arange(n, dtype=T.int64) * (rank + 3) + rank) % 7 - (dtype[0] != "u") * 3).to(
        getattr(T, dtype)
    )


def folded(n: int, size: int, dtype: str, op: Any) -> Any:
    arrays = [values(n, rank, dtype).to(T.float64).numpy() for rank in range(size)]
    if dtype not in REAL:
        arrays = [values(n, rank, dtype).numpy() for rank in range(size)]
    total = arrays[0]
    for array in arrays[1:]:
        total = FOLD[OPS.SUM if op == OPS.AVG else op](total, array)
    if op == OPS.AVG:
        total = total / size if dtype in REAL else np.trunc(total / size)
    return total


def same(tensor: Any, expected: Any) -> bool:
    return np.array_equal(tensor.to(T.float64).numpy(), np.asarray(expected, dtype=np.float64))


def _reductions(rank: int, size: int, dtype: str) -> None:
    ops = [*FOLD, OPS.AVG] if dtype in WHOLE else [OPS.SUM, OPS.PRODUCT, OPS.MIN, OPS.MAX]
    for op in ops:
        for n in SIZES if op == OPS.SUM else (5, 70_001):
            expected = folded(n, size, dtype, op)
            x = values(n, rank, dtype)
            dist.all_reduce(x, op)
            assert same(x, expected), ("all_reduce", op, n)
            x = values(n, rank, dtype)
            dist.reduce(x, size - 1, op)
            if rank == size - 1:
                assert same(x, expected), ("reduce", op, n)
            else:
                assert T.equal(x, values(n, rank, dtype))
            out = T.empty(n, dtype=getattr(T, dtype))
            dist.reduce_scatter(out, [values(n, rank, dtype) for _ in range(size)], op)
            assert same(out, expected), ("reduce_scatter", op, n)


@pytest.mark.check
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [*WHOLE, *REAL])
def test_reductions(size: int, dtype: str) -> None:
    run(size, _reductions, dtype)


def _copies(rank: int, size: int, dtype: str) -> None:
    for n in SIZES:
        every = [values(n, r, dtype) for r in range(size)]
        for root in {0, size - 1}:
            x = values(n, rank, dtype)
            dist.broadcast(x, root)
            assert T.equal(x, every[root]), ("broadcast", n)
            outs = [T.empty_like(x) for _ in range(size)] if rank == root else None
            dist.gather(every[rank], outs, root)
            if outs is not None:
                assert all(map(T.equal, outs, every)), ("gather", n)
            out = T.empty_like(x)
            dist.scatter(out, every if rank == root else None, root)
            assert T.equal(out, every[rank]), ("scatter", n)
        outs = [T.empty_like(every[0]) for _ in range(size)]
        dist.all_gather(outs, every[rank])
        assert all(map(T.equal, outs, every)), ("all_gather", n)
        whole = T.empty(size * n, dtype=every[0].dtype)
        dist.all_gather_into_tensor(whole, every[rank])
        assert T.equal(whole, T.cat(every)), ("all_gather_into_tensor", n)
        whole = T.empty(size, n, dtype=every[0].dtype)
        whole[rank] = every[rank]
        dist.all_gather_into_tensor(whole, whole[rank])  # in place
        assert T.equal(whole, T.stack(every))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "complex64", "float64"])
def test_copies(size: int, dtype: str) -> None:
    run(size, _copies, dtype)


def _all_to_all(rank: int, size: int) -> None:
    for n in (0, 1, 50, 90_000):
        # Rank i sends (i + 1) * n + j elements of value 10 i + j to rank j.
        inputs = [T.full(((rank + 1) * n + j,), 10 * rank + j) for j in range(size)]
        outputs = [T.empty((i + 1) * n + rank, dtype=T.int64) for i in range(size)]
        dist.all_to_all(outputs, inputs)
        for i, output in enumerate(outputs):
            assert T.equal(output, T.full(((i + 1) * n + rank,), 10 * i + rank))
    rows = T.arange(size * 2 * 3).reshape(size * 2, 3) + 100 * rank
    out = T.empty_like(rows)
    dist.all_to_all_single(out, rows)
    expected = [
        T.arange(size * 2 * 3).reshape(size * 2, 3)[2 * rank : 2 * rank + 2] + 100 * i
        for i in range(size)
    ]
    assert T.equal(out, T.cat(expected))
    # Rank i sends j rows to rank j.
    n = size * (size - 1) // 2
    rows = T.full((n, 2), rank)
    out = T.empty(rank * size, 2, dtype=T.int64)
    dist.all_to_all_single(out, rows, [rank] * size, list(range(size)))
    assert T.equal(out[:, 0], T.arange(size).repeat_interleave(rank))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_to_all(size: int) -> None:
    run(size, _all_to_all)


def _bits(rank: int, size: int) -> list[bytes]:
    generator = T.Generator().manual_seed(rank)
    found = []
    for n in (100, 5_000, 300_000):
        for dtype in (T.float32, T.bfloat16, T.float16):
            x = T.randn(n, generator=generator).to(dtype)
            dist.all_reduce(x)
            found.append(x.view(T.uint8).numpy().tobytes())
            dist.all_reduce(x, OPS.AVG)
            found.append(x.view(T.uint8).numpy().tobytes())
    return found


@pytest.mark.parametrize("size", [2, 3, 4])
def test_all_ranks_have_equal_bits(size: int) -> None:
    first, *others = run(size, _bits)
    assert all(other == first for other in others)


def _layouts(rank: int, size: int) -> None:
    whole = T.zeros(6, 8) + rank + 1
    dist.all_reduce(whole.t()[::2])  # columns 0, 2, ... of whole
    total = size * (size + 1) / 2
    assert (whole[:, ::2] == total).all() and (whole[:, 1::2] == rank + 1).all()
    z = T.complex(T.full((3,), 1.0), T.full((3,), float(rank)))
    dist.all_reduce(z)
    assert T.equal(z, T.complex(T.full((3,), float(size)), T.full((3,), size * (size - 1) / 2)))
    c = T.complex(T.ones(2), T.full((2,), float(rank))).conj()
    outs = [T.empty(2, dtype=T.complex64) for _ in range(size)]
    dist.all_gather(outs, c)
    assert all(out[0].imag == -i for i, out in enumerate(outs))
    weight = T.full((2, 2), float(rank), requires_grad=True)
    dist.broadcast(weight, 0)
    assert (weight == 0).all() and weight.grad_fn is None
    b = T.tensor([rank == 0, False, True])
    dist.all_reduce(b)
    assert b.tolist() == [True, False, True]
    scalar = T.tensor(float(rank))
    dist.all_reduce(scalar, OPS.MAX)
    assert scalar.item() == size - 1


@pytest.mark.check
def test_tensors_of_all_kinds() -> None:
    run(3, _layouts)


def _coalesced(rank: int, size: int) -> None:
    tensors = [T.full((n,), float(rank)) for n in (1, 100, 9000)]
    dist.all_reduce_coalesced(tensors, OPS.MAX)
    assert all((t == size - 1).all() for t in tensors)


def test_several_tensors() -> None:
    run(2, _coalesced)


def _many_steps(rank: int, size: int) -> int:
    """The ranks run ahead of each other as far as they may."""
    total = 0
    for i in range(3000):
        x = T.full((3,), i * (rank + 1))
        root = i % size
        dist.broadcast(x, root)
        assert x[0] == i * (root + 1)
        if i % 3 == 0:
            dist.all_reduce(x)
            total += int(x[0])
        if i % 7 == 0:
            dist.barrier()
    return total


def test_thousands_of_steps() -> None:
    assert len(set(run(3, _many_steps))) == 1


def _root_runs_ahead(rank: int, size: int) -> None:
    for i in range(200):
        x = T.full((1_200_000 if i % 10 == 0 else 10,), float(i))
        dist.broadcast(x, 0)
        dist.barrier()
        dist.broadcast(x, 0)
        assert x[-1] == i
        dist.reduce(x, 1)
        dist.barrier()


def test_a_root_that_runs_ahead_is_understood() -> None:
    run(3, _root_runs_ahead)
