"""The result of a run: the curve, the workers, the trained model."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from shmtensor.hogwild._nodes import Exchanges
from shmtensor.hogwild._types import Metrics, ModelT_co
from shmtensor.storage import from_files

__all__ = ["CURVE", "Point", "Result", "WorkerSummary", "write_curve"]

#: The table of the curve in the folder of a run.
CURVE = "curve.csv"


@dataclass(frozen=True)
class Point:
    """The run at one moment.

    Attributes:
        seconds: How long the workers had trained.
        steps: Steps of all workers together.
        loss: The average of the workers' latest losses.
        metrics: What ``evaluate`` returned for the model at that moment.
    """

    seconds: float
    steps: int
    loss: float
    metrics: Metrics = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerSummary:
    """One worker.

    Attributes:
        rank: Its number.
        pid: Process id of its last process.
        state: "waiting", "training", "finished" or "lost".
        steps: How many it has done.
        loss: The average of its latest losses.
        steps_per_second: Its rate in this part of the run, after a resumption too.
        staleness: Steps of others between reading the parameters and changing them, on average.
        max_staleness: The same, at most.
        restarts: How often it was started again.
        end: How its last process ended, if it is lost.
    """

    rank: int
    pid: int
    state: str
    steps: int
    loss: float
    steps_per_second: float
    staleness: float
    max_staleness: int
    restarts: int
    end: str = ""


@dataclass(frozen=True)
class Result(Generic[ModelT_co]):
    """A finished run.

    Attributes:
        model: The trained model; its parameters are in shared memory.
        points: The curve; the last point is of the final model.
        workers: A summary of each worker.
        seconds: How long the workers trained.
        is_resumed: Whether it continued from a checkpoint.
        exchanges: What this node exchanged with others; None without nodes.
    """

    model: ModelT_co
    points: list[Point]
    workers: list[WorkerSummary]
    seconds: float
    is_resumed: bool
    exchanges: Exchanges | None = None

    @property
    def steps(self) -> int:
        """Of all workers together."""
        return sum(worker.steps for worker in self.workers)

    @property
    def steps_per_second(self) -> float:
        """Of all workers together."""
        return self.steps / self.seconds if self.seconds > 0 else 0.0

    @property
    def metrics(self) -> Metrics:
        """What ``evaluate`` returned for the final model."""
        return self.points[-1].metrics

    @property
    def lost_workers(self) -> list[WorkerSummary]:
        """Workers that did not finish."""
        return [worker for worker in self.workers if worker.state == "lost"]

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the curve as a table: seconds, steps, loss, and a column for each metric.

        Raises:
            OSError: Writing failed; an existing file is as it was.
            ValueError: There is a device or a pipe.
        """
        write_curve(self.points, Path(path))

    def write_plot(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Draw the curve: losses, and each metric, over the seconds.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        draw({"": self.points}, Path(path), title)


def write_curve(points: list[Point], path: Path) -> None:
    """Replace the table of a curve: a reader finds the old one or this one, whole.

    A link stays, and the file that it leads to is replaced.
    """
    names = sorted({name for point in points for name in point.metrics})
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    rows = csv.writer(text)
    rows.writerow(["seconds", "steps", "loss", *names])
    for point in points:
        metrics = [point.metrics.get(name, "") for name in names]
        rows.writerow([f"{point.seconds:.4f}", point.steps, f"{point.loss:.6f}", *metrics])
    with from_files.replaced(path) as file:
        file.write(text.getvalue().encode())


def _measurements(points: list[Point], name: str) -> list[Point]:
    """The points at which a metric was measured: those between have the same as the one before."""
    before: dict[str, float] = {}
    found = []
    for point in points:
        if name in point.metrics and point.metrics != before:
            found.append(point)
            before = point.metrics
    return found


def draw(curves: dict[str, list[Point]], path: Path, title: str = "") -> None:
    """Draw several curves over each other, each with its label; see `Result.write_plot`."""
    from matplotlib.figure import Figure  # optional, and slow to import

    names = sorted({n for points in curves.values() for p in points for n in p.metrics})
    figure = Figure(figsize=(4.5 * (1 + len(names)), 3.2))
    axes = figure.subplots(1, 1 + len(names), squeeze=False)
    for label, points in curves.items():
        axes[0][0].plot([p.seconds for p in points], [p.loss for p in points], label=label or None)
        for axis, name in zip(axes[0][1:], names, strict=True):
            seen = _measurements(points, name)
            axis.plot(
                [p.seconds for p in seen],
                [p.metrics[name] for p in seen],
                ".-",
                label=label or None,
            )
    for axis, name in zip(axes[0], ["loss", *names], strict=True):
        axis.set_xlabel("seconds")
        axis.set_title(name)
        axis.grid(alpha=0.3)
        if any(curves):
            axis.legend()
    if title:
        figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
