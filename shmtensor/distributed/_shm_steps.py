"""Steps of a group: all ranks say what they call, fill their slots, and read those of others.

Every collective is a series of steps (Note [Steps] in ``csrc/ipc/group/group.h``). In the first one
all ranks say what they call (Note [Ranks compare their calls] in ``_calls``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from shmtensor import _C
from shmtensor._boundary import group
from shmtensor._boundary.group import FILLED, N_SLOTS, READ
from shmtensor._core._fork_locks import free_in_child
from shmtensor.distributed import _calls as calls
from shmtensor.distributed._errors import DistBackendError
from shmtensor.distributed._timeouts import Limit, seconds_of

if TYPE_CHECKING:
    from shmtensor import dtype
    from shmtensor._core._tensor import Tensor

__all__ = ["Steps"]


class Steps:
    """The steps of one rank.

    Args:
        memory: Of the group.
        rank: This process's number.
        size: Number of ranks.

    Attributes:
        memory: As given.
        others: The other ranks.
        step: Number of the next step.
    """

    def __init__(self, memory: group.GroupMemory, rank: int, size: int) -> None:
        self.memory = memory
        self.rank = rank
        self.size = size
        self.others = [r for r in range(size) if r != rank]
        self.step = 0
        self._what = 0
        self._timeout_s = 0.0
        self._deadline = 0.0
        self._lock = free_in_child(threading.Lock())
        self._views: dict[dtype, list[list[Tensor]]] = {}

    @contextmanager
    def collective(
        self, what: int, timeout: timedelta, limit: Limit | None = None
    ) -> Iterator[None]:
        """Name what is done, and turn a broken group into an error that names the rank.

        Args:
            what: What is done.
            timeout: How long it may take.
            limit: Of a call of which it is a part; *timeout* is that call's.
        """
        with self._lock:
            self._what = what
            self._timeout_s = seconds_of(timeout)
            left = self._timeout_s if limit is None else limit.left()
            self._deadline = time.monotonic() + left
            try:
                self.memory.check()
                yield
            except group.Broken as found:
                raise self.broken(found, calls.say(what)) from None
            except group.Mismatch:
                raise self.disagree(what) from None
            except DistBackendError:
                raise
            except BaseException:  # an interrupt, or memory is out: the others must not wait
                self.memory.abort()
                raise

    def broken(self, found: group.Broken, doing: str) -> DistBackendError:
        """Say who is lost, and how; or which ranks did not call the same."""
        if found.reason == "disagreed":
            return self._disagreement()
        reason = {
            "died": "its process has ended",
            "left": "it has left the group",
            "aborted": "it has aborted the group",
            "forked": "this process was forked from it and is not in the group",
        }[found.reason]
        return DistBackendError(
            f"{doing} failed on rank {self.rank}: rank {found.rank} is lost, {reason}"
        )

    def _said(self, rank: int, step: int) -> int | None:
        """Return what a rank has said about a step that is in progress; None: nothing yet."""
        if not self.memory.has_counted(FILLED, rank, step):
            return None
        return self.memory.what(rank, step)

    def differing(self, step: int, what: int) -> int | None:
        """Return a rank that has said something else about a step; None: there is none yet."""
        return next((r for r in self.others if self._said(r, step) not in (None, what)), None)

    def disagree(self, what: int) -> DistBackendError:
        """Break the group, since a rank does something else than *what* in this step."""
        other = self.differing(self.step, what)
        if other is None:
            self.memory.abort()
        else:
            self.memory.disagree(other, self.step)
        return self._disagreement()

    def _disagreement(self) -> DistBackendError:
        """Say what two ranks call; this one is the first of them if it has called, too."""
        first, second, step = self.memory.disagreement()
        own = self._said(self.rank, step)
        other = None if own is None else self.differing(step, own)
        if other is not None:
            first, second = self.rank, other
        one, two = (calls.say(self.memory.what(rank, step)) for rank in (first, second))
        return self.unlike(first, one, second, two)

    def unlike(self, first: int, one: str, second: int, other: str) -> DistBackendError:
        """Say what two ranks call."""
        return DistBackendError(
            f"ranks do not call the same: rank {first} calls {one}, rank {second} calls {other}"
        )

    def wait(self, counter: int, rank: int, step: int, compare: bool = False) -> None:
        """Wait until a rank (-1: all others) has counted a step."""
        what = self._what if compare else 0
        if self.memory.wait(counter, rank, step, self._deadline, what):
            return
        self._raise_timeout(counter, self.others if rank < 0 else [rank], step)

    def _raise_timeout(self, counter: int, awaited: list[int], step: int) -> NoReturn:
        """Break the group, since ranks have not counted a step in time."""
        missing = [r for r in awaited if not self.memory.has_counted(counter, r, step)]
        self.memory.abort()
        raise DistBackendError(
            f"{calls.say(self._what)} timed out on rank {self.rank} after "
            f"{self._timeout_s:g} s: rank {', '.join(map(str, missing))} did not come"
        )

    def _open(self, step: int) -> None:
        """Wait until this rank's slot of a step is free."""
        self.wait(READ, -1, step - N_SLOTS)

    def fill(self, step: int, tensor: Tensor, start: int, stop: int, at: int = 0) -> None:
        """Copy elements into this rank's slot of a step."""
        size = tensor.element_size()
        self.memory.put(step, at, tensor.data_ptr() + start * size, (stop - start) * size)

    def copy(self, rank: int, step: int, at: int, tensor: Tensor, start: int, stop: int) -> None:
        """Copy elements out of a rank's slot of a step."""
        size = tensor.element_size()
        self.memory.get(rank, step, at, tensor.data_ptr() + start * size, (stop - start) * size)

    def slot(self, dtype: dtype, rank: int, step: int) -> Tensor:
        """Return a rank's slot of a step as a tensor of the dtype."""
        views = self._views.get(dtype)
        if views is None:
            views = self._views[dtype] = [
                [_C.frombuffer(self.memory.slot(r, slot), dtype=dtype) for slot in range(N_SLOTS)]
                for r in range(self.size)
            ]
        return views[rank][step % N_SLOTS]

    def _steps(self, n: int, chunk: int) -> Iterator[tuple[int, int, int]]:
        """Yield for each chunk of n elements its step, start and stop; at least one."""
        start = 0
        while True:
            step = self.step
            stop = min(start + chunk, n)
            yield step, start, stop
            self.step = step + 1
            start = stop
            if start >= n:
                return

    def pipeline(
        self,
        n: int,
        chunk: int,
        fill: Callable[[int, int, int], None] | None,
        use: Callable[[int, int, int], None],
    ) -> None:
        """Do all chunks: ``fill(step, start, stop)`` runs one step ahead of ``use``."""
        first = self.step
        self.fill_step(fill, first, 0, min(chunk, n))
        for step, start, stop in self._steps(n, chunk):
            if fill is not None and stop < n:
                self.fill_step(fill, step + 1, stop, min(stop + chunk, n))
            if step == first:
                self.wait(FILLED, -1, first, compare=True)
            use(step, start, stop)
            self.memory.post(READ, step)

    def fill_step(
        self, fill: Callable[[int, int, int], None] | None, step: int, start: int, stop: int
    ) -> None:
        """Fill this rank's slot of a step, if there is something to give, and say what it is."""
        self._open(step)
        if fill is not None:
            fill(step, start, stop)
        self.memory.post(FILLED, step, self._what)

    def reserve(self, nbytes: int) -> None:
        """Have room for this many bytes in this rank's slots, or raise."""
        self.memory.reserve(max(nbytes, 64))

    def meet(self) -> None:
        """Do a step without data."""
        step = self.step
        self.fill_step(None, step, 0, 0)
        self.wait(FILLED, -1, step, compare=True)
        self.memory.post(READ, step)
        self.step = step + 1

    def all_reduce(self, tensor: Tensor, op: str) -> None:
        """Do all steps of an all_reduce. They are a loop in C (``csrc/ops/group_reduce.c``)."""
        step, missed = self.memory.all_reduce(
            op, tensor._cdata, self.step, self._deadline, self._what
        )
        if missed is not None:
            self._raise_timeout(missed[0], self.others, missed[1])
        self.step = step

    def close(self) -> None:
        """Unmap the memory."""
        self._views.clear()
        self.memory.close()
