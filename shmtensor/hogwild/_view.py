"""Progress on the screen: a live table with rich on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol

from shmtensor.hogwild._result import Point, WorkerSummary

__all__ = ["VIEWS", "View", "make_view"]

VIEWS = ("auto", "table", "plain", "none")
_LINE_EVERY_S = 1.0
_TABLE_EVERY_S = 0.1


class View(Protocol):
    """Shows the progress of a run."""

    def show(self, workers: Sequence[WorkerSummary], point: Point, *, now: bool = False) -> None:
        """Show the workers and the last point of the curve, unless it has just done so."""

    def end(self) -> None:
        """Leave the screen as it is now."""


class _NoView:
    def show(self, workers: Sequence[WorkerSummary], point: Point, *, now: bool = False) -> None:
        pass

    def end(self) -> None:
        pass


def _metrics_text(point: Point) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in point.metrics.items())


class _PlainView:
    """A line every second, and when a worker's state changes."""

    def __init__(self) -> None:
        self._shown_at = 0.0
        self._states: list[str] = []

    def show(self, workers: Sequence[WorkerSummary], point: Point, *, now: bool = False) -> None:
        if not self._states:
            print("worker pids:", *(worker.pid for worker in workers), flush=True)
        states = [worker.state for worker in workers]
        since_s = time.monotonic() - self._shown_at
        if not now and since_s < _LINE_EVERY_S and states == self._states:
            return
        self._shown_at, self._states = time.monotonic(), states
        texts = [f"[{w.rank}] {w.state} {w.steps} loss {w.loss:.4g}" for w in workers]
        if point.metrics:
            texts.append(_metrics_text(point))
        print(f"{point.seconds:8.1f} s  " + "  ".join(texts), flush=True)

    def end(self) -> None:
        pass


class _TableView:
    """A table with a row for each worker; it is as wide as 80 columns allow."""

    def __init__(self, title: str, n_steps: int | None) -> None:
        from rich.live import Live

        self._title = title
        self._n_steps = n_steps
        self._shown_at = 0.0
        self._states: list[str] = []
        self._live: Any = Live(auto_refresh=False)
        self._live.start()

    def show(self, workers: Sequence[WorkerSummary], point: Point, *, now: bool = False) -> None:
        # To draw a table takes milliseconds, which the workers have use for.
        states = [worker.state for worker in workers]
        since_s = time.monotonic() - self._shown_at
        if not now and since_s < _TABLE_EVERY_S and states == self._states:
            return
        self._shown_at, self._states = time.monotonic(), states
        self._live.update(self._table(workers, point), refresh=True)

    def _table(self, workers: Sequence[WorkerSummary], point: Point) -> Any:
        from rich.table import Table

        of = f" of {self._n_steps * len(workers)}" if self._n_steps else ""
        caption = f"{point.seconds:.1f} s, {point.steps}{of} steps  {_metrics_text(point)}"
        table = Table(title=self._title, caption=caption)
        for name in ("worker", "pid", "state", "steps", "loss", "steps/s", "staleness", "max"):
            table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
        for w in workers:
            table.add_row(
                *(str(w.rank), str(w.pid), w.state, str(w.steps), f"{w.loss:.4g}"),
                *(f"{w.steps_per_second:.0f}", f"{w.staleness:.1f}", str(w.max_staleness)),
            )
        return table

    def end(self) -> None:
        self._live.stop()


def make_view(kind: str, title: str, n_steps: int | None) -> View:
    """Return the view of that kind; "auto" is a table on a terminal where rich is installed."""
    if kind == "auto":
        has_rich = importlib.util.find_spec("rich") is not None
        kind = "table" if has_rich and sys.stdout.isatty() else "plain"
    if kind == "table":
        return _TableView(title, n_steps)
    return _PlainView() if kind == "plain" else _NoView()
