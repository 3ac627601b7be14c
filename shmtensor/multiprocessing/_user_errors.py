"""What users' code raised, told to others: as an error that a task may have, as text, on stderr.

Nothing here fails, whatever the objects or stderr do: who tells of an error has others to serve.
"""

from __future__ import annotations

import contextlib
import reprlib
import sys
import traceback

__all__ = ["as_error", "print_error", "shown"]

# Whole, a collection may be deeper than Python recurses, or so often in itself that its text would
# never end.
_short = reprlib.Repr()
_short.maxstring = _short.maxlong = _short.maxother = 1000


def shown(value: object) -> str:
    """Return what ``repr`` shows of a value: at most some kilobytes, also when ``repr`` fails."""
    try:
        return _short.repr(value)
    except BaseException:  # the exit of a program's own __repr__
        return f"<{type(value).__name__} object>"


def as_error(error: BaseException, what: str) -> Exception:
    """Return what a task fails with: no SystemExit, which would end whoever wants its result."""
    if isinstance(error, Exception):
        return error
    told = RuntimeError(f"{what} raised {shown(error)}")
    told.__cause__ = error
    return told


def print_error(error: BaseException) -> None:
    """Print an error with its traceback, if there is a stderr that takes it."""
    if sys.stderr is None:
        return  # `traceback` would print to stdout
    with contextlib.suppress(Exception):  # it is closed, its disk is full, its reader is gone
        traceback.print_exception(error)
