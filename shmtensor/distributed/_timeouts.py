"""Timeouts of groups and stores, as seconds that every wait of the system takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shmtensor._core._waits import LONGEST_S

__all__ = ["check_timeout", "seconds_of"]


def check_timeout(timeout: Any) -> None:
    """Raise unless it is a timeout.

    Raises:
        TypeError: It is no `timedelta`.
    """
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"Expected timeout argument to be of type datetime.timedelta, got {timeout}"
        )


def seconds_of(timeout: timedelta) -> float:
    """Return a timeout in seconds; a longer one than `LONGEST_S` is that long.

    Raises:
        TypeError: It is no `timedelta`.
    """
    check_timeout(timeout)
    return min(timeout.total_seconds(), LONGEST_S)
