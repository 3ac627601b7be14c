"""Reads facts about a process from /proc: command line, state, processor time."""

from __future__ import annotations

import os

__all__ = ["command_of", "cpu_seconds", "is_running", "printable", "state_of"]

_TICKS = os.sysconf("SC_CLK_TCK")


def printable(text: str) -> str:
    """Return *text* for a terminal, with control and invisible characters as backslash escapes."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the command; empty: the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def is_running(pid: int, start: int) -> bool:
    """Whether *pid* is still the process that started at clock tick *start* after boot."""
    fields = _stat(pid)
    return len(fields) > 19 and fields[0] not in "ZX" and int(fields[19]) == start


def state_of(pid: int) -> str:
    """Return the kernel's letter: R runs, S and D wait, T is stopped; empty: it has ended."""
    fields = _stat(pid)
    return fields[0] if fields else ""


def cpu_seconds(pid: int) -> float:
    """Return the processor time of all its threads in seconds; 0: it has ended."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS if len(fields) > 12 else 0.0


def command_of(pid: int, width: int = 60) -> str:
    """Return its command line, printable, cut to *width* characters; "?": it cannot be read."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
    except OSError:
        return "?"
    # Where an interpreter lies says less than what it runs.
    if words[0].startswith(b"/"):
        words[0] = os.path.basename(words[0])
    text = " ".join(" ".join(w.decode("utf-8", "replace").split()) for w in words)
    text = printable(text) or "?"
    return text if len(text) <= width else text[: width - 1] + "…"
