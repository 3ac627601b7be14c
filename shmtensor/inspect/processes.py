"""What /proc says of a process, for people to read: command line, state, processor time."""

from __future__ import annotations

import os

__all__ = ["command_of", "cpu_seconds", "is_running", "printable", "state_of"]

_TICKS = os.sysconf("SC_CLK_TCK")


def printable(text: str) -> str:
    """*text* for a terminal: what would not be seen, or would steer it, as a backslash escape."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat behind the command; empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def is_running(pid: int, start: int) -> bool:
    """Whether *pid* still is the process that began at clock tick *start* after boot."""
    fields = _stat(pid)
    return len(fields) > 19 and fields[0] not in "ZX" and int(fields[19]) == start


def state_of(pid: int) -> str:
    """Return the kernel's letter: R runs, S and D wait, T is stopped; empty when it is gone."""
    fields = _stat(pid)
    return fields[0] if fields else ""


def cpu_seconds(pid: int) -> float:
    """Processor time of all its threads so far, in seconds; 0 when it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if len(fields) > 12 else 0.0


def command_of(pid: int, width: int = 60) -> str:
    """Its command line, printable, cut to *width* characters; "?" when it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
    except OSError:
        return "?"
    text = " ".join(" ".join(w.decode("utf-8", "replace").split()) for w in words)
    text = printable(text) or "?"
    return text if len(text) <= width else text[: width - 1] + "…"
