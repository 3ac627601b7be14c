"""Warnings that a process is given once, as those of operators are (`warns` in their entries)."""

from __future__ import annotations

import os
import sys
import warnings

from shmtensor import _C

_shown: set[str] = set()
_always = False


def set_warn_always(b: bool) -> None:
    """Let warnings that are given once in a process, of deprecated functions mostly, repeat.

    Args:
        b: Give them at every call; Python's warning filters then decide what is shown.

    Source:
        torch.set_warn_always.
    """
    global _always
    _always = bool(b)
    _C._set_warn_always(_always)


def is_warn_always_enabled() -> bool:
    """Return what `set_warn_always` was last told."""
    return _always


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def level_outside() -> int:
    """Return the ``stacklevel`` by which a warning of the caller names the program's own line.

    Decorators of the package stand between a function and its caller, so no number fits all calls.
    """
    frame = sys._getframe(1)
    level = 1
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    return level


def warn_once(message: str, stacklevel: int = 2) -> None:
    """Warn the caller of the function that calls this, unless the process was told the same."""
    if message not in _shown or _always:
        _shown.add(message)
        warnings.warn(message, UserWarning, stacklevel + 1)
