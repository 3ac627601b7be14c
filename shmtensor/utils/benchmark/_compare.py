"""Measurements as tables: a table for each label, a row for each statement, a column for each
description.
"""

from __future__ import annotations

import enum
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from shmtensor.utils.benchmark._common import (
    Measurement,
    ordered_unique,
    select_unit,
    unit_to_english,
)

__all__ = ["Colorize", "Compare"]

_BEST = "\033[92m\033[1m"
_GOOD = "\033[34m\033[1m"
_BAD = "\033[2m\033[91m"
_VERY_BAD = "\033[31m\033[1m"
_END = "\033[0m\033[0m"
_BAR = "  |  "


class Colorize(enum.Enum):
    """Which cells are compared with each other by colours."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


def _colour(value: float, best: float) -> str:
    """The colour of a time, by how much longer it is than the best."""
    if value <= best * 1.01 or value <= best + 100e-9:
        return _BEST
    if value <= best * 1.1:
        return _GOOD
    if value >= best * 5:
        return _VERY_BAD
    if value >= best * 2:
        return _BAD
    return ""


class _Table:
    """The measurements of one label."""

    def __init__(
        self, results: Sequence[Measurement], colorize: Colorize, trims: bool, warns: bool
    ) -> None:
        self._colorize = colorize
        self._trims = trims
        self._warns = warns
        self.unit, self._scale = select_unit(min(each.median for each in results))
        self._label = results[0].task_spec.label or results[0].title
        self._envs = ordered_unique(each.env for each in results)
        self._columns = ordered_unique(each.task_spec.description or "" for each in results)
        self._rows = ordered_unique(
            (each.task_spec.num_threads, each.env, each.as_row_name) for each in results
        )
        self._rows.sort(key=lambda row: row[0])
        self._cells = {
            (
                (each.task_spec.num_threads, each.env, each.as_row_name),
                each.task_spec.description or "",
            ): each
            for each in results
        }

    def _decimals(self, column: str) -> int:
        """Figures behind the point: all cells of a column have as many."""
        if not self._trims:
            return 1
        wanted = []
        for row in self._rows:
            cell = self._cells.get((row, column))
            if cell is not None:
                leading = math.ceil(math.log10(cell.median / self._scale))
                wanted.append(max(cell.significant_figures - leading, 0))
        return min(wanted)

    def _text(self, cell: Measurement | None, decimals: int) -> str:
        if cell is None:
            return ""
        text = f"{cell.median / self._scale:.{decimals}f}"
        if self._warns and cell.has_warnings:
            text += f" (! {cell.iqr / cell.median * 100:.0f}%)"
        return text

    def _best(self, row: tuple[int, str, str], column: str) -> float:
        """The shortest time that a cell is compared with."""
        if self._colorize is Colorize.ROWWISE:
            cells = [(row, each) for each in self._columns]
        else:
            cells = [(each, column) for each in self._rows if each[0] == row[0]]
        return min(self._cells[place].median for place in cells if place in self._cells)

    def _name(self, row: tuple[int, str, str]) -> str:
        env = f"({row[1]})" if len(self._envs) > 1 else ""
        return f"  {env}  {row[2]}" if env else f"      {row[2]}"

    def render(self) -> str:
        names = [self._name(row) for row in self._rows]
        name_width = max(map(len, names))
        header = " " * name_width
        lines = [""] * len(self._rows)
        for column in self._columns:
            decimals = self._decimals(column)
            cells = [self._cells.get((row, column)) for row in self._rows]
            texts = [self._text(cell, decimals) for cell in cells]
            digits = max(len(text.partition(" ")[0]) for text in texts)
            texts = [
                text.partition(" ")[0].rjust(digits) + "".join(text.partition(" ")[1:])
                for text in texts
            ]
            width = max(map(len, [column, *texts]))
            header += _BAR + column.center(width)
            for i, (row, cell, text) in enumerate(zip(self._rows, cells, texts, strict=True)):
                shown = text.ljust(width) if " (! " in text else text.rjust(width)
                if self._warns and any(" (! " in each for each in texts):
                    shown = text.ljust(width)
                if cell is not None and self._colorize is not Colorize.NONE:
                    colour = _colour(cell.median, self._best(row, column))
                    shown = f"{colour}{shown}{_END}" if colour else shown
                lines[i] += _BAR + shown
        width = len(header)
        output = [f"[{f' {self._label} '.center(width - 2, '-')}]", header]
        threads = None
        for row, name, line in zip(self._rows, names, lines, strict=True):
            if row[0] != threads:
                threads = row[0]
                output.append(f"{threads} threads: ".ljust(width, "-"))
            output.append(name.ljust(name_width) + line)
        return "\n".join(output)


class Compare:
    """Prints measurements as tables, one for each label.

    Args:
        results: Them.

    Source:
        torch.utils.benchmark.Compare.
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trims = False
        self._colorize = Colorize.NONE
        self._warns = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements.

        Raises:
            ValueError: One is none.
        """
        results = list(results)
        for each in results:
            if not isinstance(each, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(each)} instead."
                )
        self._results += results

    def trim_significant_figures(self) -> None:
        """Show only figures that mean something."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Show by colours how much longer a time is than the best of its column, or row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Show the spread of times that spread much."""
        self._warns = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        groups: dict[str, list[Measurement]] = defaultdict(list)
        for each in Measurement.merge(self._results):
            groups[each.task_spec.label or each.title].append(each)
        texts = []
        for group in groups.values():
            table = _Table(group, self._colorize, self._trims, self._warns)
            unit = f"{unit_to_english(table.unit)}s ({table.unit})"
            text = f"{table.render()}\n\nTimes are in {unit}.\n"
            if self._warns:
                text += (
                    "(! XX%) Measurement has high variance, where XX is the IQR / median * 100.\n"
                )
            texts.append(text)
        return "\n".join(texts)
