"""Switches of the CUDA profiler, which is not here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from shmtensor._core._absent_devices import refusals

from ._refusal import refusal

_REFUSED = "init start stop".split()

__all__ = ["profile", *_REFUSED]

__getattr__, __dir__ = refusals(__name__, _REFUSED, refusal)


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Profile a block.

    Raises:
        AssertionError: On entering; there is no such profiler.
    """
    raise refusal()
    yield
