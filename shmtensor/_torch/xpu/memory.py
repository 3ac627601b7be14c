"""The memory of XPU devices: none is used, and there is none to take."""

from __future__ import annotations

from typing import Any

from shmtensor._core._absent_devices import dummy_class as _dummy_class
from shmtensor._core._absent_devices import refusals
from shmtensor._core._absent_devices.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    refused_pools,
)

from ._refusal import refusal

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

use_mem_pool = refused_pools(refusal)

MemPool = _dummy_class("MemPool", "torch.xpu")


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """Return what the allocator holds: nothing."""
    return []
