"""Reads ``curve.csv`` of a run's folder: the seconds, and what was measured at them."""

from __future__ import annotations

import csv
import io
import math
import os
import stat
from typing import Any

__all__ = ["read_curve"]

_MAX_BYTES = 8 << 20
_MAX_POINTS = 400
_MAX_SERIES = 12


def read_curve(folder: str) -> dict[str, Any]:
    """Return the curve of a run for the page, of at most 400 points.

    Returns:
        ``folder``; ``seconds``, a list; ``series``, each with a name and a list of values, None
        where there is no number. When there is no curve: ``message`` says why.
    """
    curve: dict[str, Any] = {"folder": folder, "seconds": [], "series": []}
    try:
        rows = _rows(os.path.join(folder, "curve.csv"))
    except FileNotFoundError:
        return {**curve, "message": "There is no curve.csv in this folder yet."}
    except (OSError, ValueError, csv.Error) as error:
        return {**curve, "message": f"curve.csv cannot be read: {error}"}
    names = rows[0] if rows else []
    if "seconds" not in names:
        return {**curve, "message": "curve.csv has no column named seconds."}
    at = names.index("seconds")
    points = [row for row in rows[1:] if len(row) == len(names) and _number(row[at]) is not None]
    if len(points) > _MAX_POINTS:  # the first and the last one stay
        step = (len(points) - 1) / (_MAX_POINTS - 1)
        points = [points[round(i * step)] for i in range(_MAX_POINTS)]
    curve["seconds"] = [_number(row[at]) for row in points]
    for i, name in enumerate(names):
        values = [_number(row[i]) for row in points]
        if name not in ("seconds", "steps") and any(v is not None for v in values):
            curve["series"].append({"name": name[:40], "values": values})
    curve["series"] = curve["series"][:_MAX_SERIES]
    return curve


def _rows(path: str) -> list[list[str]]:
    # Not blocking: a pipe of this name would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a file")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES} bytes")
    return list(csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline="")))


def _number(text: str) -> float | None:
    """Return a finite number, or None: JSON has no others."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
