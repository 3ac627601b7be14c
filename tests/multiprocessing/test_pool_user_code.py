"""What users' code raises on the threads of a pool is the result of its own task.

Note [User code on the pool's threads] in shmtensor/multiprocessing/_pool_workers.py.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from multiprocessing.pool import MaybeEncodingError  # type: ignore[attr-defined]
from typing import Any

import pytest

import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing.pool import Pool

WAIT_S = 60  # against hangs; nothing here takes long


class ExitsWhenPickled:
    def __reduce__(self) -> Any:
        sys.exit(5)


class ExitsWhenUnpickled:
    def __reduce__(self) -> Any:
        return sys.exit, (5,)


def same(value: Any) -> Any:
    return value


def exiting_result(_: Any) -> Any:
    return ExitsWhenUnpickled()


def one_and(error: BaseException) -> Iterator[int]:
    yield 1
    raise error


@pytest.fixture
def pool() -> Iterator[Pool]:
    with mp.get_context("fork").Pool(2) as made:
        yield made
        assert made.apply_async(same, (3,)).get(WAIT_S) == 3
        assert made.map_async(same, [3, 4]).get(WAIT_S) == [3, 4]
        assert list(made.imap(same, [3, 4])) == [3, 4]
        made.close()
        made.join()
    made._pool.clear()


EXITING: dict[str, Callable[[Pool], Any]] = {
    "a callback": lambda p: p.apply_async(same, ([1, 2],), callback=sys.exit),
    "a callback of a map": lambda p: p.map_async(same, [1, 2], callback=sys.exit),
}


@pytest.mark.check
@pytest.mark.parametrize("what", EXITING)
def test_callback_that_exits_costs_nobody_a_result(
    what: str, pool: Pool, capfd: pytest.CaptureFixture[str]
) -> None:
    assert EXITING[what](pool).get(WAIT_S) == [1, 2]


def test_callback_of_an_error_that_exits(pool: Pool, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        pool.apply_async(int, ("x",), error_callback=sys.exit).get(WAIT_S)


@pytest.mark.check
@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt(), GeneratorExit()])
@pytest.mark.parametrize("imap", ["imap", "imap_unordered"])
def test_iterator_that_exits(imap: str, error: BaseException, pool: Pool) -> None:
    results = getattr(pool, imap)(same, one_and(error))
    seen: list[Any] = []
    for _ in range(2):
        try:
            seen.append(results.next(WAIT_S))
        except RuntimeError as told:
            seen.append(told)
    if imap == "imap_unordered":
        seen.sort(key=lambda each: each != 1)
    assert seen[0] == 1 and seen[1].__cause__ is error
    assert "the iterator of the pool's tasks" in str(seen[1])
    with pytest.raises(StopIteration):
        results.next(WAIT_S)


def test_task_whose_pickling_exits(pool: Pool) -> None:
    with pytest.raises(RuntimeError, match=r"pickling a task of the pool raised SystemExit\(5\)"):
        pool.map_async(same, [ExitsWhenPickled(), 2]).get(WAIT_S)
    results = pool.imap(same, [ExitsWhenPickled(), 2])
    with pytest.raises(RuntimeError, match=r"raised SystemExit\(5\)"):
        results.next(WAIT_S)
    assert results.next(WAIT_S) == 2


def test_result_whose_unpickling_exits(pool: Pool) -> None:
    with pytest.raises(RuntimeError, match=r"unpickling the result .* raised SystemExit\(5\)"):
        pool.apply_async(exiting_result, (1,)).get(WAIT_S)


class CannotBeSent:
    """Can neither be pickled nor shown."""

    def __reduce__(self) -> Any:
        raise ValueError("no pickle")

    def __repr__(self) -> str:
        raise EOFError("no repr")


class EndsAndCannotBeShown(BaseException):
    def __repr__(self) -> str:
        raise SystemExit(6)


class RaisesWhenUnpickled:
    def __reduce__(self) -> Any:
        return raise_unshowable, ()


def raise_unshowable() -> None:
    raise EndsAndCannotBeShown


def raising(_: Any) -> None:
    raise ValueError("of a callback")


def not_sendable(_: Any) -> Any:
    return CannotBeSent()


def too_deep(_: Any) -> Any:
    nested: Any = []
    for _level in range(200_000):
        nested = [nested]
    return nested


def endlessly_shown(_: Any) -> Any:
    nested: Any = [same, lambda: None]
    for _level in range(60):
        nested = [nested, nested]
    return nested


def unloadable(_: Any) -> Any:
    return RaisesWhenUnpickled()


@pytest.mark.check
@pytest.mark.parametrize("task", [not_sendable, too_deep, endlessly_shown])
def test_result_that_can_be_neither_sent_nor_shown(task: Any, pool: Pool) -> None:
    pids = {process.pid for process in pool._pool}
    with pytest.raises(MaybeEncodingError) as told:
        pool.apply_async(task, (1,)).get(WAIT_S)
    assert len(str(told.value)) < 10_000
    assert {process.pid for process in pool._pool} == pids


def test_error_that_cannot_be_shown(pool: Pool) -> None:
    with pytest.raises(RuntimeError, match="raised <EndsAndCannotBeShown object>") as told:
        pool.apply_async(unloadable, (1,)).get(WAIT_S)
    assert isinstance(told.value.__cause__, EndsAndCannotBeShown)


@pytest.mark.check
def test_callback_that_raises_where_stderr_takes_nothing(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for stderr in (TakesNothing(), None):
        monkeypatch.setattr(sys, "stderr", stderr)
        assert pool.apply_async(same, (4,), callback=raising).get(WAIT_S) == 4
    monkeypatch.undo()
    assert capfd.readouterr() == ("", "")


class TakesNothing(io.StringIO):
    """A stderr whose reader is gone, or whose disk is full."""

    def write(self, _: str) -> int:
        raise OSError("nothing more")


class SaysTen:
    """Has a length, and fewer items than that or an error after the first."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    def __len__(self) -> int:
        return 10

    def __iter__(self) -> Iterator[int]:
        yield 1
        if self._error is not None:
            raise self._error


@pytest.mark.check
def test_map_over_what_has_another_length_than_it_says(pool: Pool) -> None:
    assert pool.map_async(same, SaysTen(), 1).get(WAIT_S) == [1]
    with pytest.raises(ValueError, match="of the items"):
        pool.map_async(same, SaysTen(ValueError("of the items")), 1)
    items = list(range(100))
    results = pool.map_async(same, items, 1)
    items.clear()
    assert results.get(WAIT_S) == list(range(100))


def test_map_in_chunks_of_nothing(pool: Pool) -> None:
    for chunksize in (0, -1):
        with pytest.raises(ValueError, match=f"Chunksize must be 1\\+, not {chunksize}"):
            pool.map(same, [1, 2], chunksize)
