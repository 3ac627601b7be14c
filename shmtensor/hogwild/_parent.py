"""The parent's side of a run: it watches the workers, shows, evaluates, saves and goes on."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, SupportsFloat

import shmtensor
from shmtensor import Tensor, nn, optim
from shmtensor.errors import ShmTensorWarning
from shmtensor.hogwild import _checkpoint
from shmtensor.hogwild._board import Board
from shmtensor.hogwild._checkpoint import Checkpoint
from shmtensor.hogwild._curve import Curve
from shmtensor.hogwild._data import Shards
from shmtensor.hogwild._evaluation import Evaluations, Evaluator
from shmtensor.hogwild._nodes import Nodes
from shmtensor.hogwild._result import CURVE, Point, Result, write_curve
from shmtensor.hogwild._types import ModelT
from shmtensor.hogwild._view import View
from shmtensor.hogwild._worker import Job, Worker
from shmtensor.hogwild._workers import Workers
from shmtensor.multiprocessing.context import BaseContext

__all__ = ["Parent"]

log = logging.getLogger("shmtensor.hogwild")

#: Seconds between the parent's looks at the workers; more in a long run.
_LOOK_S = 0.02
#: The most seconds between them if there are several nodes.
_NODES_LOOK_S = 0.25
#: Least seconds between two writes of the curve.
_CURVE_S = 2.0
#: Seconds to wait for an update under way before a snapshot.
_SNAPSHOT_S = 2.0


class Parent(Generic[ModelT]):
    """A run, as the process that called `run` has it."""

    def __init__(
        self,
        context: BaseContext,
        model: ModelT,
        shards: Shards,
        n_steps: int,
        on_failure: str,
        max_restarts: int,
        folder: Path | None,
        checkpoint_every: float,
        nodes: Nodes | None,
    ) -> None:
        self.model = model
        self.shards = shards
        self.n_steps = n_steps
        self.folder = folder
        self.checkpoint_every = checkpoint_every
        self.nodes = nodes
        self.board = Board(shards.n_workers)
        self.curve = Curve(_LOOK_S)
        self.workers = Workers(context, self.board, on_failure, max_restarts)
        self.evaluator: Evaluator[ModelT] | None = None
        self.evaluations: Evaluations[ModelT] | None = None
        self.seconds_before = 0.0  # of earlier parts of the run
        self.is_resumed = False
        self._saved_at = time.monotonic()
        self._curve_written_at = -math.inf

    # --- beginning ------------------------------------------------------------------------------

    def prepare(
        self,
        train_step: Callable[[Worker[ModelT], Any], SupportsFloat],
        make_optimizer: Callable[[Iterator[nn.Parameter]], optim.Optimizer],
        is_shared: bool,
        seconds: float | None,
        n_threads: int,
    ) -> None:
        """Make the optimizers, with their state in shared memory, and what workers are told."""
        n_workers = self.shards.n_workers
        self.optimizers = [
            make_optimizer(self.model.parameters()) for _ in range(1 if is_shared else n_workers)
        ]
        for optimizer in self.optimizers:
            optimizer.share_memory()
        self.job = Job(
            train_step=train_step,
            model=self.model,
            optimizers=self.optimizers * n_workers if is_shared else self.optimizers,
            shards=self.shards,
            board=self.board,
            n_steps=self.n_steps,
            seconds=seconds,
            seed=self.shards.seed,
            n_threads=n_threads,
            node=self.shards.node,
        )

    def resume(self) -> None:
        """Go on from the checkpoint, if there is one.

        Raises:
            ValueError: It is of another run.
        """
        found = None if self.folder is None else _checkpoint.read(self.folder)
        if found is None:
            return
        path = f"{self.folder}/{_checkpoint.NAME}"
        for name, theirs, ours in (
            ("workers", len(found.steps), self.shards.n_workers),
            ("optimizer", found.optimizer, type(self.optimizers[0]).__name__),
            ("optimizers", len(found.optimizers), len(self.optimizers)),
            ("batch_size", found.batch_size, self.shards.batch_size),
            ("seed", found.seed, self.shards.seed),
            ("samples", found.samples, self.shards.n_samples),
        ):
            if theirs is not None and theirs != ours:
                raise ValueError(f"{path} is of a run with {name} {theirs}, this one has {ours}")
        self._warn_of_other_share(path, found)
        try:
            self.model.load_state_dict(found.model)
            for optimizer, state in zip(self.optimizers, found.optimizers, strict=True):
                optimizer.load_state_dict(state)
                optimizer.share_memory()
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{path} is of another model: {error}") from None
        self.board.columns["steps"][:] = found.steps
        self.seconds_before = found.seconds
        self.curve.restore(found.points)
        # The workers' averages go on from there, if a point was taken since their first steps.
        if self.curve.points and math.isfinite(self.curve.points[-1].loss):
            self.board.columns["loss"][:] = self.curve.points[-1].loss
            self.board.columns["has_loss"][:] = 1
        self.is_resumed = True

    def _warn_of_other_share(self, path: str, found: Checkpoint) -> None:
        """Say that others take up the data: after the loss of a node that may be what is wanted."""
        share = found.node, found.n_nodes
        if None not in share and share != (self.shards.node, self.shards.n_nodes):
            warnings.warn(
                f"{path} is of node {found.node} of {found.n_nodes}, and this is node "
                f"{self.shards.node} of {self.shards.n_nodes}: samples of the epoch may be "
                "repeated or left out",
                ShmTensorWarning,
                stacklevel=4,
            )

    def start(self) -> None:
        """Start all workers."""
        self.workers.start(self.job)

    def evaluate_with(self, evaluator: Evaluator[ModelT], every: float) -> None:
        """Have snapshots measured while the workers train."""
        self.evaluator = evaluator
        self.evaluations = Evaluations(evaluator, every, self.curve, self.snapshot)

    # --- watching -------------------------------------------------------------------------------

    def watch(self, view: View) -> None:
        """Look after the workers until all have ended."""
        while self.workers.look_after():
            if not self.board.has_begun:
                self.workers.begin_when_ready()
            if self.nodes is not None:
                self.nodes.poll()
            point = self._point()
            self.curve.add(point)
            if self.evaluations is not None:
                self.evaluations.look_after(point)
            if self.folder is not None:
                self._save_when_due(self.folder)
            latest = dataclasses.replace(point, metrics=self.curve.metrics)
            view.show(self.workers.summaries(), latest)
            self._pause()
        if self.nodes is not None:
            self._end_with_nodes(self.nodes)

    def break_off(self, error: BaseException) -> None:
        """Save what there is; an interruption says where, as the last line of its traceback."""
        self.board.stop()
        if self.folder is not None:
            self.save()
        if isinstance(error, KeyboardInterrupt):
            # It may have come while the lack of a file was handled, which is not why it came.
            error.__suppress_context__ = True
            steps = f"hogwild.run() was interrupted after {self.board.n_steps()} steps"
            if self.folder is None:
                error.args = (f"{steps}; without folder= nothing was saved",)
            else:
                path = self.folder / _checkpoint.NAME
                error.args = (f"{steps}; saved in {path}; the same call continues from there",)

    def seconds(self) -> float:
        """Since the first worker began."""
        started = self.board.columns["started_s"]
        began = started[started > 0].min(initial=float("inf"))
        now = time.monotonic()
        finished = self.board.columns["finished_s"]
        if (finished > 0).all():
            now = finished.max()
        return self.seconds_before + max(0.0, float(now - began) if began < now else 0.0)

    def _point(self) -> Point:
        """The run as it is now."""
        columns = self.board.columns
        has_loss = columns["has_loss"] > 0
        loss = float(columns["loss"][has_loss].mean()) if has_loss.any() else float("nan")
        return Point(self.seconds(), self.board.n_steps(), loss, self.curve.metrics)

    def _pause(self) -> None:
        if not self.board.has_begun:
            time.sleep(_LOOK_S / 10)
            return
        pause = self.curve.pause(self.curve.points[-1].seconds)
        self.workers.wait_for_end(pause if self.nodes is None else min(pause, _NODES_LOOK_S))

    def _end_with_nodes(self, nodes: Nodes) -> None:
        """Wait until the workers of all nodes have ended, and their changes are here."""
        nodes.say_finished()
        while not nodes.has_ended:
            nodes.poll()
            time.sleep(_LOOK_S)
        nodes.poll()

    # --- snapshots ------------------------------------------------------------------------------

    def _is_alive(self, rank: int) -> bool:
        if rank == self.board.n_workers:
            return self.nodes is not None and self.nodes.leads()
        return self.workers.is_alive(rank)

    def snapshot(self, into: dict[str, Tensor]) -> None:
        """Copy the model's state *into* tensors, between updates of the workers."""
        state = self.model.state_dict()

        def read() -> None:
            with shmtensor.no_grad():
                for name, tensor in state.items():
                    into[name].copy_(tensor)

        self._read(read)

    def _read(self, read: Callable[[], None]) -> None:
        if not self.board.without_updates(read, self._is_alive, _SNAPSHOT_S):
            warnings.warn(
                f"hogwild.run(): a worker has been inside an update for {_SNAPSHOT_S:g} s; the "
                "snapshot may contain part of it",
                ShmTensorWarning,
                stacklevel=2,
            )

    def _save_when_due(self, folder: Path) -> None:
        """Write what is due: the curve, for those who watch the run, and a checkpoint."""
        now = time.monotonic()
        if self.board.n_steps() > 0 and now - self._saved_at >= self.checkpoint_every:
            self.save()
        elif now - self._curve_written_at >= _CURVE_S:
            write_curve(self.curve.points, folder / CURVE)
            self._curve_written_at = now

    def save(self) -> None:
        """Write a checkpoint and the curve."""
        assert self.folder is not None
        taken: dict[str, Any] = {}

        def read() -> None:
            taken["model"] = _checkpoint.copied(self.model.state_dict())
            taken["optimizers"] = [_checkpoint.copied(o.state_dict()) for o in self.optimizers]
            taken["steps"] = self.board.columns["steps"].tolist()

        self._read(read)
        _checkpoint.write(
            Checkpoint(
                **taken,
                seconds=self.seconds(),
                points=self.curve.rows(),
                optimizer=type(self.optimizers[0]).__name__,
                seed=self.shards.seed,
                batch_size=self.shards.batch_size,
                samples=self.shards.n_samples,
                n_nodes=self.shards.n_nodes,
                node=self.shards.node,
            ),
            self.folder,
        )
        write_curve(self.curve.points, self.folder / CURVE)
        self._saved_at = self._curve_written_at = time.monotonic()

    # --- the end --------------------------------------------------------------------------------

    def finish(self) -> Result[ModelT]:
        """Measure and save the final model.

        Raises:
            RuntimeError: No worker has finished.
        """
        workers = self.workers.summaries()
        if all(worker.state == "lost" for worker in workers):
            ends = "; ".join(f"worker {w.rank} {w.end} after {w.steps} steps" for w in workers)
            raise RuntimeError(f"hogwild.run(): all workers died: {ends}")
        for worker in workers:
            if worker.state == "lost":
                log.warning(
                    "hogwild: worker %d %s after %d steps", worker.rank, worker.end, worker.steps
                )
        point = self._point()
        self.curve.end(point)
        if self.evaluations is not None:
            self.evaluations.finish()
            self.evaluations.measure(point)
        if self.folder is not None:
            self.save()
        exchanges = None if self.nodes is None else self.nodes.exchanges()
        return Result(
            self.model, self.curve.points, workers, point.seconds, self.is_resumed, exchanges
        )

    def end(self) -> None:
        """Leave no process behind, whatever happened."""
        self.workers.kill()
        if self.evaluator is not None:
            self.evaluator.end()
