"""What a worker process does."""

from __future__ import annotations

import contextlib
import functools
import random
import signal
import time
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, SupportsFloat

import shmtensor
from shmtensor import Tensor, nn, optim
from shmtensor._core._numpy_seed import seed_numpy
from shmtensor.hogwild._board import Board
from shmtensor.hogwild._data import Shards
from shmtensor.hogwild._types import ModelT_co
from shmtensor.multiprocessing._lifeline import end_with_parent

__all__ = ["Job", "Worker", "work"]

#: Measure staleness on one step in this many.
_STALENESS_STEP = 8
#: The weight of a step's loss in the average that is shown.
_NEW_LOSS = 0.05


@dataclass(frozen=True)
class Job(Generic[ModelT_co]):
    """What the parent tells all workers."""

    train_step: Callable[[Worker[ModelT_co], Any], SupportsFloat]  # of any batch
    model: ModelT_co
    optimizers: list[optim.Optimizer]  # one for each worker, or the same one
    shards: Shards
    board: Board
    n_steps: int
    seconds: float | None
    seed: int
    n_threads: int
    node: int = 0


class Worker(Generic[ModelT_co]):
    """The worker process, for its training step.

    Attributes:
        rank: Its number, from 0 on.
        n_workers: How many there are, on this node.
        node: Number of its node; 0 if there is only one.
        model: The shared model. Other workers change its parameters at any time.
        optimizer: The worker's own, or the one that all share.
        seed: The seed of this process's generators.
        step: Steps that it has done, including those of a process that it replaces.
    """

    def __init__(self, job: Job[ModelT_co], rank: int) -> None:
        self._board = job.board
        self._depth = 0  # of updates
        self._is_in_step = False
        self._is_counted = False  # the step under way, on the board
        self._is_first = False  # it counts because of the update under way
        self._update = _Update(self)
        self.rank = rank
        self.n_workers = job.board.n_workers
        self.node = job.node
        self.model = job.model
        self.optimizer = job.optimizers[rank]
        self._changes = _Changes(_tensors_of(self.model, self.optimizer))
        self.step = int(job.board.columns["steps"][rank])
        seed = job.seed * 1_000_003 + rank + self.step * 7_919 + job.node * 15_485_863
        self.seed = seed % 2**64

    def update(self) -> contextlib.AbstractContextManager[None]:
        """Change shared parameters without `Worker.optimizer`, inside this context.

        A snapshot of the model has all of the change, or nothing. A step counts as its first update
        begins: neither a run that continues from a snapshot nor a process that replaces this one
        repeats a step that has changed parameters. If that update raises before it has changed a
        tensor in place, the step does not count.
        """
        return self._update

    def _begin_update(self) -> None:
        """Begin a change; one inside another belongs to it."""
        self._depth += 1
        if self._depth > 1:
            return
        is_first = self._is_in_step and not self._is_counted
        if is_first:
            self._changes.begin()
        self._board.begin_update(self.rank)
        # Before the change: a process that is killed in the middle of it leaves both.
        if is_first:
            self._is_first = True
            self._count(True)

    def _count(self, is_counted: bool) -> None:
        """Say whether the step under way counts."""
        self._is_counted = is_counted
        self._board.count_steps(self.rank, self.step + is_counted)

    def _end_update(self, is_complete: bool) -> None:
        if self._depth == 0:  # it was broken off before
            return
        self._depth -= 1
        if self._depth == 0:
            self._settle_count(is_complete)
            self._board.end_update(self.rank)

    def _settle_count(self, is_complete: bool) -> None:
        """If the step counts only because of an update that failed and changed nothing, undo it."""
        if self._is_first and not is_complete and not self._changes.are_there():
            self._count(False)
        self._is_first = False

    def _break_off_updates(self) -> None:
        """End an update that an exception, raised as it began or ended, has left open."""
        self._settle_count(is_complete=False)
        self._depth = 0
        self._board.leave_update(self.rank)

    def _seed_generators(self) -> None:
        random.seed(self.seed)
        seed_numpy(lambda: self.seed % 2**32)
        shmtensor.manual_seed(self.seed)

    def _have_steps_update(self) -> None:
        """Make each step of the optimizer an update, which also ends when the step raises."""
        step = self.optimizer.step

        @functools.wraps(step)
        def step_in_update(_: Any, *args: Any, **kwargs: Any) -> Any:
            with self._update:
                return step(*args, **kwargs)

        # A method, as schedulers of learning rates expect.
        bound = types.MethodType(step_in_update, self.optimizer)
        self.optimizer.step = bound  # type: ignore[method-assign]

    def _train(
        self, train_step: Callable[[Worker[ModelT_co], Any], SupportsFloat], batch: object
    ) -> float:
        """Do a step; returns its loss."""
        self._break_off_updates()
        self._is_counted = False
        self._is_in_step = True
        try:
            loss = train_step(self, batch)
            if not isinstance(loss, shmtensor.Tensor):
                return float(loss)
            if loss.requires_grad:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            return float(loss.detach())
        finally:
            self._is_in_step = False
            self._break_off_updates()


def _tensors_of(model: nn.Module, optimizer: optim.Optimizer) -> Iterator[Tensor]:
    """What updates change."""
    yield from model.parameters()
    yield from model.buffers()
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, Tensor))


class _Changes:
    """Whether this process has changed tensors in place since a moment."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = [tensor for tensor in tensors if not tensor.is_inference()]
        self._before: list[int] = []

    def begin(self) -> None:
        """Changes from now on count."""
        self._before = self._versions()

    def are_there(self) -> bool:
        return self._versions() != self._before

    def _versions(self) -> list[int]:
        return [tensor._version for tensor in self._tensors]


class _Update(contextlib.AbstractContextManager[None]):
    """Inside ``with``, a worker changes parameters. Blocks may nest."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __enter__(self) -> None:
        self._worker._begin_update()

    def __exit__(self, kind: object, *_: object) -> None:
        self._worker._end_update(is_complete=kind is None)


def work(job: Job, rank: int) -> None:
    """Train until all steps are done, time is over, or the parent says stop."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what it means
    shmtensor.set_num_threads(job.n_threads)
    board, columns = job.board, job.board.columns
    worker = Worker(job, rank)
    worker._seed_generators()
    worker._have_steps_update()
    board.wait_for_begin(rank)
    ends_at = float("inf")
    if job.seconds is not None:
        ends_at = float(columns["started_s"][rank]) + job.seconds
    has_loss = columns["has_loss"][rank]
    average = float(columns["loss"][rank]) if has_loss else None
    for batch in job.shards.batches(worker, worker.step):
        if worker.step >= job.n_steps or board.is_stopped or time.monotonic() >= ends_at:
            break
        board.wait_while_paused()
        is_counted = worker.step % _STALENESS_STEP == 0
        before = board.n_steps_of_others(rank) if is_counted else 0
        loss = worker._train(job.train_step, batch)
        if is_counted:
            board.add_staleness(rank, board.n_steps_of_others(rank) - before)
        average = loss if average is None else average + _NEW_LOSS * (loss - average)
        worker.step += 1
        board.add_step(rank, worker.step, average)
    columns["finished_s"][rank] = time.monotonic()
