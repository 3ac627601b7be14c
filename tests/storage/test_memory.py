"""The caching allocator as its statistics show it: reuse, peaks, emptying, threads, fork."""

from __future__ import annotations

import os
import queue
import threading
import time

import pytest

import shmtensor
from shmtensor import memory
from shmtensor.storage import UntypedStorage

LARGE = 1 << 20


@pytest.mark.check
def test_freed_large_block_is_reused() -> None:
    memory.empty_cache()
    first = UntypedStorage(LARGE)
    address = first.data_ptr()
    del first
    before = memory.memory_stats()
    again = UntypedStorage(LARGE)
    after = memory.memory_stats()
    assert again.data_ptr() == address
    assert after["n_large_reused"] == before["n_large_reused"] + 1
    assert after["n_large_fresh"] == before["n_large_fresh"]


def test_empty_cache_gives_large_blocks_back() -> None:
    UntypedStorage(LARGE)
    assert memory.memory_stats()["cached_bytes"] >= LARGE
    reserved = memory.memory_reserved()
    memory.empty_cache()
    assert memory.memory_stats()["cached_bytes"] == 0
    assert memory.memory_reserved() <= reserved - LARGE


def test_allocated_and_peak_follow_live_blocks() -> None:
    memory.reset_peak_memory_stats()
    before = memory.memory_allocated()
    block = UntypedStorage(8 * LARGE)
    assert memory.memory_allocated() >= before + 8 * LARGE
    del block
    assert memory.memory_allocated() <= before + LARGE
    assert memory.max_memory_allocated() >= before + 8 * LARGE
    memory.reset_peak_memory_stats()
    assert memory.max_memory_allocated() < before + 8 * LARGE
    assert memory.max_memory_reserved() >= memory.memory_reserved()


@pytest.mark.check
@pytest.mark.parametrize("nbytes", [1, 63, 64, 65, 4096, 4097, 100_000, 3 << 20])
def test_data_is_aligned_to_64_bytes(nbytes: int) -> None:
    assert UntypedStorage(nbytes).data_ptr() % 64 == 0


@pytest.mark.parametrize("n", [1, 1000, 1 << 20, 6 << 20])
def test_zeros_are_zero_on_reused_memory(n: int) -> None:
    shmtensor.full((n,), 7.0)
    zeros = shmtensor.zeros(n)
    assert zeros[0].item() == zeros[n // 2].item() == zeros[-1].item() == 0.0


def test_blocks_freed_by_another_thread_come_back() -> None:
    blocks = [UntypedStorage(100) for _ in range(5000)]

    def drop() -> None:
        blocks.clear()

    thread = threading.Thread(target=drop)
    thread.start()
    thread.join()
    reserved = memory.memory_reserved()
    again = [UntypedStorage(100) for _ in range(4000)]
    assert memory.memory_reserved() - reserved < 4000 * 64
    assert len(again) == 4000


@pytest.mark.parametrize("nbytes", [1, 100, 4096])
def test_freeing_in_one_thread_what_another_allocates_takes_no_more_memory(nbytes: int) -> None:
    made: queue.SimpleQueue[list[UntypedStorage]] = queue.SimpleQueue()

    def drop() -> None:
        while batch := made.get():
            for block in batch:
                block.fill_(1)
            batch.clear()

    thread = threading.Thread(target=drop)
    thread.start()
    for _ in range(5):
        made.put([UntypedStorage(nbytes) for _ in range(2000)])
    before = memory.memory_reserved()
    try:
        for _ in range(100):
            batch = [UntypedStorage(nbytes).fill_(2) for _ in range(2000)]
            assert all(block[0] == 2 for block in batch[::100])
            while made.qsize() > 4:
                time.sleep(0.001)
            made.put(batch)
            del batch
    finally:
        made.put([])
        thread.join()
    # Five batches on their way, one that is made, one that is dropped; and what threads keep.
    assert memory.memory_reserved() - before < 7 * 2000 * max(nbytes, 64) + (1 << 20)


def test_blocks_of_threads_that_end_come_back() -> None:
    def use() -> None:
        blocks = [UntypedStorage(100) for _ in range(5000)]
        blocks.clear()

    use()
    reserved = memory.memory_reserved()
    for _ in range(50):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert memory.memory_reserved() - reserved < 2 * 5000 * 128


def test_forked_child_allocates_while_parents_threads_do() -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for n in (10, 5000, 100_000):
                UntypedStorage(n)

    threads = [threading.Thread(target=churn) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                for n in (1, 5000, 100_000, LARGE):
                    UntypedStorage(n).fill_(1)
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
