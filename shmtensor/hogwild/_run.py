"""Hogwild: several processes train one model in shared memory, without locks."""

from __future__ import annotations

import bisect
import dataclasses
import logging
import math
import operator
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, SupportsFloat, TypeVar

import shmtensor
from shmtensor import Tensor, multiprocessing, nn, optim
from shmtensor.errors import ShmTensorWarning
from shmtensor.hogwild import _checkpoint
from shmtensor.hogwild._board import Board
from shmtensor.hogwild._checkpoint import Checkpoint
from shmtensor.hogwild._data import MapDataset, Shards
from shmtensor.hogwild._evaluation import Evaluator
from shmtensor.hogwild._global_store import NodeLostError
from shmtensor.hogwild._nodes import Nodes
from shmtensor.hogwild._result import Point, Result, WorkerSummary
from shmtensor.hogwild._view import VIEWS, View, make_view
from shmtensor.hogwild._worker import Job, Worker, work
from shmtensor.multiprocessing._children import Child, kill_all
from shmtensor.multiprocessing._exit_status import in_words

__all__ = ["run"]

log = logging.getLogger("shmtensor.hogwild")

POLICIES = ("continue", "restart", "stop")
#: Seconds between the parent's looks at the workers; more in a long run.
_LOOK_S = 0.02
_POINTS_PER_RUN = 500
#: The most seconds between them if there are several nodes.
_NODES_LOOK_S = 0.25
#: The pause between two evaluations, in times of how long one takes.
_PAUSE_OF_EVALUATION = 4.0
#: Seconds to wait for an update under way before a snapshot.
_SNAPSHOT_S = 2.0
_NO_LIMIT = 2**62


_Model = TypeVar("_Model", bound=nn.Module)
_Batch = TypeVar("_Batch")


def _sgd(parameters: Iterator[nn.Parameter]) -> optim.Optimizer:
    return optim.SGD(parameters, lr=0.05, momentum=0.9)


def run(
    make_model: Callable[[], _Model],
    train_step: Callable[[Worker, _Batch], SupportsFloat],
    data: Tensor | tuple[Tensor, ...] | MapDataset | Callable[[Worker], Iterable[_Batch]],
    workers: int = 2,
    *,
    make_optimizer: Callable[[Iterator[nn.Parameter]], optim.Optimizer] = _sgd,
    shared_optimizer: bool = False,
    batch_size: int = 32,
    epochs: float | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    evaluate: Callable[[_Model], SupportsFloat | Mapping[str, SupportsFloat]] | None = None,
    evaluate_every: float = 0.0,
    folder: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 30.0,
    resume: bool = True,
    on_failure: str = "continue",
    max_restarts: int = 3,
    seed: int = 0,
    start_method: str | None = None,
    threads: int = 1,
    view: str = "auto",
    title: str = "hogwild",
    nodes: Nodes | None = None,
) -> Result:
    """Train one model with several processes that change its parameters without locks.

    The parameters are in shared memory. Every worker reads them, takes a gradient on its own batch
    and changes them in place, while the others do the same. The calling process watches the
    workers, saves checkpoints and shows the progress; it returns when all workers have ended.

    Args:
        make_model: Makes the model; called here, and in the process that evaluates.
        train_step: ``train_step(worker, batch)`` returns the loss of a batch. If the loss has a
            graph, `run` computes its gradients and ``worker.optimizer`` makes a step. Otherwise the
            function has done that itself, and made all changes that are not the optimizer's inside
            ``with worker.update():``.
        data: A tensor or a tuple of tensors with the same first dimension, which go into shared
            memory; a map-style dataset; or ``data(worker)`` that returns an iterable of batches
            from ``worker.step`` on. The workers share each epoch's samples.
        workers: Processes.
        make_optimizer: Makes an optimizer for the model's parameters; SGD with ``lr=0.05`` and
            ``momentum=0.9`` by default.
        shared_optimizer: One optimizer with one state for all workers, instead of one for each.
        batch_size: Samples in a batch.
        epochs: Passes over the data, of all workers together.
        steps: Steps of each worker, instead of epochs.
        seconds: End after this time, between two steps; alone, or as a further limit.
        evaluate: ``evaluate(model)`` returns a number or a dictionary of numbers. It runs in its
            own process, on snapshots of the model.
        evaluate_every: Seconds from one evaluation to the next, at least; together they take at
            most a fifth of the time. ``inf`` measures only the final model.
        folder: Where to write checkpoints; None: nowhere.
        checkpoint_every: Seconds between checkpoints.
        resume: Continue from the checkpoint in *folder* if there is one.
        on_failure: What to do when a worker dies: "continue" without it, "restart" it where it was,
            or "stop" all and raise RuntimeError.
        max_restarts: How often to start each worker again.
        seed: Decides the order of the data and the workers' generators. (Steps of different workers
            meet as they happen to, so two runs are not equal to the last digit.)
        start_method: "fork", "spawn" or "forkserver"; None: the default one.
        threads: Threads of each worker.
        view: "table" (with rich), "plain", "none", or "auto".
        title: Of the table.
        nodes: The machines that train together; each has its own workers and *folder*, and takes
            its share of each epoch's samples. They exchange floating-point parameters and buffers;
            at the end all nodes have the same ones. None: this machine alone.

    Returns:
        The curve, the workers and the model.

    Raises:
        ValueError: An argument is out of its range, or the checkpoint is of another run.
        TypeError: *data* is none of the above.
        KeyboardInterrupt: Ctrl-C; a checkpoint is in *folder* then, and the text says so.
        RuntimeError: All workers died, or one with ``on_failure="stop"``; the evaluation died; the
            nodes could not begin.
        NodeLostError: A node is lost, and *nodes* have ``on_lost="stop"``.

    Source:
        Niu, Recht, Re, Wright, "Hogwild!: a lock-free approach to parallelizing stochastic gradient
        descent", 2011.
    """
    _check(workers, batch_size, epochs, steps, seconds, on_failure, view)
    if nodes is None:
        shards = Shards(data, batch_size, workers, seed)
    else:
        shards = Shards(data, batch_size, workers, seed, nodes.node, nodes.n_nodes)
    run_ = _Run(
        context=multiprocessing.get_context(start_method),
        model=make_model().share_memory(),
        shards=shards,
        n_steps=_steps_of(shards, epochs, steps, seconds),
        on_failure=on_failure,
        max_restarts=max_restarts,
        folder=None if folder is None else Path(folder),
        checkpoint_every=checkpoint_every,
        nodes=nodes,
    )
    run_.prepare(train_step, make_optimizer, shared_optimizer, seconds, threads)
    if resume:
        run_.resume()
    try:
        if nodes is not None:
            nodes.begin(_exchanged(run_.model), run_.board)
        run_.start()
        if evaluate is not None:
            run_.evaluator = Evaluator(run_.context, make_model, evaluate, run_.model)
            run_.evaluate_every = evaluate_every
        shown = make_view(view, title, run_.n_steps if run_.n_steps < _NO_LIMIT else None)
        try:
            run_.watch(shown)
            result = run_.finish()
            shown.show(result.workers, result.points[-1], now=True)
        except (KeyboardInterrupt, NodeLostError) as error:
            run_.break_off(error)
            raise
        finally:
            shown.end()
        return result
    finally:
        run_.end()


def _check(
    workers: int,
    batch_size: int,
    epochs: float | None,
    steps: int | None,
    seconds: float | None,
    on_failure: str,
    view: str,
) -> None:
    for name, value in (("workers", workers), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"hogwild.run(): {name} must be at least 1, got {value}")
    for name, limit in (("epochs", epochs), ("steps", steps), ("seconds", seconds)):
        if limit is not None and not limit > 0:
            raise ValueError(f"hogwild.run(): {name} must be above 0, got {limit}")
    if epochs is not None and steps is not None:
        raise ValueError("hogwild.run(): give epochs or steps, not both")
    if epochs is None and steps is None and seconds is None:
        raise ValueError("hogwild.run(): give one of epochs, steps and seconds")
    for name, word, allowed in (
        ("on_failure", on_failure, POLICIES),
        ("view", view, VIEWS),
    ):
        if word not in allowed:
            raise ValueError(
                f"hogwild.run(): {name} must be one of {', '.join(allowed)}, got {word!r}"
            )
    n_cores = len(os.sched_getaffinity(0))
    if workers > n_cores:
        warnings.warn(
            f"hogwild.run(): {workers} workers for {n_cores} processors will wait for each other",
            ShmTensorWarning,
            stacklevel=3,
        )


def _steps_of(
    shards: Shards, epochs: float | None, steps: int | None, seconds: float | None
) -> int:
    if steps is not None:
        return steps
    if epochs is None:
        return _NO_LIMIT
    per_epoch = shards.steps_per_epoch
    if per_epoch is None:
        raise ValueError("hogwild.run(): data(worker) has no epochs; give steps or seconds")
    return max(1, round(per_epoch * epochs))


def _how_it_ended(child: Child) -> str:
    return in_words(child.status(), killed="killed by")


class _Run:
    """The parent's side of a run."""

    def __init__(
        self,
        context: Any,
        model: nn.Module,
        shards: Shards,
        n_steps: int,
        on_failure: str,
        max_restarts: int,
        folder: Path | None,
        checkpoint_every: float,
        nodes: Nodes | None,
    ) -> None:
        self.context = context
        self.model = model
        self.shards = shards
        self.n_steps = n_steps
        self.on_failure = on_failure
        self.max_restarts = max_restarts
        self.folder = folder
        self.checkpoint_every = checkpoint_every
        self.nodes = nodes
        self.board = Board(shards.n_workers)
        self.evaluator: Evaluator | None = None
        self.evaluate_every = 0.0
        self.points: list[Point] = []
        self.children: list[Child] = []
        self.restarts = [0] * shards.n_workers
        self.seconds_before = 0.0  # of earlier parts of the run
        self.steps_before = [0] * shards.n_workers
        self.is_resumed = False
        self._evaluated_at = self._evaluation_began = self._evaluation_s = 0.0
        self._asked: Point | None = None
        self._metrics: dict[str, float] = {}  # the latest
        self._saved_at = time.monotonic()

    # --- beginning ------------------------------------------------------------------------------

    def prepare(
        self,
        train_step: Callable[[Worker, Any], SupportsFloat],
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
            node=0 if self.nodes is None else self.nodes.node,
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
        try:
            self.model.load_state_dict(found.model)
            for optimizer, state in zip(self.optimizers, found.optimizers, strict=True):
                optimizer.load_state_dict(state)
                optimizer.share_memory()
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{path} is of another model: {error}") from None
        self.board.columns["steps"][:] = self.steps_before = found.steps
        self.seconds_before = found.seconds
        self.points = [Point(*fields) for fields in found.points]
        if self.points:
            self._metrics = self.points[-1].metrics
            # The workers' averages go on from there, if a point was taken since their first steps.
            if math.isfinite(self.points[-1].loss):
                self.board.columns["loss"][:] = self.points[-1].loss
        self.is_resumed = True

    def start(self) -> None:
        """Start all workers."""
        self.children = [self._child(rank) for rank in range(self.shards.n_workers)]
        for child in self.children:
            child.start()

    def _child(self, rank: int) -> Child:
        process = self.context.Process(
            target=work, args=(self.job, rank), name=f"hogwild-{rank}", daemon=True
        )
        return Child(process)

    # --- watching -------------------------------------------------------------------------------

    def watch(self, view: View) -> None:
        """Look after the workers until all have ended."""
        while self._look_after_workers():
            if not self.board.has_begun:
                self._begin_when_ready()
            if self.nodes is not None:
                self.nodes.look()
            point = self._point()
            self._look_after_evaluation(point)
            if self.folder is not None and self._is_time_to_save():
                self.save()
            view.show(self.summaries(), dataclasses.replace(point, metrics=self._metrics))
            self._pause()
        if self.nodes is not None:
            self._end_with_nodes(self.nodes)

    def break_off(self, error: BaseException) -> None:
        """Save what there is; an interruption says where, as the last line of its traceback."""
        self.board.stop()
        if self.folder is not None:
            self.save()
        if isinstance(error, KeyboardInterrupt):
            steps = f"hogwild.run() was interrupted after {self.board.n_steps()} steps"
            if self.folder is None:
                error.args = (f"{steps}; without folder= nothing was saved",)
            else:
                path = self.folder / _checkpoint.NAME
                error.args = (f"{steps}; saved in {path}; the same call continues from there",)

    def _begin_when_ready(self) -> None:
        ready = self.board.columns["ready_s"]
        if all(ready[rank] or not self._is_alive(rank) for rank in range(len(self.children))):
            self.board.begin()

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
        """Add the present to the curve, unless the last point is of nearly the same time."""
        columns = self.board.columns
        has_begun = columns["steps"] > 0
        loss = float(columns["loss"][has_begun].mean()) if has_begun.any() else float("nan")
        point = Point(self.seconds(), self.board.n_steps(), loss, self._metrics)
        step = max(_LOOK_S, point.seconds / _POINTS_PER_RUN)
        if not self.points or point.seconds >= self.points[-1].seconds + step:
            self.points.append(point)
        return point

    def _pause(self) -> None:
        running = [child for child in self.children if not child.has_ended()]
        if not self.board.has_begun:
            time.sleep(_LOOK_S / 10)
        elif running:
            pause = max(_LOOK_S, self.points[-1].seconds / _POINTS_PER_RUN)
            running[0].wait(pause if self.nodes is None else min(pause, _NODES_LOOK_S))

    def _end_with_nodes(self, nodes: Nodes) -> None:
        """Wait until the workers of all nodes have ended, and their changes are here."""
        nodes.say_finished()
        while not nodes.has_ended:
            nodes.look()
            time.sleep(_LOOK_S)
        nodes.look()

    def _has_finished(self, rank: int) -> bool:
        return bool(self.board.columns["finished_s"][rank])

    def _look_after_workers(self) -> bool:
        """Handle workers that died; returns whether any worker runs."""
        for rank, child in enumerate(self.children):
            if not child.has_ended() or self._has_finished(rank):
                continue
            if self.on_failure == "restart" and self.restarts[rank] < self.max_restarts:
                self.restarts[rank] += 1
                self.children[rank] = self._child(rank)
                self.children[rank].start()
            elif self.on_failure == "stop":
                self.board.stop()
                how = _how_it_ended(child)
                raise RuntimeError(f"hogwild.run(): worker {rank} (pid {child.pid}) {how}")
        return not all(child.has_ended() for child in self.children)

    def _look_after_evaluation(self, point: Point) -> None:
        evaluator = self.evaluator
        if evaluator is None:
            return
        now = time.monotonic()
        if evaluator.is_busy:
            self._take_metrics(0.0)
        elif now - self._evaluated_at >= max(
            self.evaluate_every, _PAUSE_OF_EVALUATION * self._evaluation_s
        ):
            self._ask_for_metrics(point)

    def _ask_for_metrics(self, point: Point) -> None:
        assert self.evaluator is not None
        self.snapshot(self.evaluator.state)
        self._evaluation_began = time.monotonic()
        self._asked = point
        self.evaluator.begin()

    def _take_metrics(self, timeout: float) -> None:
        assert self.evaluator is not None
        assert self._asked is not None
        metrics = self.evaluator.result(timeout)
        if metrics is None:
            return
        self._evaluated_at = time.monotonic()
        self._evaluation_s = self._evaluated_at - self._evaluation_began
        self._metrics = metrics
        point = dataclasses.replace(self._asked, metrics=metrics)
        # The curve went on while the snapshot was measured: what was added since had older metrics.
        at = bisect.bisect_right(self.points, point.seconds, key=operator.attrgetter("seconds"))
        since = [dataclasses.replace(p, metrics=metrics) for p in self.points[at:]]
        self.points[at:] = [point, *since]

    # --- snapshots ------------------------------------------------------------------------------

    def _is_alive(self, rank: int) -> bool:
        if rank == len(self.children):
            return self.nodes is not None and self.nodes.leads()
        return not self.children[rank].has_ended()

    def snapshot(self, into: dict[str, Any]) -> None:
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

    def _is_time_to_save(self) -> bool:
        return (
            self.board.n_steps() > 0 and time.monotonic() - self._saved_at >= self.checkpoint_every
        )

    def save(self) -> None:
        """Write a checkpoint."""
        assert self.folder is not None
        taken: dict[str, Any] = {}

        def read() -> None:
            taken["model"] = _checkpoint.copied(self.model.state_dict())
            taken["optimizers"] = [_checkpoint.copied(o.state_dict()) for o in self.optimizers]
            taken["steps"] = self.board.columns["steps"].tolist()

        self._read(read)
        points = [[p.seconds, p.steps, p.loss, p.metrics] for p in self.points]
        _checkpoint.write(
            Checkpoint(
                **taken,
                seconds=self.seconds(),
                points=points,
                optimizer=type(self.optimizers[0]).__name__,
                seed=self.shards.seed,
                batch_size=self.shards.batch_size,
                samples=self.shards.n_samples,
            ),
            self.folder,
        )
        self._saved_at = time.monotonic()

    # --- the end --------------------------------------------------------------------------------

    def summaries(self) -> list[WorkerSummary]:
        """What is known of each worker now."""
        columns = self.board.columns
        now = time.monotonic()
        found = []
        for rank, child in enumerate(self.children):
            row = {name: column[rank].item() for name, column in columns.items()}
            state, end = "training" if row["started_s"] else "waiting", ""
            if row["finished_s"]:
                state = "finished"
            elif child.has_ended():
                state, end = "lost", _how_it_ended(child)
            spent = (row["finished_s"] or now) - row["started_s"] if row["started_s"] else 0.0
            steps_now = row["steps"] - self.steps_before[rank]
            count = max(1, row["staleness_count"])
            found.append(
                WorkerSummary(
                    rank=rank,
                    pid=child.pid,
                    state=state,
                    steps=row["steps"],
                    loss=row["loss"],
                    steps_per_second=steps_now / spent if spent > 0 else 0.0,
                    staleness=row["staleness_sum"] / count,
                    max_staleness=row["staleness_max"],
                    restarts=self.restarts[rank],
                    end=end,
                )
            )
        return found

    def finish(self) -> Result:
        """Measure and save the final model.

        Raises:
            RuntimeError: No worker has finished.
        """
        workers = self.summaries()
        if all(worker.state == "lost" for worker in workers):
            ends = "; ".join(f"worker {w.rank} {w.end} after {w.steps} steps" for w in workers)
            raise RuntimeError(f"hogwild.run(): all workers died: {ends}")
        for worker in workers:
            if worker.state == "lost":
                log.warning(
                    "hogwild: worker %d %s after %d steps", worker.rank, worker.end, worker.steps
                )
        seconds = self.seconds()
        if self.evaluator is not None:
            while self.evaluator.is_busy:
                self._take_metrics(1.0)
            last = self._point()
            self._ask_for_metrics(last)
            while self.evaluator.is_busy:
                self._take_metrics(1.0)
        if self.folder is not None:
            self.save()
        exchanges = None if self.nodes is None else self.nodes.exchanges()
        return Result(self.model, self.points, workers, seconds, self.is_resumed, exchanges)

    def end(self) -> None:
        """Leave no process behind, whatever happened."""
        kill_all(self.children)
        if self.evaluator is not None:
            self.evaluator.end()


def _exchanged(model: nn.Module) -> list[Tensor]:
    """What nodes exchange of a model: its integers, as counts of batches, stay with each."""
    return [tensor for tensor in model.state_dict().values() if tensor.is_floating_point()]
