"""What the sub-commands that look at sessions share: choosing sessions, tables, sizes."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence

from shmtensor.inspect import Picture, Session, open_sessions

__all__ = [
    "add_session_argument",
    "chosen_sessions",
    "queue_lines",
    "seconds",
    "size_text",
    "table",
]


def add_session_argument(parser: argparse.ArgumentParser) -> None:
    """Give a sub-command ``--session``."""
    parser.add_argument(
        "-s",
        "--session",
        metavar="SESSION",
        default="",
        help="only this one: its name or the beginning of it, its manager's address, or the id of "
        "a process in it (default: all sessions of this user)",
    )


@contextlib.contextmanager
def chosen_sessions(arguments: argparse.Namespace) -> Iterator[list[Session]]:
    """The sessions that ``--session`` means, closed afterwards.

    Raises:
        LookupError: One was named and there is none like it.
    """
    sessions = open_sessions(arguments.session)
    if arguments.session and not sessions:
        raise LookupError(f"no session of this user is {arguments.session!r}")
    try:
        yield sessions
    finally:
        for session in sessions:
            session.close()


def seconds(text: str) -> float:
    """Parse a duration argument: seconds, zero or more."""
    value = float(text)
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"{text} is no duration in seconds")
    return value


def size_text(nbytes: int) -> str:
    """Return a size as in "512 B" or "1.5 MiB": at most one digit behind the point."""
    value, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{nbytes} B" if unit == "B" else f"{value:.1f} {unit}"


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "") -> list[str]:
    """Lines of aligned columns; columns whose head begins with ``>`` are set to the right."""
    right = [head.startswith(">") for head in heads]
    texts = [[head.lstrip(">") for head in heads], *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in texts) for i in range(len(heads))]
    lines = []
    for row in texts:
        cells = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def queue_lines(session: Session, picture: Picture) -> list[str]:
    """A table of the session's queues; no lines when it has none."""
    pids = {c.client: c.pid for c in picture.clients}
    rows = []
    for q in session.queues():
        bound = f" of {q.max_messages}" if q.max_messages else ""
        waiting = f" + {q.n_pending}" if q.n_pending else ""
        held = f"{size_text(q.used_bytes)} of {size_text(q.capacity_bytes)}"
        made = pids.get(q.owner, "gone")
        rows.append([q.block, f"{q.n_messages}{bound}{waiting}", q.n_put, held, made])
    heads = [">QUEUE", ">MESSAGES", ">PUT", ">BYTES", ">MADE BY"]
    return table(heads, rows, indent="  ") if rows else []
