"""Tensors that move to shared memory, or are made there, compared with torch's.

Run ``python benchmarks/bench_memory.py`` where torch is installed. Tensors are made before the
clock starts and dropped after it stops; samples of both sides alternate. The arena is warm, as in a
program that shares again and again; torch makes a file for each tensor. CPU time of one thread.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import Result, print_table, write_json

import shmtensor

#: Name, bytes, tensors at a time, times in a sample, share of torch's share_memory_ that we may
#: take: moved, born. Large ones are moved one by one, as programs do, so that caches serve both.
CASES = (
    ("4 KB", 4 << 10, 200, 1, 0.05, 0.02),
    ("1 MB", 1 << 20, 1, 10, 0.1, 0.02),
    ("64 MB", 64 << 20, 1, 1, 0.25, 0.02),
)


def _move(lib: Any, n: int, count: int, times: int) -> float:
    """Nanoseconds a tensor for share_memory_ of private ones."""
    elapsed = 0
    for _ in range(times):
        tensors = [lib.ones(n) for _ in range(count)]
        start = time.process_time_ns()
        for tensor in tensors:
            tensor.share_memory_()
        elapsed += time.process_time_ns() - start
    return elapsed / (count * times)


def _make(n: int, count: int, times: int) -> float:
    """Nanoseconds a tensor for empty(shared=True)."""
    elapsed = 0
    for _ in range(times):
        tensors = []
        start = time.process_time_ns()
        for _ in range(count):
            tensors.append(shmtensor.empty(n, shared=True))
        elapsed += time.process_time_ns() - start
    return elapsed / (count * times)


def _alternate(
    name: str, samples: int, ours: Callable[[], float], theirs: Callable[[], float]
) -> Result:
    for side in (ours, theirs):
        side()  # warm
    taken: tuple[list[float], list[float]] = ([], [])
    gc.disable()
    for _ in range(samples):
        taken[0].append(max(ours(), 0.1))
        taken[1].append(max(theirs(), 0.1))
    gc.enable()
    (low, mid, high), (their_low, their_mid, their_high) = (
        statistics.quantiles(times, n=4) for times in taken
    )
    return Result(name, mid, (low, high), their_mid, (their_low, their_high))


def measure(torch: Any, samples: int) -> tuple[list[Result], list[str]]:
    """Return the results, and a line for each goal that is missed."""
    results, missed = [], []
    for name, nbytes, count, times, moved_goal, born_goal in CASES:
        n = nbytes // 4
        moved = _alternate(
            f"share_memory_ {name}",
            samples,
            lambda n=n, count=count, times=times: _move(shmtensor, n, count, times),
            lambda n=n, count=count, times=times: _move(torch, n, count, times),
        )
        born = _alternate(
            f"empty(shared=True) {name}",
            samples,
            lambda n=n, count=count, times=times: _make(n, count, times),
            lambda n=n, count=count, times=times: _move(torch, n, count, times),
        )
        results += [moved, born]
        for result, goal in ((moved, moved_goal), (born, born_goal)):
            if result.ratio > goal:
                missed.append(f"{result.name}: {result.ratio:.3f}, goal {goal}")
    return results, missed


def main() -> int:
    """Measure; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import torch  # only this program needs it

    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy("file_descriptor")
    results, missed = measure(torch, options.samples)
    print_table(results, theirs="torch share_memory_")
    if options.json:
        write_json(options.json, results)
    for line in missed:
        print("missed:", line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
