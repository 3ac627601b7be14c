"""Progress: a live table with rich on a terminal, a line now and then otherwise."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hogwild_parts.settings import Settings

if TYPE_CHECKING:
    from hogwild_parts.run import Point

PLAIN_EVERY_S = 1.0


@dataclasses.dataclass(frozen=True)
class WorkerLine:
    """How far one worker is."""

    rank: int
    steps: int
    of_steps: int
    loss: float
    steps_per_second: float
    state: str


class PlainView:
    """A line of text every second, and when a worker's state changes."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.last = 0.0
        self.states: list[str] = []

    def __enter__(self) -> PlainView:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass

    def show(self, lines: list[WorkerLine], point: Point) -> None:
        """Print where the workers are, if it is time."""
        states = [line.state for line in lines]
        now = time.monotonic()
        if now - self.last < PLAIN_EVERY_S and states == self.states:
            return
        self.last, self.states = now, states
        workers = "  ".join(
            f"[{line.rank}] {line.state} {line.steps}/{line.of_steps} loss {line.loss:.3f}"
            for line in lines
        )
        print(
            f"{self.title} {point.seconds:6.1f} s  {workers}  | model: loss {point.test_loss:.3f}, "
            f"accuracy {point.test_accuracy:.3f}",
            flush=True,
        )


class RichView(PlainView):
    """A table that is redrawn in place: a row for each worker, and the shared model below."""

    def __init__(self, title: str) -> None:
        super().__init__(title)
        from rich.live import Live  # optional: see make_view

        self.live: Any = Live(refresh_per_second=10)

    def __enter__(self) -> RichView:
        self.live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.live.__exit__(kind, value, traceback)

    def show(self, lines: list[WorkerLine], point: Point) -> None:
        """Redraw the table."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        colours = {"finished": "green", "lost": "red", "waiting": "dim", "training": "cyan"}
        table = Table(title=f"{self.title}, {point.seconds:.1f} s", title_justify="left")
        for name, justify in (
            ("worker", "left"),
            ("progress", "left"),
            ("steps", "right"),
            ("steps/s", "right"),
            ("loss", "right"),
            ("state", "left"),
        ):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        for line in lines:
            table.add_row(
                str(line.rank),
                ProgressBar(total=line.of_steps, completed=line.steps, width=24),
                f"{line.steps}/{line.of_steps}",
                f"{line.steps_per_second:.0f}",
                f"{line.loss:.4f}",
                f"[{colours[line.state]}]{line.state}[/]",
            )
        table.add_section()
        table.add_row(
            "model",
            f"held-out accuracy {point.test_accuracy:.4f}",
            str(point.steps),
            "",
            f"{point.test_loss:.4f}",
            "shared",
        )
        self.live.update(table)


def make_view(library: str, settings: Settings) -> PlainView:
    """The best view this terminal and this environment allow."""
    title = f"{library} {settings.model}"
    has_rich = importlib.util.find_spec("rich") is not None
    if settings.plain or not has_rich or not sys.stdout.isatty():
        return PlainView(title)
    return RichView(title)
