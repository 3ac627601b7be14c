"""The board: figures of all workers in shared memory.

A worker writes its own row and nothing else; everybody reads. Beside the rows there are numbers
that only the parent writes: whether updates must wait, and whether workers must begin or end. The
leader, the process that exchanges with other nodes, says whether steps must wait.

An update is a change of shared parameters. A worker's *turn* is odd while it makes one; the leader
has a turn too, in a row of its own after the workers'. The parent that wants to copy parameters
sets *hold* and waits until all turns are even; a worker that begins an update makes its turn odd
first and looks at *hold* then. A fence stands between the two steps on both sides, so one of them
sees the other: no update is under way while the parent copies.

A worker counts a step as the first update of the step begins, once its turn is odd. So a copy of
parameters and counts has a step in both or in neither. If a worker is killed inside that update,
the step counts, and perhaps a part of its change is there: nobody makes it twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._boundary.process import memory_fence

__all__ = ["Board"]

#: Numbers of 8 bytes in a row. Rows are two cache lines apart (processors fetch lines in pairs), so
#: that a worker that writes its own row does not slow down the others.
_ROW = 16
_COUNTS = ("steps", "turn", "has_loss", "staleness_sum", "staleness_count", "staleness_max")
_NUMBERS = ("loss", "ready_s", "started_s", "finished_s")
_HOLD, _BEGIN, _STOP, _PAUSE = range(4)
#: Seconds between checks of a worker that waits with an update.
_LOOK_S = 50e-6
#: Seconds between checks of a worker that waits with its steps.
_PAUSED_LOOK_S = 1e-3


class Board:
    """What the parent and its workers know about each other.

    Args:
        n_workers: Rows.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self._shared: Any = (
            shmtensor.zeros(n_workers + 1, _ROW, dtype=shmtensor.int64, shared=True),
            shmtensor.zeros(n_workers + 1, _ROW, dtype=shmtensor.float64, shared=True),
            shmtensor.zeros(4, dtype=shmtensor.int64, shared=True),
        )
        self._view()

    def _view(self) -> None:
        self._counts, self._numbers, self._orders = (tensor.numpy() for tensor in self._shared)
        self.columns = {
            **{name: self._counts[:-1, i] for i, name in enumerate(_COUNTS)},
            **{name: self._numbers[:-1, i] for i, name in enumerate(_NUMBERS)},
        }
        # The same memory; single numbers are read and written in a third of the time.
        self._fast: Any = {name: memoryview(column) for name, column in self.columns.items()}
        self._turn: Any = memoryview(self._counts[:, _COUNTS.index("turn")])
        self._order: Any = memoryview(self._orders)

    def __getstate__(self) -> Any:
        return self.n_workers, self._shared

    def __setstate__(self, state: Any) -> None:
        self.n_workers, self._shared = state
        self._view()

    # --- of a worker ----------------------------------------------------------------------------

    def wait_for_begin(self, rank: int) -> None:
        """Wait until all workers are ready; a worker that starts again does not wait."""
        self.columns["ready_s"][rank] = time.monotonic()
        while not self._orders[_BEGIN]:
            time.sleep(_LOOK_S)
        if not self.columns["started_s"][rank]:
            self.columns["started_s"][rank] = time.monotonic()

    def begin_update(self, rank: int) -> None:
        """Begin to change parameters; waits while the parent copies them."""
        turn, order = self._turn, self._order
        turn[rank] += 1
        memory_fence()
        while order[_HOLD]:
            turn[rank] += 1
            while order[_HOLD]:
                time.sleep(_LOOK_S)
            turn[rank] += 1
            memory_fence()

    def end_update(self, rank: int) -> None:
        """The parameters are changed."""
        memory_fence()
        self._turn[rank] += 1

    def leave_update(self, rank: int) -> None:
        """Undo the beginning of an update that did not end, perhaps because its process died."""
        if self._turn[rank] & 1:
            self.end_update(rank)

    def add_staleness(self, rank: int, n_updates: int) -> None:
        """Count an update; others made *n_updates* since its worker read the parameters."""
        columns = self._fast
        columns["staleness_sum"][rank] += n_updates
        columns["staleness_count"][rank] += 1
        if n_updates > columns["staleness_max"][rank]:
            columns["staleness_max"][rank] = n_updates

    def count_steps(self, rank: int, n_steps: int) -> None:
        """A worker has done *n_steps*, judged by its changes of parameters."""
        self._fast["steps"][rank] = n_steps

    def add_step(self, rank: int, n_steps: int, loss: float) -> None:
        """A worker has done *n_steps*, and its average loss is *loss*."""
        self._fast["loss"][rank] = loss
        self._fast["has_loss"][rank] = 1
        self.count_steps(rank, n_steps)

    @property
    def is_stopped(self) -> bool:
        """Whether the parent wants all workers to end."""
        return bool(self._order[_STOP])

    def wait_while_paused(self) -> None:
        """Wait until steps are allowed; return at once if all must end."""
        order = self._order
        while order[_PAUSE] and not order[_STOP]:
            time.sleep(_PAUSED_LOOK_S)

    # --- of the leader --------------------------------------------------------------------------

    def pause(self, is_paused: bool) -> None:
        """Let the steps of all workers wait, or continue."""
        self._order[_PAUSE] = is_paused

    # --- of the parent ----------------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        """Whether the workers were told to begin."""
        return bool(self._orders[_BEGIN])

    def begin(self) -> None:
        """Tell all workers to begin."""
        self._orders[_BEGIN] = 1

    def stop(self) -> None:
        """Tell all workers to end after their current step."""
        self._orders[_STOP] = 1

    def without_updates(
        self, read: Callable[[], None], is_alive: Callable[[int], bool], timeout: float
    ) -> bool:
        """Call *read* while no worker changes parameters.

        Args:
            read: Copies what it wants; the workers' updates wait for it.
            is_alive: Whether the worker of a row still runs, or the leader, which has the row after
                the last worker's. Nobody waits for dead ones.
            timeout: Seconds to wait for updates under way. A worker may be stopped inside one.

        Returns:
            Whether no update was under way; *read* was called in any case.
        """
        turn = self._turn
        deadline = time.monotonic() + timeout
        self._orders[_HOLD] = 1
        try:
            memory_fence()
            waiting = list(range(self.n_workers + 1))
            while True:
                waiting = [rank for rank in waiting if turn[rank] & 1 and is_alive(rank)]
                if not waiting or time.monotonic() >= deadline:
                    break
                time.sleep(_LOOK_S)
            memory_fence()
            read()
        finally:
            memory_fence()
            self._orders[_HOLD] = 0
        return not waiting

    def n_steps(self) -> int:
        """Steps of all workers."""
        return sum(self._fast["steps"])

    def n_steps_of_others(self, rank: int) -> int:
        """Steps of all workers but one."""
        return self.n_steps() - int(self._fast["steps"][rank])
