"""Datasets and functions that worker processes of every start method can import."""

from __future__ import annotations

import os
import queue
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor.utils.data import Dataset, IterableDataset, get_worker_info


class RaisesInTheParent:
    """Raises an error when its parent unpickles it."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error
        self.parent = os.getppid()

    def __reduce__(self) -> Any:
        return _raise_in, (self.parent, self.error)


def _raise_in(pid: int, error: type[BaseException]) -> None:
    if os.getpid() == pid:
        raise error("of the batch")


def unreadable_by_eof(index: int) -> Any:
    return RaisesInTheParent(EOFError) if index == 1 else index


def unreadable_by_empty(index: int) -> Any:
    return RaisesInTheParent(queue.Empty) if index == 1 else index


def unreadable_by_memory(index: int) -> Any:
    return RaisesInTheParent(MemoryError) if index == 2 else index


def unreadable_by_exit(index: int) -> Any:
    return RaisesInTheParent(SystemExit) if index == 1 else index


class ShortOfMemoryOnce:
    """Raises MemoryError when its parent unpickles it for the first time; then it is its number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.parent = os.getppid()

    def __reduce__(self) -> Any:
        return _number_of, (self.parent, self.number)


_seen: set[int] = set()


def _number_of(pid: int, number: int) -> int:
    if os.getpid() == pid and number not in _seen:
        _seen.add(number)
        raise MemoryError
    _seen.discard(number)
    return number


def short_of_memory_once(index: int) -> Any:
    return ShortOfMemoryOnce(index)


def slowly(index: int) -> int:
    time.sleep(0.5)
    return index


class Calls(Dataset[Any]):
    """Sample *i* is what a function returns for *i*."""

    def __init__(self, function: Callable[[int], Any], n: int = 8) -> None:
        self.function = function
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        return self.function(index)


class Numbers(IterableDataset[int]):
    """The numbers below *n*; each worker has every so-manieth, the first ones more."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if info is None:
            return iter(range(self.n))
        return iter(range(info.id, self.n, info.num_workers))


class Uneven(IterableDataset[int]):
    """Worker *w* has ``counts[w]`` numbers from ``100 * w`` on."""

    def __init__(self, counts: list[int]) -> None:
        self.counts = counts

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        return iter(range(100 * info.id, 100 * info.id + self.counts[info.id]))


def itself(index: int) -> int:
    return index


def pid(index: int) -> int:
    return os.getpid()


def row(index: int) -> tuple[Any, int]:
    return st.full((3, 4), float(index)), index


def draws(index: int) -> list[Any]:
    info = get_worker_info()
    assert info is not None
    return [info.id, info.seed, random.random(), float(np.random.rand()), st.rand(1).item()]


def image(index: int) -> Any:
    return st.full((3, 64, 64), float(index))


def slow(index: int) -> int:
    time.sleep(0.02)
    return index


def slow_image(index: int) -> Any:
    time.sleep(0.01)
    return image(index)


def hang(index: int) -> None:
    while True:
        time.sleep(1000)


def hang_in_the_first_batch(index: int) -> int:
    if index == 0:
        hang(index)
    return index


def kill_itself(index: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash(index: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def exit_at_once(index: int) -> None:
    os._exit(7)


def leave(index: int) -> None:
    raise SystemExit(3)


def fail(index: Any) -> None:
    raise ValueError(f"no sample for {index}")


def fail_at_five(index: int) -> int:
    if index == 5:
        raise KeyError("five")
    return index


class NeedsTwo(Exception):
    def __init__(self, first: object, second: object) -> None:
        super().__init__(first, second)


def fail_with_two(index: int) -> None:
    raise NeedsTwo(1, 2)


def fail_with_a_local_class(index: int) -> None:
    class LocalError(Exception):
        pass

    raise LocalError("nobody else has this class")


def unpicklable(index: int) -> Any:
    return lambda: index


class _OnlyInItsWorker:
    """Cannot be unpickled anywhere."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise LookupError("cannot be made here")


def unreadable_at_two(index: int) -> Any:
    return _OnlyInItsWorker() if index == 2 else index


def first_of(samples: list[Any]) -> Any:
    return samples[0]


def private_batch(samples: list[Any]) -> Any:
    """A collate function that knows nothing of shared memory."""
    return {"x": st.stack(samples), "n": len(samples)}


def array_batch(samples: list[Any]) -> Any:
    return np.stack([sample.numpy() for sample in samples])


def set_first_sample(worker_id: int) -> None:
    info = get_worker_info()
    assert info is not None
    assert info.id == worker_id
    info.dataset.function = [itself, pid][worker_id % 2]


def fail_to_begin(worker_id: int) -> None:
    raise OSError(f"worker {worker_id} has no disk")


def stop(index: Any) -> None:
    raise StopIteration("the program's own")


class StopsBeforeItsBeginning(IterableDataset[int]):
    def __iter__(self) -> Any:
        raise StopIteration("the program's own")


class ReadAsStop:
    """A sample that raises StopIteration when it is read."""

    def __reduce__(self) -> Any:
        return stop, (0,)


class WrittenAsStop:
    """A sample that raises StopIteration when it is sent."""

    def __reduce__(self) -> Any:
        raise StopIteration("the program's own")


class FailsWhenWritten:
    """A sample that cannot be sent, by its own error."""

    def __reduce__(self) -> Any:
        raise OSError("no bytes of this")


def make_failing_when_written(index: int) -> Any:
    return FailsWhenWritten()


def make_read_as_stop(index: int) -> Any:
    return ReadAsStop()


def make_written_as_stop(index: int) -> Any:
    return WrittenAsStop()
