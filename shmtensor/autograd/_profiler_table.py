"""Profiles as text: units of time and memory, and the table of events."""

from __future__ import annotations

from typing import Any

__all__ = ["build_table", "format_memory", "format_share", "format_time"]

_GAP = 2  # spaces after each column
_WIDTH = 12  # of columns of numbers


def format_time(time_us: float, unit: str | None = None) -> str:
    """A time in seconds, milliseconds or microseconds with three decimals.

    Args:
        time_us: In microseconds.
        unit: ``"s"``, ``"ms"`` or ``"us"``; None: the largest that gives 1 or more.
    """
    if unit is None:
        unit = "s" if time_us >= 1e6 else "ms" if time_us >= 1e3 else "us"
    divisors = {"s": 1e6, "ms": 1e3, "us": 1.0}
    if unit not in divisors:
        raise ValueError(f"time_unit must be 's', 'ms' or 'us', got {unit!r}")
    return f"{time_us / divisors[unit]:.3f}{unit}"


def format_share(part: float, whole: float) -> str:
    """A part of a whole in percent."""
    if whole == 0:
        return "NaN" if part != 0 else "0.00%"
    return f"{part / whole * 100:.2f}%"


def format_memory(nbytes: int) -> str:
    """Bytes in B, KB, MB or GB of 1024."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


class _Column:
    """A column: a heading, a width, and where its text stands."""

    def __init__(self, heading: str, width: int = _WIDTH, left: bool = False) -> None:
        self.heading = heading
        self.width = width
        self.left = left

    def cell(self, text: str) -> str:
        placed = text.ljust(self.width) if self.left else text.rjust(self.width)
        return placed + " " * _GAP


def _fit(longest: int, limit: int | None) -> int:
    return longest + 4 if limit is None else min(longest + 4, limit)


def _cut(text: str, limit: int | None) -> str:
    return text if limit is None or len(text) <= limit else f"{text[: limit - 3]}..."


def _flops_unit(largest: int) -> tuple[str, float]:
    """The heading and divisor for the largest number of operations."""
    names = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")
    power = 0
    while power + 1 < len(names) and largest >= 1000 ** (power + 1):
        power += 1
    return f"Total {names[power]}", 1000.0**power


class _Table:
    """The columns that a list of events needs, and their lines."""

    def __init__(
        self,
        events: list[Any],
        *,
        with_memory: bool,
        with_flops: bool,
        limits: dict[str, int | None],
        time_unit: str | None,
    ) -> None:
        self.limits = limits
        self.time_unit = time_unit
        self.with_memory = with_memory
        self.total = sum(e.self_cpu_time_total for e in events if not e.is_remote)
        self.with_shapes = any(e.input_shapes for e in events)
        stacks = [line for e in events for line in (e.stack or ())]
        self.with_stacks = bool(stacks)
        flops = [e.flops for e in events if e.flops]
        self.with_flops = with_flops and bool(flops)
        self.columns = [_Column("Name", _fit(max(len(e.key) for e in events), limits["name"]))]
        for heading in ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"):
            self.columns.append(_Column(heading))
        if with_memory:
            self.columns += [_Column("CPU Mem"), _Column("Self CPU Mem")]
        self.columns.append(_Column("# of Calls"))
        if self.with_shapes:
            longest = max(len(str(e.input_shapes)) for e in events)
            self.columns.append(_Column("Input Shapes", _fit(longest, limits["shapes"])))
        if self.with_stacks:
            longest = max(map(len, stacks))
            self.columns.append(_Column("Source Location", _fit(longest, limits["src"]), left=True))
        if self.with_flops:
            heading, self.divisor = _flops_unit(max(flops))
            self.columns.append(_Column(heading))

    @property
    def width(self) -> int:
        return sum(column.width + _GAP for column in self.columns) - _GAP

    def rule(self) -> str:
        return "".join("-" * column.width + " " * _GAP for column in self.columns)

    def headings(self) -> str:
        return "".join(column.cell(column.heading) for column in self.columns)

    def _cells(self, event: Any) -> list[str]:
        def time(us: float) -> str:
            return format_time(us, self.time_unit)

        calls = event.count
        cells = [
            _cut(event.key, self.limits["name"]),
            format_share(event.self_cpu_time_total, self.total),
            time(event.self_cpu_time_total),
            "0.00%" if event.is_async else format_share(event.cpu_time_total, self.total),
            time(event.cpu_time_total),
            time(event.cpu_time),
        ]
        if self.with_memory:
            cells += [
                format_memory(event.cpu_memory_usage),
                format_memory(event.self_cpu_memory_usage),
            ]
        cells.append(str(calls))
        if self.with_shapes:
            cells.append(str(event.input_shapes)[: self.limits["shapes"]])
        if self.with_stacks:
            first = event.stack[0] if event.stack else "--"
            cells.append(first[: self.limits["src"]])
        if self.with_flops:
            cells.append(f"{event.flops / self.divisor:.3f}" if event.flops else "--")
        return cells

    def lines(self, event: Any) -> list[str]:
        def line(cells: list[str]) -> str:
            both = zip(self.columns, cells, strict=True)
            return "".join(column.cell(text) for column, text in both)

        result = [line(self._cells(event))]
        if not self.with_stacks:
            return result
        at = next(i for i, c in enumerate(self.columns) if c.heading == "Source Location")
        for more in [*(event.stack or ())[1:], ""]:
            cells = [""] * len(self.columns)
            cells[at] = more[: self.limits["src"]]
            result.append(line(cells))
        return result


def build_table(
    events: Any,
    *,
    sort_by: str | None,
    header: str | None,
    row_limit: int,
    limits: dict[str, int | None],
    with_flops: bool,
    with_memory: bool,
    top_level_events_only: bool,
    time_unit: str | None,
) -> str:
    """The table of a list of events; empty without events."""
    events = list(events)
    if not events:
        return ""
    if sort_by is not None:
        key = sort_by.replace("cuda", "device").replace("xpu", "device")
        events.sort(key=lambda event: getattr(event, key), reverse=True)
    table = _Table(
        events,
        with_memory=with_memory,
        with_flops=with_flops,
        limits=limits,
        time_unit=time_unit,
    )
    lines = []
    if header is not None:
        lines += ["=" * table.width, header]
    if top_level_events_only:
        lines += ["=" * table.width, "This report only display top-level ops statistics"]
    lines += [table.rule(), table.headings(), table.rule()]
    shown = 0
    for event in events:
        if shown == row_limit:
            break
        if top_level_events_only and event.cpu_parent is not None:
            continue
        shown += 1
        lines += table.lines(event)
    lines += [table.rule(), f"Self CPU time total: {format_time(table.total, time_unit)}"]
    return "\n".join(lines) + "\n"
