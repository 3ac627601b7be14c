"""What users' code raised, told to others: as an error that a task may have, as text, on stderr.

Nothing here fails, whatever the objects or stderr do: who tells of an error has others to serve.
"""

from __future__ import annotations

import contextlib
import reprlib
import sys
import traceback
from collections.abc import Callable

__all__ = ["as_error", "print_error", "shown", "text_of", "told"]

#: In characters. Three such texts fit into a header of a bridge, however JSON escapes them.
_MOST_TEXT = 1 << 14

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


def told(error: BaseException, tell: Callable[[], str]) -> str:
    """Return what *tell* says of an error: some kilobytes that every reader takes."""
    try:
        text = tell()
    except BaseException:  # of the error's own code
        text = shown(error)
    return str.encode(text, errors="backslashreplace").decode()[:_MOST_TEXT]


def text_of(error: BaseException) -> str:
    """Return the class and the text of an error, as `told` does."""
    return told(error, lambda: f"{type(error).__name__}: {error}")


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
