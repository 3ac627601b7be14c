"""Exit statuses in words.

A status is a number as in the standard library: negative for the signal that killed the process.
None is the status of a process that has ended and whose status nobody knows, since the program
ignores SIGCHLD (programs inherit that), or has waited for the process itself.

Note: None never means that a process runs. `_children.Child` says whether it does.
"""

from __future__ import annotations

import signal

__all__ = ["in_words", "signal_name"]


def signal_name(status: int | None) -> str | None:
    """Return the name of the signal that killed a process with that status, or None."""
    if status is None or status >= 0:
        return None
    try:
        return signal.Signals(-status).name
    except ValueError:  # most real-time signals have no name
        return f"signal {-status}"


def in_words(
    status: int | None, killed: str = "was killed by", ended: str = "ended with status"
) -> str:
    """Return how a process ended, as the end of a sentence.

    Args:
        status: Its exit status.
        killed: What stands before the name of a signal.
        ended: What stands before a number.
    """
    name = signal_name(status)
    if name is not None:
        return f"{killed} {name}"
    if status is None:
        return "ended with an unknown status (SIGCHLD is ignored, or others waited for it)"
    return f"{ended} {status}"
