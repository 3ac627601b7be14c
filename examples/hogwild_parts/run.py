"""The parent: starts the workers, watches the shared model, collects the result."""

from __future__ import annotations

import dataclasses
import signal
import time
from typing import Any

from hogwild_parts import worker as w
from hogwild_parts.data import Dataset
from hogwild_parts.models import Library, build, library
from hogwild_parts.settings import Settings
from hogwild_parts.view import WorkerLine, make_view

# The model is measured this often; more rarely when that is dear, or the run is long.
SHORTEST_PAUSE_S = 0.02
PAUSES_PER_MEASUREMENT = 10
POINTS_PER_RUN = 500


@dataclasses.dataclass(frozen=True)
class Point:
    """One measurement of the shared model."""

    seconds: float
    steps: int
    train_loss: float
    test_loss: float
    test_accuracy: float


@dataclasses.dataclass
class Result:
    """What a run gave."""

    library: str
    points: list[Point]
    seconds: float
    steps: int
    lost_workers: list[str]
    finished_workers: int
    n_workers: int
    state: dict[str, Any]

    @property
    def accuracy(self) -> float:
        """Of the final model, on held-out data."""
        return self.points[-1].test_accuracy

    @property
    def steps_per_second(self) -> float:
        """Of all workers together."""
        return self.steps / self.seconds if self.seconds > 0 else 0.0


def _measure(lib: Library, model: Any, images: Any, labels: Any) -> tuple[float, float]:
    """Loss and accuracy on held-out data, while others may be changing the model."""
    with lib.core.no_grad():
        scores = model(images)
        loss = lib.nn.functional.cross_entropy(scores, labels).item()
        hits = (scores.argmax(1) == labels).sum().item()
    return float(loss), hits / len(labels)


def _how_it_ended(rank: int, exitcode: int, steps: int) -> str:
    if exitcode < 0:
        try:
            name = signal.Signals(-exitcode).name
        except ValueError:
            name = f"signal {-exitcode}"
        return f"worker {rank}: killed by {name} after {steps} steps"
    return f"worker {rank}: ended with status {exitcode} after {steps} steps"


class _Watcher:
    """Reads the board and the processes, and keeps the curve."""

    def __init__(
        self, lib: Library, settings: Settings, data: Dataset, model: Any, board: Any
    ) -> None:
        self.lib = lib
        self.model = model
        self.board = board
        self.images = lib.core.from_numpy(data.test_x)
        self.labels = lib.core.from_numpy(data.test_y)
        self.n_steps = settings.steps_per_worker(len(data.train_y))
        self.points: list[Point] = []
        self.cost_s = 0.0
        self.processes: list[Any] = []

    def started_at(self) -> float | None:
        """When the first worker began, on the system's monotonic clock."""
        times = [row[w.STARTED] for row in self.board.tolist() if row[w.STARTED] > 0]
        return min(times) if times else None

    def look(self) -> list[WorkerLine]:
        """Measure the model now; returns a line for each worker."""
        rows = self.board.tolist()
        before = time.monotonic()
        loss, accuracy = _measure(self.lib, self.model, self.images, self.labels)
        now = time.monotonic()
        self.cost_s = now - before
        began = self.started_at()
        seconds = now - began if began is not None else 0.0
        losses = [row[w.LOSS] for row in rows if row[w.STEPS] > 0]
        steps = int(sum(row[w.STEPS] for row in rows))
        train_loss = sum(losses) / len(losses) if losses else loss
        self.points.append(Point(seconds, steps, train_loss, loss, accuracy))
        lines = []
        for rank, (row, process) in enumerate(zip(rows, self.processes, strict=True)):
            spent = (row[w.FINISHED] or now) - row[w.STARTED] if row[w.STARTED] else 0.0
            rate = row[w.STEPS] / spent if spent > 0 else 0.0
            state = "waiting" if not row[w.STARTED] else "training"
            if row[w.FINISHED]:
                state = "finished"
            elif process.exitcode is not None:
                state = "lost"
            lines.append(
                WorkerLine(rank, int(row[w.STEPS]), self.n_steps, row[w.LOSS], rate, state)
            )
        return lines

    def pause(self) -> None:
        """Wait until the next measurement, or until a worker ends."""
        running = [p for p in self.processes if p.exitcode is None]
        if running:
            so_far = self.points[-1].seconds
            wait = max(PAUSES_PER_MEASUREMENT * self.cost_s, so_far / POINTS_PER_RUN)
            running[0].join(max(SHORTEST_PAUSE_S, wait))

    def result(self) -> Result:
        """Everything, after the last worker has ended."""
        rows = self.board.tolist()
        lost = [
            _how_it_ended(rank, process.exitcode, int(row[w.STEPS]))
            for rank, (row, process) in enumerate(zip(rows, self.processes, strict=True))
            if not row[w.FINISHED]
        ]
        ends = [row[w.FINISHED] for row in rows if row[w.FINISHED]]
        began = self.started_at()
        seconds = self.points[-1].seconds
        if ends and began is not None and not lost:
            seconds = max(ends) - began
        return Result(
            library=self.lib.name,
            points=self.points,
            seconds=seconds,
            steps=int(sum(row[w.STEPS] for row in rows)),
            lost_workers=lost,
            finished_workers=len(ends),
            n_workers=len(rows),
            state=dict(self.model.state_dict()),
        )


def train(name: str, settings: Settings, data: Dataset) -> Result:
    """Train one model with ``settings.workers`` processes; returns when all have ended."""
    lib = library(name)
    lib.core.manual_seed(settings.seed)
    model = build(lib, settings.model, data.image_shape, data.n_classes)
    model.share_memory()
    images = lib.core.from_numpy(data.train_x).share_memory_()
    labels = lib.core.from_numpy(data.train_y).share_memory_()
    board = lib.core.zeros(settings.workers, w.N_COLUMNS, dtype=lib.core.float64).share_memory_()
    context = lib.multiprocessing.get_context(settings.start_method)
    watcher = _Watcher(lib, settings, data, model, board)
    for rank in range(settings.workers):
        process = context.Process(
            target=w.work,
            args=(rank, name, settings, model, images, labels, board),
            name=f"hogwild-{rank}",
        )
        watcher.processes.append(process)
    view = make_view(name, settings)
    try:
        for process in watcher.processes:
            process.start()
        print("worker pids:", *(p.pid for p in watcher.processes), flush=True)
        with view:
            while any(p.exitcode is None for p in watcher.processes):
                view.show(watcher.look(), watcher.points[-1])
                watcher.pause()
            view.show(watcher.look(), watcher.points[-1])
    except KeyboardInterrupt:
        print("\ninterrupted; ending the workers")
        raise SystemExit(130) from None
    finally:
        _end(watcher.processes)
    return watcher.result()


def _end(processes: list[Any]) -> None:
    """Leave no worker behind, whatever happened."""
    for process in processes:
        if process.pid is not None and process.exitcode is None:
            process.kill()
    for process in processes:
        if process.pid is not None:
            process.join()
