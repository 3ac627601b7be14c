"""The worker processes, as their parent sees them: started, watched, started again, summed up."""

from __future__ import annotations

import time

from shmtensor import nn
from shmtensor.hogwild._board import Board
from shmtensor.hogwild._result import WorkerSummary
from shmtensor.hogwild._worker import Job, work
from shmtensor.multiprocessing._children import Child, kill_all
from shmtensor.multiprocessing._exit_status import in_words
from shmtensor.multiprocessing.context import BaseContext

__all__ = ["POLICIES", "Workers"]

POLICIES = ("continue", "restart", "stop")


def _how_it_ended(child: Child) -> str:
    return in_words(child.status(), killed="killed by")


class Workers:
    """All workers of a run on this machine.

    Args:
        context: Starts them.
        board: Where they say how far they are.
        on_failure: One of `POLICIES`: what happens when one dies.
        max_restarts: How often each may be started again.
    """

    def __init__(
        self, context: BaseContext, board: Board, on_failure: str, max_restarts: int
    ) -> None:
        self._context = context
        self._board = board
        self._on_failure = on_failure
        self._max_restarts = max_restarts
        self._restarts = [0] * board.n_workers
        self._children: list[Child] = []

    def start(self, job: Job[nn.Module]) -> None:
        """Start all of them; *job* is what they are told."""
        self._job = job
        self._steps_before: list[int] = self._board.columns["steps"].tolist()
        self._children = [self._child(rank) for rank in range(self._board.n_workers)]
        for child in self._children:
            child.start()

    def _child(self, rank: int) -> Child:
        process = self._context.Process(
            target=work, args=(self._job, rank), name=f"hogwild-{rank}", daemon=True
        )
        return Child(process)

    def look_after(self) -> bool:
        """Handle those that died; returns whether any worker runs.

        Raises:
            RuntimeError: One died, and all are to stop then.
        """
        for rank, child in enumerate(self._children):
            if not child.has_ended() or self._has_finished(rank):
                continue
            if self._on_failure == "restart" and self._restarts[rank] < self._max_restarts:
                self._restarts[rank] += 1
                self._board.leave_update(rank)  # no snapshot waits until the new process is there
                self._children[rank] = self._child(rank)
                self._children[rank].start()
            elif self._on_failure == "stop":
                self._board.stop()
                how = _how_it_ended(child)
                raise RuntimeError(f"hogwild.run(): worker {rank} (pid {child.pid}) {how}")
        return not all(child.has_ended() for child in self._children)

    def begin_when_ready(self) -> None:
        """Have all begin, once each is ready or has died."""
        ready = self._board.columns["ready_s"]
        if all(ready[rank] or not self.is_alive(rank) for rank in range(len(self._children))):
            self._board.begin()

    def wait_for_end(self, timeout: float) -> None:
        """Wait until one that runs now has ended, or *timeout* seconds."""
        running = [child for child in self._children if not child.has_ended()]
        if running:
            running[0].wait(timeout)

    def is_alive(self, rank: int) -> bool:
        """Whether the process of a worker runs."""
        return not self._children[rank].has_ended()

    def _has_finished(self, rank: int) -> bool:
        return bool(self._board.columns["finished_s"][rank])

    def summaries(self) -> list[WorkerSummary]:
        """What is known of each now."""
        return [self._summary(rank, child) for rank, child in enumerate(self._children)]

    def _summary(self, rank: int, child: Child) -> WorkerSummary:
        row = {name: column[rank].item() for name, column in self._board.columns.items()}
        state, end = "training" if row["started_s"] else "waiting", ""
        if row["finished_s"]:
            state = "finished"
        elif child.has_ended():
            state, end = "lost", _how_it_ended(child)
        until = row["finished_s"] or time.monotonic()
        spent = until - row["started_s"] if row["started_s"] else 0.0
        steps_now = row["steps"] - self._steps_before[rank]
        return WorkerSummary(
            rank=rank,
            pid=child.pid,
            state=state,
            steps=row["steps"],
            loss=row["loss"],
            steps_per_second=steps_now / spent if spent > 0 else 0.0,
            staleness=row["staleness_sum"] / max(1, row["staleness_count"]),
            max_staleness=row["staleness_max"],
            restarts=self._restarts[rank],
            end=end,
        )

    def kill(self) -> None:
        """Leave no process behind."""
        kill_all(self._children)
