"""What a call takes from the allocator."""

from __future__ import annotations

from collections.abc import Callable

from shmtensor import get_num_threads, memory

#: Each thread counts so many bytes by itself before others see them.
UNSEEN = 64 << 10


def peak(call: Callable[[], object]) -> int:
    """Bytes that a call takes for certain, its result included."""
    call()
    memory.empty_cache()
    before = memory.memory_allocated()
    memory.reset_peak_memory_stats()
    call()
    return memory.max_memory_allocated() - before - UNSEEN * (get_num_threads() + 1)
