"""Line breaks for generated C: no line beyond 100 columns where a comma allows it."""

from __future__ import annotations

WIDTH = 100


def _break_points(line: str) -> list[int]:
    """Columns after ", " and before " || " outside string literals."""
    points = []
    quoted = escaped = False
    for i, char in enumerate(line):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif not quoted and line.startswith(", ", i):
            points.append(i + 2)
        elif not quoted and line.startswith((" | ", " || "), i):
            points.append(i + 1)
    return points


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
