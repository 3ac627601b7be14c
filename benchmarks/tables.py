"""The tables that the programs print, read back: for the recorded results, figures and plots."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["rows_of"]

_SIDE = r"\s*([\d.]+) ns \(([\d.]+)-([\d.]+)\)"
_ROW = re.compile(rf"^(?P<name>\S.*?){_SIDE}{_SIDE}\s+([\d.]+)\s*$")


def rows_of(output: str) -> list[dict[str, Any]]:
    """Return the rows of `measure.print_table` in a program's output.

    Args:
        output: What the program printed.

    Returns:
        A dictionary a row: name, nanoseconds and quartiles of both sides, their ratio. Tables
        follow each other, so that a name may occur more than once.
    """
    rows = []
    for line in output.splitlines():
        found = _ROW.match(line)
        if found is None:
            continue
        values = [float(value) for value in found.groups()[1:]]
        rows.append(
            {
                "name": found["name"].strip(),
                "ours_ns": values[0],
                "ours_quartiles_ns": values[1:3],
                "theirs_ns": values[3],
                "theirs_quartiles_ns": values[4:6],
                "ratio": values[6],
            }
        )
    return rows
