"""Timeouts of groups and stores, as seconds that every wait of the system takes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shmtensor._core._deadlines import deadline_of, left_until
from shmtensor._core._waits import LONGEST_S

__all__ = ["Limit", "check_timeout", "seconds_of"]


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


class Limit:
    """A timeout for several waits together, which begins now.

    Args:
        timeout: How long all of them may take.

    Attributes:
        seconds: The timeout, as errors name it.

    Raises:
        TypeError: It is no `timedelta`.
    """

    def __init__(self, timeout: timedelta) -> None:
        self.seconds = seconds_of(timeout)
        self._deadline = deadline_of(self.seconds)

    def left(self) -> float:
        """Seconds that are left, at least 0."""
        left = left_until(self._deadline)
        return LONGEST_S if left is None else left

    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left() <= 0
