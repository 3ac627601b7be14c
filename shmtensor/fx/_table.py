"""Tables of text."""

from __future__ import annotations

__all__ = ["text"]


def text(head: list[str], rows: list[list[str]]) -> str:
    """Return a table with a line of dashes below its head; columns are two spaces apart."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    # Nothing stands below the heads' own blanks in a narrow column.
    widths = [max(width, len(name) + 2) for width, name in zip(widths, head, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
