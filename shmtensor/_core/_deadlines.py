"""Timeouts of calls that wait in several steps."""

from __future__ import annotations

import math
import time

__all__ = ["deadline_of", "left_until"]

_FOREVER_S = 1e9  # as shmt__py_deadline_of in csrc/python/ipc/wait_call.c: nobody sees the end


def deadline_of(timeout: float | None) -> float | None:
    """Return when so many seconds from now have passed; None: never, nor in less than 30 years.

    Raises:
        ValueError: It is no number of seconds.
    """
    if timeout is None:
        return None
    if math.isnan(timeout):  # which refuses text, unlike float()
        raise ValueError("timeout must be a number of seconds, got nan")
    seconds = float(timeout)  # NumPy would add with the precision of its own: minutes, at worst
    if seconds >= _FOREVER_S:
        return None
    return time.monotonic() + max(seconds, 0.0)


def left_until(deadline: float | None) -> float | None:
    """Seconds until the deadline, at least 0; None: there is none."""
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
