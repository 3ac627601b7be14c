"""What was measured, and what the measurements say together."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from shmtensor import _C

__all__ = [
    "Measurement",
    "TaskSpec",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "trim_sigfig",
    "unit_to_english",
]

_MAX_SIGNIFICANT_FIGURES = 4
# Seconds by which timers themselves vary.
_LEAST_INTERVAL = 25e-9
# A spread, relative to the median, that is told of, and one that is much.
_SPREAD_NOTED = 0.1
_SPREAD_GROSS = 0.25
_UNITS = {-3: ("ns", 1e-9), -2: ("us", 1e-6), -1: ("ms", 1e-3)}
_NAMES = {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """A statement and what it is called in tables.

    Args:
        stmt: It.
        setup: Is run before it.
        global_setup: Accepted.
        label: Names the table.
        sub_label: Names the row.
        description: Names the column.
        env: Names what it runs in, where there are several.
        num_threads: Threads that it may use.
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and the row, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt
        row = f" ({self.sub_label})" if self.sub_label else ""
        return f"stmt:{row}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """Return the setup as it is shown; empty when there is none."""
        if self.setup == "pass" or not self.setup:
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return the title, the column and the setup, a line each."""
        parts = (self.title, self.description or "", self.setup_str())
        return "\n".join(part for part in parts if part)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """Times of repeated runs of a statement.

    Args:
        number_per_run: How often a run runs the statement.
        raw_times: What each run took, in seconds.
        task_spec: The statement.
        metadata: Anything that belongs to it.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (not hasattr(TaskSpec, name) and name not in _SPEC_FIELDS):
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """What the statement took in each run, in seconds."""
        return [each / self.number_per_run for each in self.raw_times]

    def _sorted(self) -> list[float]:
        if not self.raw_times:
            raise ValueError("There are no measurements.")
        return sorted(self.times)

    @property
    def median(self) -> float:
        """The median of the times."""
        return statistics.median(self._sorted())

    @property
    def mean(self) -> float:
        """The mean of the times."""
        return statistics.fmean(self._sorted())

    def _quartile(self, share: float) -> float:
        times = self._sorted()
        place = share * (len(times) - 1)
        low = math.floor(place)
        high = min(low + 1, len(times) - 1)
        return times[low] + (times[high] - times[low]) * (place - low)

    @property
    def iqr(self) -> float:
        """The distance of the first and the third quartile."""
        return self._quartile(0.75) - self._quartile(0.25)

    @property
    def significant_figures(self) -> int:
        """How many figures of the median mean something, from 1 to 4.

        The runs between the quartiles are taken as normally distributed; the interval that holds
        their mean with 90 % probability says how many.
        """
        times = self._sorted()
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        deviation = statistics.pstdev(middle)
        interval = max(1.645 * deviation / math.sqrt(len(middle)), _LEAST_INTERVAL)
        if not self.median:
            return 1
        figures = math.floor(-math.log10(interval / self.median))
        return min(max(figures, 1), _MAX_SIGNIFICANT_FIGURES)

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread so much that the median says little."""
        return not self.meets_confidence(_SPREAD_NOTED)

    def meets_confidence(self, threshold: float = _SPREAD_NOTED) -> bool:
        """Return whether the quartiles lie closer than a share of the median."""
        return not self.median or self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        """The title of the statement."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """What it ran in, as the task says."""
        return "Unspecified env" if self.task_spec.env is None else str(self.task_spec.env)

    @property
    def as_row_name(self) -> str:
        """The name of the row, or the statement."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n = len(self.raw_times)
        unit, scale = select_unit(self.median)
        head = f"{super().__repr__()}\n{self.task_spec.summarize()}\n"
        if n == 1:
            value = f"  {self.median / scale:.2f} {unit}\n"
            per = ""
        else:
            value = f"  Median: {self.median / scale:.2f} {unit}\n"
            per = "per measurement"
        if n >= 4:
            low, high = self._quartile(0.25) / scale, self._quartile(0.75) / scale
            value += f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})\n"
        threads = self.task_spec.num_threads
        counts = (
            f"  {n} measurement{'s' if n > 1 else ''}, {self.number_per_run} runs {per}, "
            f"{threads} thread{'s' if threads > 1 else ''}"
        )
        warning = ""
        if n >= 4 and self.has_warnings:
            gross = not self.meets_confidence(_SPREAD_GROSS)
            why = (
                "suggests significant environmental influence"
                if gross
                else "could indicate system fluctuation"
            )
            warning = (
                f"\n  WARNING: Interquartile range is {self.iqr / self.median * 100:.1f}% of the "
                f"median measurement.\n           This {why}."
            )
        return head + value + counts + warning

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Return one measurement for each statement, with all times of it."""
        by_task: dict[TaskSpec, list[Measurement]] = defaultdict(list)
        for each in measurements:
            by_task[each.task_spec].append(each)
        return [
            Measurement(1, [time for each in group for time in each.times], task)
            for task, group in by_task.items()
        ]


_SPEC_FIELDS = {field.name for field in dataclasses.fields(TaskSpec)}


# --- numbers -------------------------------------------------------------------------------------


def select_unit(t: float) -> tuple[str, float]:
    """Return a unit of time that suits *t* seconds, and how many seconds it has."""
    if not t:
        return "s", 1
    return _UNITS.get(int(math.log10(t) // 3), ("s", 1))


def unit_to_english(u: str) -> str:
    """Return the word of a unit: ``"ns"`` is a nanosecond."""
    return _NAMES[u]


def trim_sigfig(x: float, n: int) -> float:
    """Return *x* with n significant figures."""
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    scale = 10 ** (math.ceil(math.log10(abs(x))) - int(n)) if x else 1
    return float(round(x / scale) * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """Return the different elements in the order of their first places."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Let an operator use n threads for a block."""
    before = _C.get_num_threads()
    try:
        _C.set_num_threads(n)
        yield
    finally:
        _C.set_num_threads(before)
