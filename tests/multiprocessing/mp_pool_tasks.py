"""What the tests' pool workers run; importable under every start method."""

from __future__ import annotations

import inspect
import os
import signal
import struct
from multiprocessing import process
from typing import Any


def same(value: Any) -> Any:
    return value


def square(value: int) -> int:
    return value * value


def add(a: Any, b: Any) -> Any:
    return a + b


def add_one(tensor: Any) -> Any:
    return tensor.add_(1)


def full(value: int) -> Any:
    import shmtensor as st

    return st.full((100,), float(value))


def die_of(is_deadly: bool) -> bool:
    """Die, or return the argument."""
    if is_deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return is_deadly


def _write_as_result(data: bytes) -> None:
    worker = inspect.currentframe()
    while worker is not None and "connection" not in worker.f_locals:
        worker = worker.f_back
    assert worker is not None
    os.write(worker.f_locals["connection"].fileno(), data)


def die_while_sending() -> None:
    """Die with the first half of a result in the connection."""
    _write_as_result(struct.pack("!i", 1000) + b"x" * 500)
    os.kill(os.getpid(), signal.SIGKILL)


def announce(nbytes: int) -> None:
    """Begin a result of so many bytes."""
    _write_as_result(struct.pack("!iQ", -1, nbytes))


def refuse() -> None:
    """An initializer that fails."""
    raise ValueError(f"refused by {process.current_process().name}")


class Unloadable:
    """Can be pickled, cannot be unpickled."""

    def __reduce__(self) -> Any:
        return int, ("not a number",)


def make_unloadable(_: Any) -> Unloadable:
    return Unloadable()


def make_unpicklable(_: Any) -> Any:
    return lambda: None


def stop_at_three(value: int) -> int:
    if value == 3:
        raise StopIteration("no more")
    return value


class WaitsForResult:
    """Pickles as the result of a pool's task that has been asked for before."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def __reduce__(self) -> Any:
        return int, (self.result.get(60),)


class AsksPool:
    """Pickles as the result of a task of the pool."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    def __reduce__(self) -> Any:
        return int, (self.pool.apply_async(square, (3,)).get(60),)
