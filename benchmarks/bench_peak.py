"""Memory that operators take at most during a call, against torch.

Run ``python benchmarks/bench_peak.py`` where torch is installed. The cases are those of
``bench_ops.py`` and ``peak_cases.py``. Ours is the allocator's peak statistic; torch's the highest
running sum of the allocations that its profiler reports. Both count the result. Blocks come in
classes an eighth apart, so a tenth and 256 KB are allowed on top.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import bench_ops
import peak_cases
import torch
from torch.profiler import ProfilerActivity, profile

import shmtensor

#: What may be taken beyond torch's peak: a share of it, and bytes.
SHARE, SLACK = 1.10, 256 << 10
#: The group of peak_cases.
OTHERS = "others"

Make = Callable[[], Callable[[], object]]


def our_peak(call: Callable[[], object]) -> int:
    """Bytes that one call takes from our allocator at most."""
    call()
    before = shmtensor.memory.memory_stats()["allocated_bytes"]
    shmtensor.memory.reset_peak_memory_stats()
    result = call()
    peak = shmtensor.memory.memory_stats()["allocated_bytes_peak"]
    del result
    return int(peak - before)


def their_peak(call: Callable[[], object]) -> int:
    """Bytes that one call takes from torch's allocator at most."""
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as report:
        result = call()
    del result
    now = peak = 0
    recorded: Any = report.profiler
    for event in recorded.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


def _pairs(groups: list[str], length: int) -> Iterator[tuple[str, Make, Make]]:
    """Each case's name, and what makes our call and torch's."""
    for name, group in bench_ops.GROUPS.items():
        if name == "small calls" or name not in groups:
            continue
        n = length if group.sizes == bench_ops.LENGTHS[:2] else group.sizes[-1]
        ours = bench_ops.operands(shmtensor, name, n)
        theirs = bench_ops.operands(torch, name, n)
        for case, make in group.cases.items():
            yield case, partial(make, shmtensor, ours), partial(make, torch, theirs)
    if OTHERS not in groups:
        return
    arrays = peak_cases.arrays()
    calls = [
        peak_cases.cases(lib, {key: lib.from_numpy(value) for key, value in arrays.items()})
        for lib in (shmtensor, torch)
    ]
    for case, call in calls[0].items():
        yield case, partial(_given, call), partial(_given, calls[1][case])


def _given(call: Callable[[], object]) -> Callable[[], object]:
    return call


def main() -> int:
    """Print what is above torch's peak; 1 when there is anything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000, help="elements of vectors")
    groups = [*bench_ops.GROUPS, OTHERS]
    parser.add_argument("--group", choices=groups, nargs="*", default=groups)
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--all", action="store_true", help="print every case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shmtensor.set_num_threads(1)
    seen, above = 0, 0
    for case, our, their in _pairs(options.group, options.n):
        if options.only not in case:
            continue
        try:
            a, b = our_peak(our()), their_peak(their())
        except (AttributeError, NotImplementedError):
            continue
        seen += 1
        high = a > b * SHARE + SLACK
        above += high
        if high or options.all:
            mark = "above" if high else ""
            print(f"{case:24} {a:12,} {b:12,} {a / max(b, 1):7.2f} {mark}", flush=True)
    print(f"{above} of {seen} cases take more than torch")
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main())
