"""Runs of a statement by the clock."""

from __future__ import annotations

import enum
import textwrap
import timeit
from collections.abc import Callable
from typing import Any

from shmtensor.utils.benchmark._common import Measurement, TaskSpec, set_torch_threads

__all__ = ["Language", "Timer", "timer"]

timer = timeit.default_timer


class Language(enum.Enum):
    """What a statement is written in."""

    PYTHON = 0
    CPP = 1


class Timer:
    """Measures how long a statement takes.

    Args:
        stmt: It: lines of Python.
        setup: Is run once before each run of many.
        global_setup: For C++; there is no such.
        timer: The clock.
        globals: Names that the statement sees.
        label: Names the table, in `Compare`.
        sub_label: Names the row.
        description: Names the column.
        env: Names what it runs in.
        num_threads: Threads that an operator may use.
        language: Python.

    Raises:
        ValueError: *stmt* is not a string, or the language is unknown.
        NotImplementedError: C++.

    Examples:
        >>> timer = Timer("x @ x", globals={"x": shmtensor.ones(64, 64)})
        >>> print(timer.blocked_autorange())  # doctest: +SKIP

    Source:
        torch.utils.benchmark.Timer.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotImplementedError("Timer(): statements in C++ are not compiled here")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        stmt, setup = textwrap.dedent(stmt), textwrap.dedent(setup)
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=dict(globals or {}))
        self._task_spec = TaskSpec(
            stmt=stmt,
            setup=setup,
            global_setup=global_setup,
            label=label,
            sub_label=sub_label,
            description=description,
            env=env,
            num_threads=num_threads,
        )

    def _run(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Run the statement *number* times after a few to warm up, by the clock once."""
        with set_torch_threads(self._task_spec.num_threads):
            self._run(max(number // 100, 2))
            return Measurement(number, [self._run(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raise NotImplementedError: `blocked_autorange` takes its place."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> None:
        """Raise NotImplementedError: `blocked_autorange` takes its place."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """How often to run for one look at the clock to cost little, within the time there is."""
        with set_torch_threads(self._task_spec.num_threads):
            overhead = sorted(self._run(0) for _ in range(5))[2]
            number = 1
            while True:
                taken = self._run(number)
                is_long = taken > min_run_time / 1000
                if (is_long and overhead / taken <= 1e-4) or taken > min_run_time:
                    return number
                number *= 10

    def blocked_autorange(
        self,
        callback: Callable[[int, float], Any] | None = None,
        min_run_time: float = 0.2,
    ) -> Measurement:
        """Run blocks of runs for a time; each block is a time of its own.

        Args:
            callback: Is called with the size of a block and what it took.
            min_run_time: Seconds in all, at least.
        """
        number = self._block_size(min_run_time)
        times: list[float] = []
        with set_torch_threads(self._task_spec.num_threads):
            while sum(times) < min_run_time:
                times.append(self._run(number))
                if callback is not None:
                    callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Run blocks of runs until their times lie close together, or a time is over.

        Args:
            threshold: The distance of the quartiles, relative to the median.
            min_run_time: Seconds between two looks at that.
            max_run_time: Seconds in all, at most.
            callback: Is called with the size of a block and what it took.
        """
        number = self._block_size(0.05)
        times: list[float] = []
        with set_torch_threads(self._task_spec.num_threads):
            while sum(times) < max_run_time:
                started = sum(times)
                while sum(times) - started < min_run_time or len(times) < 4:
                    times.append(self._run(number))
                    if callback is not None:
                        callback(number, times[-1])
                if Measurement(number, times, self._task_spec).meets_confidence(threshold):
                    break
        return Measurement(number, times, self._task_spec)

    def collect_callgrind(self, number: int = 100, **options: Any) -> Any:
        """Raise NotImplementedError: Valgrind is not run here."""
        raise NotImplementedError("collect_callgrind(): Valgrind is not run here")
