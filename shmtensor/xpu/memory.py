"""The memory of XPU devices: none is used, and there is none to take."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from shmtensor._absent_devices import Device, absent_class, refusals
from shmtensor.xpu._refusal import refusal

_REFUSED = """
    XPUPluggableAllocator change_current_allocator get_per_process_memory_fraction mem_get_info
    reset_accumulated_memory_stats reset_peak_memory_stats set_per_process_memory_fraction
""".split()

__all__ = [
    "MemPool",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "use_mem_pool",
    *_REFUSED,
]

__getattr__, __dir__ = refusals(__name__, _REFUSED, refusal)

MemPool = absent_class(
    "MemPool", "torch.xpu", lambda _: RuntimeError("Tried to instantiate dummy base class MemPool")
)


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


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """Return what the allocator holds: nothing."""
    return []


def empty_cache() -> None:
    """Give memory that the device's allocator keeps back: there is none."""


@contextlib.contextmanager
def use_mem_pool(pool: Any, device: Device = None) -> Iterator[None]:
    """Take the memory of a block from a pool.

    Raises:
        AssertionError: On entering; there is no device.
    """
    raise refusal()
    yield
