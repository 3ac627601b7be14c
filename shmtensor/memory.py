"""Statistics of the private memory of tensors.

Freed blocks are kept and reused, because fresh pages cost more than most operators. These functions
return how much memory that is, and return it to the kernel. The manager counts shared memory.
"""

from __future__ import annotations

from shmtensor._boundary import storage as _storage

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
]


def memory_stats() -> dict[str, int]:
    """Return all counters.

    Returns:
        ``allocated_bytes`` (in live blocks, rounded up to their size classes), ``reserved_bytes``
        (obtained from the kernel), both with ``_peak``; ``cached_bytes`` (free blocks above 4 KB),
        ``n_allocations``, ``n_frees``, ``n_large_fresh`` and ``n_large_reused`` (blocks above 4 KB
        that came from the kernel or from the cache).
    """
    return _storage.memory_statistics()


def memory_allocated() -> int:
    """Return the bytes in live blocks."""
    return memory_stats()["allocated_bytes"]


def max_memory_allocated() -> int:
    """Return the largest `memory_allocated` since the last reset."""
    return memory_stats()["allocated_bytes_peak"]


def memory_reserved() -> int:
    """Return the bytes that were obtained from the kernel and not returned."""
    return memory_stats()["reserved_bytes"]


def max_memory_reserved() -> int:
    """Return the largest `memory_reserved` since the last reset."""
    return memory_stats()["reserved_bytes_peak"]


def reset_peak_memory_stats() -> None:
    """Reset the peaks to what is in use now."""
    _storage.reset_peak()


def empty_cache() -> None:
    """Return cached blocks to the kernel; live tensors are not touched."""
    _storage.empty_cache()
