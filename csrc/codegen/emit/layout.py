"""Line breaks for generated C: no line beyond 100 columns where a comma allows it."""

from __future__ import annotations

import re

WIDTH = 100


# A string literal or an escaped character, which has no break in it; then where a break may be.
_TOKENS = re.compile(r"""\\.|"(?:\\.|[^"\\])*"?|(, )|( \|\|? )""")


def _break_points(line: str) -> list[int]:
    """Columns after ", " and before " | " and " || " outside string literals, up to the width."""
    return [
        match.end() if match[1] else match.start() + 1
        for match in _TOKENS.finditer(line[: WIDTH + 5])
        if match.lastindex
    ]


def _wrap_line(line: str) -> list[str]:
    if len(line) <= WIDTH or line.lstrip().startswith(("#", "*", "/*")):
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    lines = []
    while len(line) > WIDTH:
        points = [p for p in _break_points(line) if len(indent) < p <= WIDTH + 1]
        if not points:
            break
        lines.append(line[: points[-1]].rstrip())
        line = indent + line[points[-1] :]
    return [*lines, line]


def wrap(text: str) -> str:
    """Break the long lines of C *text*; macros and comments stay as they are."""
    return "\n".join(part for line in text.split("\n") for part in _wrap_line(line))
