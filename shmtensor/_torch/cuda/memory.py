"""The memory of CUDA devices: none is used, and there is none to take.

torch's own answers for a build without CUDA are these where it has an answer. Where it fails on
names that such a build lacks, here is the AssertionError of everything else.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from shmtensor._core._absent_devices import Device, refusals
from shmtensor._core._absent_devices import dummy_class as _dummy_class
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
    CUDAPluggableAllocator caching_allocator_alloc caching_allocator_delete
    change_current_allocator get_allocator_backend get_per_process_memory_fraction mem_get_info
    memory_snapshot memory_summary reset_accumulated_host_memory_stats
    reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached
    reset_peak_host_memory_stats reset_peak_memory_stats set_per_process_memory_fraction
""".split()

__all__ = [
    "MemPool",
    "caching_allocator_disabled",
    "caching_allocator_enable",
    "empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "use_mem_pool",
    *_REFUSED,
]

__getattr__, __dir__ = refusals(__name__, _REFUSED, refusal)

use_mem_pool = refused_pools(refusal)

MemPool = _dummy_class("MemPool", "torch.cuda")


def memory_cached(device: Device = None) -> int:
    """Return `memory_reserved`, whose old name this is: 0."""
    return 0


def max_memory_cached(device: Device = None) -> int:
    """Return `max_memory_reserved`, whose old name this is: 0."""
    return 0


def host_memory_stats() -> dict[str, Any]:
    """Return the counts of the allocator of pinned memory: none."""
    return OrderedDict()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return the counts of the allocator of pinned memory by subject: none."""
    return {}


def list_gpu_processes(device: Device = None) -> str:
    """Return a text that lists the processes on the device: there are none."""
    return "no processes are running"


def caching_allocator_enable(value: bool = True) -> None:
    """Switch the device's caching allocator, which is not here: nothing happens."""


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Switch the device's caching allocator off for a block: nothing happens."""
    yield
