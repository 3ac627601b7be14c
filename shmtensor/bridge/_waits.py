"""Waiting for a condition that another thread makes true."""

from __future__ import annotations

from collections.abc import Callable

from shmtensor._core._deadlines import deadline_of, left_until
from shmtensor._core._interrupts import Condition

__all__ = ["wait_until"]


def wait_until(
    changed: Condition, is_so: Callable[[], object], timeout: float | None = None
) -> bool:
    """Wait until *is_so* holds; False: it does not, after *timeout* seconds (None: wait forever).

    The caller has the condition's lock, and who changes what *is_so* looks at notifies.
    """
    deadline = deadline_of(timeout)
    while not is_so():
        left = left_until(deadline)
        if left is not None and left <= 0:
            return False
        changed.wait(left)
    return True
