"""The same training with torch: `run` does with torch's shared memory and processes what
`shmtensor.hogwild.run` does, and takes the same model, step, data and measure.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from common.models import library

from shmtensor.hogwild import Point

# Columns of the board, on which each worker has a row.
STEPS, LOSS, READY, BEGAN_S, ENDED_S, N_COLUMNS = range(6)
# The parent looks so often; between two evaluations it waits as many times as long as one took.
LOOK_S, PAUSE = 0.02, 4.0


@dataclass
class Worker:
    """What a step sees of its process, as `shmtensor.hogwild.Worker`."""

    rank: int
    n_workers: int
    model: Any
    optimizer: Any
    step: int = 0

    def update(self) -> contextlib.AbstractContextManager[None]:
        """A change of shared parameters; here nobody waits for it."""
        return contextlib.nullcontext()


@dataclass(frozen=True)
class Job:
    """What all workers are told."""

    train_step: Callable[[Any, Any], Any]
    model: Any
    make_optimizer: Callable[[Iterator[Any]], Any]
    optimizer: Any  # the one of all workers, or None
    data: Any
    board: Any
    batch_size: int
    n_steps: int
    seconds: float
    seed: int


@dataclass(frozen=True)
class Result:
    """What a run gave."""

    points: list[Point]
    steps: int
    seconds: float

    @property
    def steps_per_second(self) -> float:
        """Of all workers together."""
        return self.steps / self.seconds if self.seconds > 0 else 0.0

    @property
    def metrics(self) -> dict[str, float]:
        """What ``evaluate`` said of the final model."""
        return self.points[-1].metrics


def _batches(job: Job, worker: Worker) -> Iterator[Any]:
    """A worker's share of every epoch, shuffled by the seed and the epoch."""
    if callable(job.data):
        yield from job.data(worker)
        return
    rank = worker.rank
    lib, n_samples, epoch = library("torch"), len(job.data[0]), 0
    while True:
        generator = lib.core.Generator().manual_seed(job.seed * 1_000_003 + epoch)
        order = lib.core.randperm(n_samples, generator=generator)[rank :: len(job.board)]
        for chosen in order.split(job.batch_size):
            rows = tuple(tensor.index_select(0, chosen) for tensor in job.data)
            yield rows if len(rows) > 1 else rows[0]
        epoch += 1


def _shared(optimizer: Any) -> Any:
    """An optimizer whose state is made now, by a step of zeros, and lies in shared memory."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for parameter in parameters:
        parameter.grad = parameter.detach() * 0
    optimizer.step()
    optimizer.zero_grad()
    for state in optimizer.state.values():
        for value in state.values():
            if hasattr(value, "share_memory_"):
                value.share_memory_()
    return optimizer


def _work(rank: int, job: Job) -> None:
    lib = library("torch")
    lib.core.set_num_threads(1)  # the processes share the cores
    lib.core.manual_seed(job.seed * 1_000_003 + rank)
    board = job.board.numpy()
    optimizer = job.optimizer or job.make_optimizer(job.model.parameters())
    worker = Worker(rank, len(board), job.model, optimizer)
    average = 0.0
    board[rank, READY] = 1
    while board[:, READY].sum() < len(board):
        time.sleep(1e-4)
    board[rank, BEGAN_S] = time.monotonic()
    ends_at = board[rank, BEGAN_S] + job.seconds
    for batch in _batches(job, worker):
        if worker.step >= job.n_steps or time.monotonic() >= ends_at:
            break
        loss = job.train_step(worker, batch)
        if isinstance(loss, lib.core.Tensor) and loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss = loss.item()
        average += (0.05 if worker.step else 1.0) * (float(loss) - average)
        worker.step += 1
        board[rank, LOSS] = average
        board[rank, STEPS] = worker.step
        board[rank, ENDED_S] = time.monotonic()


def run(
    make_model: Callable[[], Any],
    train_step: Callable[[Any, Any], Any],
    data: Any,
    workers: int,
    *,
    make_optimizer: Callable[[Iterator[Any]], Any],
    evaluate: Callable[[Any], dict[str, float]],
    batch_size: int = 32,
    epochs: float | None = None,
    steps: int | None = None,
    shared_optimizer: bool = False,
    seconds: float | None = None,
    evaluate_every: float = 0.0,
    seed: int = 0,
    start_method: str = "fork",
    **_others: Any,
) -> Result:
    """Train with torch; the arguments are those of `shmtensor.hogwild.run`, with torch's tensors.

    The calling process evaluates. Nothing is saved or shown, so arguments about that are not used.
    """
    lib = library("torch")
    lib.core.set_num_threads(1)
    lib.core.manual_seed(seed)
    model = make_model().share_memory()
    if epochs is not None:
        steps_per_epoch = math.ceil(math.ceil(len(data[0]) / workers) / batch_size)
        steps = max(1, round(steps_per_epoch * epochs))
    if not callable(data):
        data = tuple(tensor.share_memory_() for tensor in data)
    job = Job(
        train_step=train_step,
        model=model,
        make_optimizer=make_optimizer,
        optimizer=_shared(make_optimizer(model.parameters())) if shared_optimizer else None,
        data=data,
        board=lib.core.zeros(workers, N_COLUMNS, dtype=lib.core.float64).share_memory_(),
        batch_size=batch_size,
        n_steps=steps or 2**62,
        seconds=math.inf if seconds is None else seconds,
        seed=seed,
    )
    context = lib.multiprocessing.get_context(start_method)
    processes = [
        context.Process(target=_work, args=(rank, job), daemon=True) for rank in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        points = _watch(processes, model, job.board, evaluate, evaluate_every)
    finally:
        for process in processes:
            process.kill()
            process.join()
    board = job.board.numpy()
    seconds_spent = max(0.0, board[:, ENDED_S].max() - board[:, BEGAN_S].min())
    return Result(points, int(board[:, STEPS].sum()), seconds_spent)


def _watch(
    processes: list[Any],
    model: Any,
    board: Any,
    evaluate: Callable[[Any], dict[str, float]],
    evaluate_every: float,
) -> list[Point]:
    """Measure the model until the workers have ended; returns the curve."""
    lib = library("torch")
    while board[:, READY].sum() < len(processes) and all(p.is_alive() for p in processes):
        time.sleep(1e-4)
    began = time.monotonic()

    def measured() -> Point:
        seconds = time.monotonic() - began
        with lib.core.no_grad():
            metrics = evaluate(model)
        return Point(seconds, int(board[:, STEPS].sum()), board[:, LOSS].mean().item(), metrics)

    points: list[Point] = []
    next_at = began + (evaluate_every if math.isinf(evaluate_every) else 0.0)
    while any(process.is_alive() for process in processes):
        if time.monotonic() >= next_at:
            points.append(measured())
            now = time.monotonic()
            took = now - began - points[-1].seconds
            next_at = now + max(evaluate_every, PAUSE * took, points[-1].seconds / 100)
        next((p for p in processes if p.is_alive()), processes[0]).join(LOOK_S)
    points.append(measured())
    return points
