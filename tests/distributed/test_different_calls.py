"""Ranks that call different things: every rank says which two ranks call what."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.synchronize import Semaphore
from typing import Any

import pytest
import waiting
from ranks import run

import shmtensor as T
from shmtensor import distributed as dist

#: Longer than any test may take: no call may end by its timeout.
TIMEOUT_S = 1000.0


def _x(n: int = 6, dtype: Any = T.float32) -> T.Tensor:
    return T.ones(n, dtype=dtype)


def _list(size: int, n: int = 6, dtype: Any = T.float32) -> list[T.Tensor]:
    return [_x(n, dtype) for _ in range(size)]


def _gather(rank: int, size: int, root: int) -> None:
    dist.gather(_x(), _list(size) if rank == root else None, root)


def _scatter(rank: int, size: int, root: int) -> None:
    dist.scatter(_x(), _list(size) if rank == root else None, root)


#: By name, with how an error names it.
CALLS: dict[str, tuple[Callable[[int, int], Any], str]] = {
    "all_reduce": (
        lambda r, n: dist.all_reduce(_x()),
        "all_reduce of 24 bytes of torch.float32 with SUM",
    ),
    "all_reduce of fewer": (lambda r, n: dist.all_reduce(_x(5)), "all_reduce of 20 bytes"),
    "all_reduce of int32": (
        lambda r, n: dist.all_reduce(_x(6, T.int32)),
        "all_reduce of 24 bytes of torch.int32",
    ),
    "all_reduce of complex64": (
        lambda r, n: dist.all_reduce(_x(3, T.complex64)),
        "all_reduce of 24 bytes of torch.complex64 with SUM",
    ),
    "all_reduce of much": (lambda r, n: dist.all_reduce(_x(600_000)), "all_reduce of 2400000"),
    "all_reduce MAX": (lambda r, n: dist.all_reduce(_x(), dist.ReduceOp.MAX), "with MAX"),
    "broadcast 0": (
        lambda r, n: dist.broadcast(_x(), 0),
        "broadcast of 24 bytes of torch.float32 with root 0",
    ),
    "broadcast 1": (lambda r, n: dist.broadcast(_x(), 1), "with root 1"),
    "broadcast of much": (lambda r, n: dist.broadcast(_x(600_000), 0), "broadcast of 2400000"),
    "broadcast of uint16": (
        lambda r, n: dist.broadcast(T.zeros(12, dtype=T.uint16), 0),
        "broadcast of 24 bytes of torch.uint16",
    ),
    "broadcast of uint32": (
        lambda r, n: dist.broadcast(T.zeros(6, dtype=T.uint32), 0),
        "broadcast of 24 bytes of torch.uint32",
    ),
    "reduce 0": (lambda r, n: dist.reduce(_x(), 0), "reduce of 24 bytes"),
    "reduce 1": (lambda r, n: dist.reduce(_x(), 1), "reduce of 24 bytes"),
    "reduce of complex64": (
        lambda r, n: dist.reduce(_x(3, T.complex64), 0),
        "reduce of 24 bytes of torch.complex64 with SUM",
    ),
    "all_gather": (lambda r, n: dist.all_gather(_list(n), _x()), "all_gather of 24 bytes"),
    "all_gather of nothing": (
        lambda r, n: dist.all_gather(_list(n, 0), _x(0)),
        "all_gather of 0 bytes",
    ),
    "gather 0": (lambda r, n: _gather(r, n, 0), "gather of 24 bytes .* with root 0"),
    "gather 1": (lambda r, n: _gather(r, n, 1), "gather of 24 bytes .* with root 1"),
    "scatter 0": (lambda r, n: _scatter(r, n, 0), "scatter of 24 bytes .* with root 0"),
    "scatter 1": (lambda r, n: _scatter(r, n, 1), "scatter of 24 bytes .* with root 1"),
    "reduce_scatter": (
        lambda r, n: dist.reduce_scatter(_x(), _list(n)),
        "reduce_scatter of 24 bytes",
    ),
    "reduce_scatter of complex64": (
        lambda r, n: dist.reduce_scatter(_x(3, T.complex64), _list(n, 3, T.complex64)),
        "reduce_scatter of 24 bytes of torch.complex64 with SUM",
    ),
    "all_to_all": (
        lambda r, n: dist.all_to_all(_list(n), _list(n)),
        "all_to_all of torch.float32",
    ),
    "all_to_all of int32": (
        lambda r, n: dist.all_to_all(_list(n, 6, T.int32), _list(n, 6, T.int32)),
        "all_to_all of torch.int32",
    ),
    "all_to_all of float64": (
        lambda r, n: dist.all_to_all(_list(n, 3, T.float64), _list(n, 3, T.float64)),
        "all_to_all of torch.float64",
    ),
    "barrier": (lambda r, n: dist.barrier(), "barrier"),
    "monitored_barrier": (lambda r, n: dist.monitored_barrier(), "monitored_barrier"),
    "all_gather_object": (
        lambda r, n: dist.all_gather_object([None] * n, "x"),
        "all_gather of 8 bytes of torch.int64",
    ),
    "broadcast_object_list": (
        lambda r, n: dist.broadcast_object_list(["x", "y"], 0),
        "broadcast of 16 bytes of torch.int64",
    ),
    "coalesced": (
        lambda r, n: dist.all_reduce_coalesced([_x(2), _x(3)]),
        "all_reduce of 8 bytes",
    ),
    "async": (
        lambda r, n: dist.all_reduce(_x(7), async_op=True).wait(),
        "all_reduce of 28 bytes",
    ),
}

PAIRS = [
    ("broadcast 0", "broadcast 1"),
    ("broadcast 1", "broadcast 0"),
    ("broadcast 0", "all_reduce"),
    ("all_reduce", "broadcast 0"),
    ("broadcast 1", "all_reduce"),
    ("broadcast 0", "reduce 0"),
    ("broadcast 1", "reduce 0"),
    ("reduce 0", "broadcast 0"),
    ("reduce 0", "reduce 1"),
    ("reduce 1", "reduce 0"),
    ("broadcast of much", "all_reduce of much"),
    ("broadcast of uint16", "broadcast of uint32"),
    ("all_reduce", "all_reduce of fewer"),
    ("all_reduce", "all_reduce of int32"),
    ("all_reduce of complex64", "all_reduce"),
    ("reduce 0", "reduce of complex64"),
    ("reduce_scatter of complex64", "reduce_scatter"),
    ("all_reduce", "all_reduce MAX"),
    ("all_reduce", "all_reduce of much"),
    ("all_reduce", "barrier"),
    ("all_gather", "gather 0"),
    ("gather 1", "all_gather"),
    ("gather 0", "gather 1"),
    ("gather 1", "gather 0"),
    ("gather 0", "scatter 0"),
    ("scatter 0", "scatter 1"),
    ("scatter 1", "scatter 0"),
    ("scatter 0", "broadcast 0"),
    ("all_gather", "all_gather of nothing"),
    ("reduce_scatter", "all_reduce"),
    ("all_to_all", "all_gather"),
    ("all_to_all", "all_to_all of int32"),
    ("all_to_all", "all_to_all of float64"),
    ("barrier", "broadcast 0"),
    ("monitored_barrier", "all_reduce"),
    ("all_reduce", "monitored_barrier"),
    ("monitored_barrier", "broadcast 0"),
    ("all_gather_object", "broadcast_object_list"),
    ("coalesced", "all_reduce"),
    ("async", "broadcast 1"),
]


def _calls(rank: int, size: int, names: tuple[str, ...], together: bool) -> tuple[str, str]:
    dist.all_reduce(_x())  # the numbers of steps are not those of a new group
    if not together:
        time.sleep(0.1 * rank)
    call, _ = CALLS[names[rank]]
    with pytest.raises(RuntimeError) as caught:
        call(rank, size)
    with pytest.raises(RuntimeError) as again:
        dist.all_reduce(_x())
    return str(caught.value), str(again.value)


def _check(names: tuple[str, ...], answers: list[tuple[str, str]]) -> None:
    for rank, texts in enumerate(answers):
        for text in texts:
            found = re.fullmatch(
                r"ranks do not call the same: rank (\d) calls (.*), rank (\d) calls (.*)", text
            )
            assert found, text
            first, one, second, other = found.groups()
            # A rank that comes when the others know already names two of them.
            assert first != second and (str(rank) in (first, second) or len(names) > 2), text
            assert re.search(CALLS[names[int(first)]][1], one), text
            assert re.search(CALLS[names[int(second)]][1], other), text


@pytest.mark.parametrize("names", PAIRS, ids=" - ".join)
def test_two_ranks_call_different_things(names: tuple[str, str]) -> None:
    _check(names, run(2, _calls, names, True, timeout_s=TIMEOUT_S))


@pytest.mark.check
@pytest.mark.parametrize("odd", [0, 1, 2])
@pytest.mark.parametrize(
    ("most", "one"),
    [("broadcast 0", "all_reduce"), ("all_reduce", "broadcast 1"), ("barrier", "gather 0")],
)
def test_one_of_three_ranks_calls_another_thing(most: str, one: str, odd: int) -> None:
    names = tuple(one if rank == odd else most for rank in range(3))
    _check(names, run(3, _calls, names, False, timeout_s=TIMEOUT_S))


def test_each_of_three_ranks_calls_another_thing() -> None:
    names = ("broadcast 1", "reduce 0", "scatter 0")
    _check(names, run(3, _calls, names, False, timeout_s=TIMEOUT_S))


def _late(rank: int, size: int, n_told: Semaphore) -> str:
    for _ in range(2 if rank == 0 else 0):
        assert n_told.acquire(timeout=waiting.HANG_S)
    call = CALLS["broadcast 0" if rank == 2 else "barrier"][0]
    with pytest.raises(RuntimeError) as caught:
        call(rank, size)
    n_told.release()
    return str(caught.value)


def test_a_rank_that_has_not_come_hides_nothing() -> None:
    n_told = multiprocessing.get_context("fork").Semaphore(0)
    answers = run(3, _late, n_told, timeout_s=TIMEOUT_S)
    assert "rank 1 calls barrier, rank 2 calls broadcast of 24 bytes" in answers[1]
    assert "rank 2 calls broadcast of 24 bytes" in answers[2]
    # Rank 0 comes when the group is broken: it names the two that it finds.
    assert "calls barrier" in answers[0] and "calls broadcast of 24 bytes" in answers[0]


# --- all_to_all ------------------------------------------------------------------------------


def _unequal(rank: int, size: int, single: bool) -> str:
    if single:
        take = [2, 2, 2] if rank != 2 else [1, 1, 2]
        arguments: tuple[Any, ...] = (_x(sum(take)), _x(6), take, [2, 3, 1])
    else:
        inputs = [_x(4 + (rank == 1 and other == 2)) for other in range(size)]
        arguments = (_list(size, 4), inputs)
    call: Any = dist.all_to_all_single if single else dist.all_to_all
    with pytest.raises(RuntimeError) as caught:
        call(*arguments)
    return str(caught.value)


def test_sizes_of_all_to_all_that_differ() -> None:
    answers = run(3, _unequal, False, timeout_s=TIMEOUT_S)
    assert len(set(answers)) == 1
    assert answers[0] == (
        "ranks do not call the same: rank 1 calls all_to_all with 5 elements for rank 2, rank 2 "
        "calls all_to_all with 4 elements from rank 1"
    )
    answers = run(3, _unequal, True, timeout_s=TIMEOUT_S)
    assert len(set(answers)) == 1
    assert "rank 0 calls all_to_all with 3 elements for rank 1, rank 1 calls" in answers[0]


def _right(rank: int, size: int) -> list[float]:
    got = []
    for n in (0, 1, 200_000):
        inputs = [T.full((n + rank + 2 * other,), float(rank)) for other in range(size)]
        outputs = [T.empty(n + other + 2 * rank) for other in range(size)]
        dist.all_to_all(outputs, inputs)
        got += [each.sum().item() - each.numel() * other for other, each in enumerate(outputs)]
    return got


@pytest.mark.check
def test_unequal_sizes_that_fit() -> None:
    assert run(3, _right, timeout_s=TIMEOUT_S) == [[0.0] * 9] * 3


# --- messages ---------------------------------------------------------------------------------


def _messages(rank: int, size: int, stashed: bool) -> str | None:
    if rank == 0:
        dist.send(_x(2), 1, tag=5)
        if stashed:
            dist.send(_x(1), 1, tag=6)
        return None
    if stashed:
        dist.recv(_x(1), 0, tag=6)  # keeps the first one for later
    with pytest.raises(RuntimeError) as caught:
        dist.recv(T.zeros(2, dtype=T.int32), 0, tag=5)
    return str(caught.value)


@pytest.mark.parametrize("stashed", [False, True])
def test_a_message_of_another_dtype(stashed: bool) -> None:
    answers = run(2, _messages, stashed, timeout_s=TIMEOUT_S)
    assert answers[1] == (
        "rank 0 has sent 8 bytes of torch.float32, rank 1 wants to receive 8 of torch.int32"
    )


# --- groups of some ----------------------------------------------------------------------------


def _in_a_subgroup(rank: int, size: int) -> str:
    pair = dist.new_group([0, 2])
    text = ""
    if rank != 1:
        call: Any = dist.broadcast if rank == 0 else dist.all_reduce
        arguments = {"src": 0} if rank == 0 else {}
        with pytest.raises(RuntimeError) as caught:
            call(_x(), group=pair, **arguments)
        text = str(caught.value)
    dist.barrier()  # the others' group is as it was
    return text


def test_a_subgroup() -> None:
    answers = run(3, _in_a_subgroup, timeout_s=TIMEOUT_S)
    assert (
        "rank 0 calls broadcast of 24 bytes of torch.float32 with root 0, rank 1 calls"
        in (answers[0])
    )
    assert "rank 1 calls all_reduce of 24 bytes" in answers[2] and answers[1] == ""


# --- calls that are the same --------------------------------------------------------------------


def _barriers(rank: int, size: int) -> float:
    x = T.ones(3)
    for _ in range(30):
        dist.monitored_barrier(timeout=timedelta(seconds=50))
        dist.all_reduce(x, dist.ReduceOp.MAX)
    work = dist.all_reduce(x, async_op=True)
    dist.monitored_barrier()
    assert work is not None
    work.wait()
    return x.sum().item()


def test_ranks_that_leave_a_monitored_barrier_early_are_right() -> None:
    assert run(3, _barriers, timeout_s=60.0) == [9.0] * 3


def _rooted(rank: int, size: int) -> list[float]:
    """Every root, with tensors of several chunks, one call right after the other."""
    got = []
    for n in (1, 700_000):
        for root in range(size):
            x = T.full((n,), float(rank))
            dist.broadcast(x, root)
            dist.reduce(x, root)
            got.append(x[-1].item() if rank == root else float(root * size))
            parts = [T.full((n,), 10.0 * root + i) for i in range(size)] if rank == root else None
            dist.scatter(x, parts, root)
            dist.gather(x, parts, root)
            got.append(float(sum(part[-1].item() for part in parts)) if parts else 0.0)
    return got


def test_every_root() -> None:
    answers = run(3, _rooted, timeout_s=60.0)
    for answer in answers:
        assert answer[::2] == [0.0, 3.0, 6.0] * 2
    assert [sum(answer[1::2]) for answer in answers] == [6.0, 66.0, 126.0]
