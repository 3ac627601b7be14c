"""How much memory does an operator take at most during a call, compared with torch?

Run ``python benchmarks/bench_peak.py`` where torch is installed. The cases are those of
``bench_ops.py`` and of the files ``peak_*.py`` beside it; ``--operands`` gives them tensors with
other strides or another dtype. Ours is the allocator's peak statistic; torch's the highest
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
import peak_convolutions
import peak_gradients
import peak_images
import torch
from torch.profiler import ProfilerActivity, profile

import shmtensor

#: What may be taken beyond torch's peak: a share of it, and bytes.
SHARE, SLACK = 1.10, 256 << 10
#: The groups of other files.
OTHERS = {
    "others": peak_cases,
    "gradients": peak_gradients,
    "convolutions": peak_convolutions,
    "images": peak_images,
}
DTYPES = ("float64", "float16", "bfloat16")
OPERANDS = ("plain", "strided", "channels_last", *DTYPES)

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


def _strided(lib: Any, x: Any) -> Any:
    if x.dim() > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    return lib.stack([x, x], 1)[:, 0] if x.dim() == 1 else x


def _as(lib: Any, how: str, operands: dict[str, Any]) -> dict[str, Any]:
    """Return *operands* with the tensors among them as --operands says."""

    def one(x: Any) -> Any:
        if not isinstance(x, lib.Tensor) or x.requires_grad:
            return x
        if how == "strided":
            return _strided(lib, x)
        if how == "channels_last" and x.dim() == 4:
            return x.contiguous(memory_format=lib.channels_last)
        return x.to(getattr(lib, how)) if how in DTYPES and x.is_floating_point() else x

    return {name: one(x) for name, x in operands.items()}


def _pairs(groups: list[str], length: int, how: str) -> Iterator[tuple[str, Make, Make]]:
    """Each case's name, and what makes our call and torch's."""
    for name, group in bench_ops.GROUPS.items():
        if name == "small calls" or name not in groups:
            continue
        n = length if group.sizes == bench_ops.LENGTHS[:2] else group.sizes[-1]
        ours = _as(shmtensor, how, bench_ops.operands(shmtensor, name, n))
        theirs = _as(torch, how, bench_ops.operands(torch, name, n))
        for case, make in group.cases.items():
            yield case, partial(make, shmtensor, ours), partial(make, torch, theirs)
    for name, file in OTHERS.items():
        if name not in groups:
            continue
        arrays = file.arrays()
        ours, theirs = (
            file.cases(lib, _as(lib, how, {k: lib.from_numpy(v) for k, v in arrays.items()}))
            for lib in (shmtensor, torch)
        )
        for case, call in ours.items():
            yield case, partial(_given, call), partial(_given, theirs[case])


def _given(call: Callable[[], object]) -> Callable[[], object]:
    return call


def main() -> int:
    """Print what is above torch's peak; 1 when there is anything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000, help="elements of vectors")
    groups = [*bench_ops.GROUPS, *OTHERS]
    parser.add_argument("--group", choices=groups, nargs="*", default=groups)
    parser.add_argument(
        "--operands", choices=OPERANDS, default="plain", help="how they lie, or dtype"
    )
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--all", action="store_true", help="print every case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shmtensor.set_num_threads(1)
    seen, above = 0, 0
    for case, our, their in _pairs(options.group, options.n, options.operands):
        if options.only not in case:
            continue
        try:
            a, b = our_peak(our()), their_peak(their())
        except (AttributeError, NotImplementedError, RuntimeError, TypeError):
            continue
        seen += 1
        high = a > b * SHARE + SLACK
        above += high
        if high or options.all:
            mark = "above" if high else ""
            print(f"{case:36} {a:12,} {b:12,} {a / max(b, 1):7.2f} {mark}", flush=True)
    print(f"{above} of {seen} cases take more than torch")
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main())
