"""The memory of absent devices: none is used, and there is none to take."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from . import Device

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "refused_pools",
]


def memory_allocated(device: Device = None) -> int:
    """Return the bytes that tensors on the device take: 0."""
    return 0


def max_memory_allocated(device: Device = None) -> int:
    """Return the most bytes that tensors on the device have taken: 0."""
    return 0


def memory_reserved(device: Device = None) -> int:
    """Return the bytes that the device's allocator holds: 0."""
    return 0


def max_memory_reserved(device: Device = None) -> int:
    """Return the most bytes that the device's allocator has held: 0."""
    return 0


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Return the allocator's counts: none."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """Return the allocator's counts by subject: none."""
    return {}


def empty_cache() -> None:
    """Give memory that the device's allocator keeps back: there is none."""


def refused_pools(
    refusal: Callable[[], Exception],
) -> Callable[..., AbstractContextManager[None]]:
    """Return a namespace's ``use_mem_pool``, whose context raises what *refusal* makes."""

    @contextlib.contextmanager
    def use_mem_pool(pool: Any, device: Device = None) -> Iterator[None]:
        """Take the memory of a block from a pool.

        Raises:
            AssertionError: On entering; there is no device.
        """
        raise refusal()
        yield

    use_mem_pool.__qualname__ = "use_mem_pool"
    return use_mem_pool
