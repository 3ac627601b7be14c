"""Collectives between processes of one machine: the backend shm compared with torch's gloo.

Run ``python benchmarks/bench_collectives.py`` where torch is installed. Every rank is a process
in a group of each library. Samples of both sides alternate; a sample is the mean wall time of
some calls on rank 0, each after a barrier. Sizes are bytes of float32 on each rank.
"""

from __future__ import annotations

import argparse
import importlib
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import Result, print_table, write_json

SIZES = {"4 KB": 4 << 10, "64 KB": 64 << 10, "1 MB": 1 << 20, "16 MB": 16 << 20, "64 MB": 64 << 20}
CALLS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter")
_SAMPLE_BYTES = 64 << 20  # a sample moves about so much ...
_MOST_CALLS = 50  # ... in at most so many calls


def _call(lib: Any, name: str, nbytes: int) -> Callable[[], object]:
    """Return a call of the collective on tensors of its own."""
    dist = importlib.import_module(f"{lib.__name__}.distributed")
    size = dist.get_world_size()
    x = lib.zeros(nbytes // 4)
    if name == "all_reduce":
        return lambda: dist.all_reduce(x)
    if name == "broadcast":
        return lambda: dist.broadcast(x, 0)
    parts = [lib.zeros(x.numel()) for _ in range(size)]
    if name == "all_gather":
        return lambda: dist.all_gather(parts, x)
    return lambda: dist.reduce_scatter(x, parts)


def _sample(call: Callable[[], object], meet: Callable[[], object], count: int) -> float:
    """Nanoseconds a call."""
    total = 0
    for _ in range(count):
        meet()
        start = time.perf_counter_ns()
        call()
        total += time.perf_counter_ns() - start
    return total / count


def _compare(name: str, sides: list[Callable[[], object]], meet: Any, count: int, n: int) -> Result:
    taken: tuple[list[float], list[float]] = ([], [])
    for call in sides:
        _sample(call, meet, 2)
    for _ in range(n):
        for call, times in zip(sides, taken, strict=True):
            time.sleep(0.015)  # threads of either side that spin go to sleep
            times.append(_sample(call, meet, count))
    (a, ours, b), (c, theirs, d) = (statistics.quantiles(times, n=4) for times in taken)
    return Result(name, ours, (a, b), theirs, (c, d))


def _rank(arguments: argparse.Namespace) -> None:
    libs = [importlib.import_module(name) for name in ("shmtensor", "torch")]
    dists = [importlib.import_module(f"{lib.__name__}.distributed") for lib in libs]
    for i, (lib, dist) in enumerate(zip(libs, dists, strict=True)):
        lib.set_num_threads(max(1, len(os.sched_getaffinity(0)) // arguments.ranks))
        dist.init_process_group(
            "gloo",
            init_method=f"tcp://127.0.0.1:{arguments.ports[i]}",
            rank=arguments.rank,
            world_size=arguments.ranks,
        )
    meet = dists[0].barrier
    results = []
    for name in CALLS:
        for label, nbytes in SIZES.items():
            sides = [_call(lib, name, nbytes) for lib in libs]
            count = max(1, min(_MOST_CALLS, _SAMPLE_BYTES // nbytes))
            results.append(_compare(f"{name} {label}", sides, meet, count, arguments.samples))
    barriers = [dist.barrier for dist in dists]
    results.append(_compare("barrier", barriers, meet, _MOST_CALLS, arguments.samples))
    if arguments.rank == 0:
        print_table(results, "shm", "gloo")
        if arguments.json:
            write_json(arguments.json, results, ranks=arguments.ranks)
    for dist in dists:
        dist.destroy_process_group()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        _rank(arguments)
        return
    ports = [str(_free_port()), str(_free_port())]
    command = [sys.executable, __file__, *sys.argv[1:], "--ports", *ports, "--rank"]
    processes = [subprocess.Popen([*command, str(rank)]) for rank in range(arguments.ranks)]
    if any(process.wait() for process in processes):
        raise SystemExit("a rank has failed")


if __name__ == "__main__":
    main()
