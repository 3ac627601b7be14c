"""What the processes of the parameter server share, and its parent, which watches them."""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty
from typing import Any

from common.models import library
from common.plots import Panel, draw_panels
from common.processes import Team
from common.progress import Progress
from shmtensor.hogwild import Point

__all__ = ["Board", "Exchange", "Run", "watch", "write_files"]

_LOST = 2**62  # the clock of a worker that nobody waits for
_LOOK_S, _MEASURE_EVERY_S = 0.02, 0.2
_APPLIED, _STOP = range(2)
_LOSS, _STALENESS_SUM = range(2)
_LAST_SAVE_S = 10.0  # that the server may take for a last checkpoint
_NEW_LOSS = 0.05  # the weight of a loss in the average that is shown


class Board:
    """Figures of all in shared memory; each is written by one process.

    Args:
        tensors: What `make` has returned, in whatever process.
    """

    def __init__(self, tensors: dict[str, Any]) -> None:
        for name, tensor in tensors.items():
            setattr(self, name, tensor.numpy())
        self.orders: Any  # updates applied; whether to stop
        self.clocks: Any  # gradients that each worker has pushed
        self.refused: Any  # of each worker
        self.waited_s: Any  # by each worker
        self.histogram: Any  # of the staleness of what was applied
        self.sums: Any  # average of losses; sum of staleness

    @staticmethod
    def make(core: Any, n_workers: int, staleness: int) -> dict[str, Any]:
        """Make it, for so many workers and a bound of staleness, of a library's tensors."""
        counts = {
            "orders": 2,
            "clocks": n_workers,
            "refused": n_workers,
            "histogram": staleness + 1,
        }
        tensors = {name: core.zeros(n, dtype=core.int64) for name, n in counts.items()}
        for name, n in (("waited_s", n_workers), ("sums", 2)):
            tensors[name] = core.zeros(n, dtype=core.float64)
        return {name: tensor.share_memory_() for name, tensor in tensors.items()}

    # --- of a worker ------------------------------------------------------------------------

    def lead(self, rank: int) -> int:
        """How many gradients a worker is ahead of the slowest one that lives."""
        return int(self.clocks[rank] - self.clocks.min())

    def wait(self, rank: int) -> None:
        """Wait a moment, and count that."""
        began = time.monotonic()
        time.sleep(2e-4)
        self.waited_s[rank] += time.monotonic() - began

    def count_pushed(self, rank: int) -> None:
        """A gradient was pushed."""
        self.clocks[rank] += 1

    # --- of the server ----------------------------------------------------------------------

    def count_applied(self, staleness: int, loss: float) -> None:
        """A gradient was applied."""
        self.sums[_LOSS] += (_NEW_LOSS if self.applied else 1.0) * (loss - self.sums[_LOSS])
        self.sums[_STALENESS_SUM] += staleness
        self.histogram[staleness] += 1
        self.orders[_APPLIED] += 1

    def count_refused(self, rank: int) -> None:
        """A gradient was too stale."""
        self.refused[rank] += 1

    def figures(self) -> dict[str, list[float]]:
        """What a checkpoint keeps."""
        return {name: getattr(self, name).tolist() for name in ("refused", "histogram", "sums")}

    def load_figures(self, figures: dict[str, list[float]]) -> None:
        """Go on from `figures`; what is of more workers or a wider bound is added to the last."""
        for name, values in figures.items():
            array = getattr(self, name)
            for i, value in enumerate(values):
                array[min(i, len(array) - 1)] += value
        self.orders[_APPLIED] = self.histogram.sum()

    # --- of all -----------------------------------------------------------------------------

    @property
    def applied(self) -> int:
        """Gradients that were applied."""
        return int(self.orders[_APPLIED])

    @property
    def is_stopped(self) -> bool:
        """Whether all are to end."""
        return bool(self.orders[_STOP])

    @property
    def mean_staleness(self) -> float:
        """Of the applied gradients, in versions."""
        return float(self.sums[_STALENESS_SUM]) / max(1, self.applied)

    def stop(self) -> None:
        """Have all end."""
        self.orders[_STOP] = 1

    def lose(self, rank: int) -> None:
        """Have nobody wait for this worker."""
        self.clocks[rank] = _LOST


@dataclasses.dataclass
class Exchange:
    """What the server and the workers are told.

    Attributes:
        options: Of the command line.
        library: shmtensor or torch.
        make_model: Makes the model.
        data: Images and labels to train on, in shared memory.
        gradients: Queue of ``(rank, version, gradients, loss)``.
        points: Queue of the curve's points, which the parent measures and a checkpoint keeps.
        result: Queue of the final parameters, as arrays by name.
        board: Tensors of the `Board`.
        n_updates: To be applied, those of an earlier part of the run included.
        folder: For checkpoints; None: there are none.
        settings: Of the checkpoint.
        state: Of the checkpoint to go on from, or None.
    """

    options: argparse.Namespace
    library: str
    make_model: Callable[[], Any]
    data: tuple[Any, Any]
    gradients: Any
    points: Any
    result: Any
    board: dict[str, Any]
    n_updates: int
    folder: Path | None
    settings: dict[str, Any]
    state: dict[str, Any] | None


@dataclasses.dataclass
class Run:
    """What came out: the curve, the figures, the parameters as arrays, and lost workers."""

    points: list[Point]
    board: Board
    parameters: dict[str, Any]
    seconds: float
    n_lost: int

    @property
    def rate(self) -> float:
        """Updates a second."""
        return self.board.applied / self.seconds if self.seconds else 0.0


def watch(
    exchange: Exchange,
    context: Any,
    held_out: Sequence[Any],
    open_versions: Callable[[], Any],
    serve: Callable[..., None],
    work: Callable[..., None],
) -> Run:
    """Start the server and the workers, watch and measure until all is applied.

    Args:
        exchange: What they are told.
        context: To start processes with.
        held_out: Images and labels to measure on.
        open_versions: Called in each process; gives what has ``publish`` and ``pull``.
        serve: The server, ``serve(exchange, open_versions)``.
        work: A worker, ``work(rank, exchange, open_versions)``.

    Raises:
        RuntimeError: The server died, or all workers.
    """
    options, board, team = exchange.options, Board(exchange.board), Team(context)
    columns = ("worker", "pid", "pushed", "refused", "waited")
    progress = Progress(options, f"parameter server, {exchange.library}", columns)
    state = exchange.state or {"seconds": 0.0, "points": []}
    points = [Point(*fields) for fields in state["points"]]
    model, versions, n_lost = exchange.make_model(), open_versions(), 0
    measured_at = began = time.monotonic()

    def measure() -> None:
        metrics = _measured(library(exchange.library), model, held_out)
        metrics["staleness"] = board.mean_staleness
        seconds = state["seconds"] + time.monotonic() - began
        points.append(Point(seconds, board.applied, float(board.sums[_LOSS]), metrics))

    if exchange.folder is not None:
        exchange.folder.mkdir(parents=True, exist_ok=True)
    try:
        team.start("server", 0, serve, exchange, open_versions)
        for rank in range(options.workers):
            team.start("worker", rank, work, rank, exchange, open_versions)
        progress.name_workers([worker.pid for worker in team.of("worker")])
        while True:
            try:
                parameters = exchange.result.get(timeout=_LOOK_S)
                break
            except Empty:
                pass
            for lost in team.newly_lost():
                if lost.role == "server":
                    again = f"; to resume: --resume {exchange.folder}" if exchange.folder else ""
                    raise RuntimeError(f"{lost} {lost.end} after {board.applied} updates{again}")
                n_lost += 1
                board.lose(lost.rank)
                progress.say(f"{lost} {lost.end}; the others continue")
                if n_lost == options.workers:
                    raise RuntimeError(f"all workers died, after {board.applied} updates")
            now = time.monotonic()
            if options.seconds is not None and now - began >= options.seconds:
                board.stop()
            if board.applied and now - measured_at >= _MEASURE_EVERY_S:
                measured_at = now
                with contextlib.suppress(TimeoutError):  # the server has just ended
                    versions.pull(model, timeout=0.1)
                    measure()
                    if exchange.folder is not None:
                        exchange.points.put([*dataclasses.astuple(points[-1])])
            _show(progress, team, board, points)
        seconds = state["seconds"] + time.monotonic() - began
        from_numpy = library(exchange.library).core.from_numpy
        model.load_state_dict({n: from_numpy(a) for n, a in parameters.items()}, assign=True)
        measure()
        _show(progress, team, board, points, now=True)
    except KeyboardInterrupt:
        board.stop()
        for server in team.of("server"):
            server.process.join(_LAST_SAVE_S)  # it writes a checkpoint
        raise
    finally:
        progress.end()
        team.end()
    return Run(points, board, parameters, seconds, n_lost)


def _measured(lib: Any, model: Any, held_out: Sequence[Any]) -> dict[str, float]:
    images, labels = held_out
    with lib.core.no_grad():
        scores = model(images)
    return {"accuracy": (scores.argmax(1) == labels).sum().item() / len(labels)}


def _show(
    progress: Progress, team: Team, board: Board, points: list[Point], *, now: bool = False
) -> None:
    caption = f"{board.applied} updates"
    if points:
        last = points[-1]
        caption = (
            f"{last.seconds:6.1f} s  {caption}  loss {last.loss:.4f}  accuracy "
            f"{last.metrics['accuracy']:.4f}  staleness {board.mean_staleness:.2f}"
        )
    rows = []
    for worker in team.of("worker"):
        rank, clock = worker.rank, int(board.clocks[worker.rank])
        pushed = str(clock) if clock < _LOST else "lost"
        waited = f"{board.waited_s[rank]:.1f} s"
        rows.append((f"[{rank}]", str(worker.pid), pushed, str(board.refused[rank]), waited))
    progress.show(caption, rows, now=now)


def write_files(folder: Path, run: Run, title: str) -> list[Path]:
    """Write curve.csv, staleness.csv and curve.png; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    curve, staleness = folder / "curve.csv", folder / "staleness.csv"
    n_refused = int(run.board.refused.sum())
    with open(curve, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["seconds", "updates", "loss", "accuracy", "staleness"])
        for p in run.points:
            metrics = p.metrics["accuracy"], round(p.metrics["staleness"], 4)
            rows.writerow([f"{p.seconds:.4f}", p.steps, f"{p.loss:.6f}", *metrics])
    with open(staleness, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["staleness", "updates"])
        rows.writerows([s, int(n)] for s, n in enumerate(run.board.histogram))
        rows.writerow(["refused", n_refused])
    seconds = [p.seconds for p in run.points]
    loss, accuracy = Panel("loss", "seconds"), Panel("held-out accuracy", "seconds")
    loss.lines[""] = seconds, [p.loss for p in run.points]
    accuracy.lines[""] = seconds, [p.metrics["accuracy"] for p in run.points]
    share = Panel("share of updates", "staleness in versions; the last bar: refused")
    counts = [*run.board.histogram.tolist(), n_refused]
    share.bars[""] = range(len(counts)), [n / max(1, sum(counts)) for n in counts]
    picture = draw_panels([loss, accuracy, share], folder / "curve.png", title)
    return [curve, staleness, *picture]
