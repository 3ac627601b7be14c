"""Marks for NVIDIA's profilers, which need CUDA."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from shmtensor._core._absent_devices import refusals

_REFUSED = "mark range_end range_pop range_push range_start".split()

__all__ = ["range", *_REFUSED]


def _refusal(name: str = "") -> RuntimeError:
    return RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


__getattr__, __dir__ = refusals(__name__, _REFUSED, _refusal)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Mark a block.

    Raises:
        RuntimeError: On entering; there is no such profiler.
    """
    raise _refusal()
    yield
