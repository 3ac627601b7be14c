"""The tables that the programs print, read back: for the record, the page and the plots."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Table", "markdown", "microseconds", "parts_of", "rows_of"]

_SIDE = r"\s*([\d.]+) ns \(([\d.]+)-([\d.]+)\)"
_ROW = re.compile(rf"^(?P<name>\S.*?){_SIDE}{_SIDE}\s+([\d.]+)\s*$")
_HEAD = re.compile(r"^case\s{2,}(?P<ours>\S.*?)\s{2,}(?P<theirs>\S.*?)\s{2,}ratio\s*$")

_MEAN = "geometric mean"


@dataclass
class Table:
    """A table of `measure.print_table`: the line before it, its sides, and rows as of `rows_of`."""

    caption: str
    ours: str
    theirs: str
    rows: list[dict[str, Any]] = field(default_factory=list)

    def common(self) -> list[str]:
        """Return the parts that every name has at its beginning or at its end."""
        names = [row["name"].split(", ") for row in self.rows]
        found: list[str] = []
        # The last part left is the name of a row, or most of it.
        while len(names) > 1 and all(len(name) > 1 for name in names):
            for end in (0, -1):
                if len({name[end] for name in names}) == 1:
                    found.append(names[0][end])
                    names = [name[1:] if end == 0 else name[:-1] for name in names]
                    break
            else:
                break
        return found

    def short_names(self) -> list[str]:
        """Return the names of the rows without their common parts."""
        common = self.common()
        return [
            ", ".join(part for part in row["name"].split(", ") if part not in common)
            for row in self.rows
        ]


def _row(line: str) -> dict[str, Any] | None:
    found = _ROW.match(line)
    if found is None:
        return None
    values = [float(value) for value in found.groups()[1:]]
    return {
        "name": found["name"].strip(),
        "ours_ns": values[0],
        "ours_quartiles_ns": values[1:3],
        "theirs_ns": values[3],
        "theirs_quartiles_ns": values[4:6],
        "ratio": values[6],
    }


def rows_of(output: str) -> list[dict[str, Any]]:
    """Return the rows of `measure.print_table` in a program's output.

    Args:
        output: What the program printed.

    Returns:
        A dictionary a row: name, nanoseconds and quartiles of both sides, their ratio. Tables
        follow each other, so that a name may occur more than once.
    """
    return [row for line in output.splitlines() if (row := _row(line)) is not None]


def parts_of(output: str) -> list[Table | list[list[str]] | str]:
    """Return what a program printed, in order.

    Returns:
        Tables of two sides; lists of other rows, each the list of its columns, which two spaces
        or more divide; lines of text.
    """
    parts: list[Table | list[list[str]] | str] = []
    for line in output.splitlines():
        last = parts[-1] if parts else None
        if head := _HEAD.match(line):
            caption = last if isinstance(last, str) and not last.startswith(_MEAN) else ""
            parts.append(Table(caption, head["ours"], head["theirs"]))
        elif isinstance(last, Table) and (row := _row(line)) is not None:
            last.rows.append(row)
        elif len(columns := re.split(r"\s{2,}", line.strip())) > 1:
            if not isinstance(last, list):
                parts.append(last := [])
            last.append(columns)
        elif line.strip():
            parts.append(line.strip())
    return parts


def microseconds(nanoseconds: float) -> str:
    """Return a time in microseconds: three digits, whole nanoseconds, spaces between thousands."""
    value = float(f"{nanoseconds / 1e3:.2e}")
    decimals = min(max(2 - math.floor(math.log10(value)), 0), 3)
    return f"{value:,.{decimals}f}".replace(",", " ")


def _cell(text: str) -> str:
    return re.sub(r"([|*])", r"\\\1", text)


def _lines_of(table: Table) -> list[str]:
    title = _cell(", ".join(table.common()) or "case")
    head = f"| {title} | {table.ours}, µs | {table.theirs}, µs | ratio |"
    rows = [
        f"| {_cell(name)} | {microseconds(row['ours_ns'])} | {microseconds(row['theirs_ns'])} "
        f"| {row['ratio']:.3f} |"
        for name, row in zip(table.short_names(), table.rows, strict=True)
    ]
    return [head, "|---|---:|---:|---:|", *rows]


def markdown(output: str) -> str:
    """Return what a program printed as Markdown: tables in microseconds, and lines of text."""
    blocks = []
    for part in parts_of(output):
        if isinstance(part, Table):
            blocks.append("\n".join(_lines_of(part)))
        elif isinstance(part, str):
            blocks.append(part[0].upper() + part[1:])
        else:
            n = max(map(len, part))
            rows = [[*columns, *[""] * (n - len(columns))] for columns in part]
            lines = [[""] * n, ["---", *["---:"] * (n - 1)], *rows]
            blocks.append("\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines))
    return "\n\n".join(blocks)
