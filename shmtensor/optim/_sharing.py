"""State of optimizers in shared memory, and the lock that makes shared steps exact.

Without the lock, processes read and write one state as they come: each element is read once and
written once in a step, so where two steps collide an update may be lost, and a counter may count
them as one. Nothing else can happen.

With the lock, a step is applied as a whole before the next one begins. The lock is one of the
default service of `shmtensor.service`: it belongs to a process, and when that is killed it is free
again. What the killed process had changed until then stays changed.
"""

from __future__ import annotations

import itertools
import os
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor

# A service has 129 locks for all processes; an optimizer that comes later shares the lock of an
# earlier one of this process.
_N_LOCKS = 8

_locks: dict[str, StepLock] = {}
_numbers = itertools.count()
_prefix = (0, "")


class StepLock:
    """A lock between processes that goes where its optimizer goes.

    A thread that has it may take it again, which happens where a closure steps another
    optimizer.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock: Any = None
        self._owner = (0, 0)
        self._depth = 0

    def __reduce__(self) -> Any:
        return _lock_of, (self._name,)

    def __repr__(self) -> str:
        return f"<StepLock {self._name!r}>"

    def __enter__(self) -> None:
        me = (os.getpid(), threading.get_ident())
        if self._owner == me:
            self._depth += 1
            return
        self._opened().acquire()
        self._owner, self._depth = me, 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = (0, 0)
            self._lock.release()

    def _opened(self) -> Any:
        if self._lock is None:
            from shmtensor import service  # stands above optimizers, and few programs need it

            self._lock = service.Lock(self._name)
        return self._lock


def _lock_of(name: str) -> StepLock:
    return _locks.setdefault(name, StepLock(name))


def _new_lock() -> StepLock:
    """A lock that no other process has made."""
    global _prefix
    if _prefix[0] != os.getpid():
        _prefix = (os.getpid(), uuid.uuid4().hex)
    return _lock_of(f"optimizer-{_prefix[1]}-{next(_numbers) % _N_LOCKS}")


def share(optimizer: Any, *, exact: bool) -> None:
    """Make the state of *optimizer* and move its tensors to shared memory; see its method."""
    with shmtensor.no_grad():
        for group in optimizer.param_groups:
            for param in group["params"]:
                optimizer._init_state(group, param)
        for tensor in _tensors_in(list(optimizer.state.values())):
            tensor.share_memory_()
    if not exact:
        optimizer.__dict__.pop("_step_lock", None)
        return
    lock = optimizer.__dict__.setdefault("_step_lock", _new_lock())
    lock._opened()  # what cannot be reached is told now


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors_in(part)
