"""Versions of a model's parameters with torch: copied out of shared memory, under a lock."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from common.models import library

__all__ = ["Versions", "under_a_lock"]


class Versions:
    """The newest version lies in shared memory; nobody reads it while it is written.

    Args:
        context: Of torch.multiprocessing.
        model: What it looks like.
    """

    def __init__(self, context: Any, model: Any) -> None:
        core = library("torch").core
        self._lock = context.Lock()
        self._shared = [p.detach().clone().share_memory_() for p in model.parameters()]
        self._number = core.full((1,), -1, dtype=core.int64).share_memory_()

    def open(self) -> Versions:
        """In another process: nothing is to be opened."""
        return self

    def publish(self, number: int, model: Any) -> None:
        """Write the newest version."""
        with self._lock:
            for shared, parameter in zip(self._shared, model.parameters(), strict=True):
                shared.copy_(parameter.detach())
            self._number[0] = number

    def pull(self, model: Any, timeout: float) -> int:
        """Copy the newest version into *model*; returns its number."""
        ends_at = time.monotonic() + timeout
        while self._number[0] < 0:
            if time.monotonic() > ends_at:
                raise TimeoutError(f"there is no version after {timeout} s")
            time.sleep(1e-3)
        with self._lock:
            for shared, parameter in zip(self._shared, model.parameters(), strict=True):
                parameter.detach().copy_(shared)
            return int(self._number[0])


def under_a_lock(
    options: argparse.Namespace, context: Any, make_model: Callable[[], Any]
) -> Callable[[], Any]:
    """What opens the versions of the parameters in another process."""
    return Versions(context, make_model()).open
