"""Measure two sides of a comparison in one run: interleaved samples, medians, spread.

Every case is a pair of zero-argument callables. Samples of both sides alternate, so that whatever
else the machine does falls on both. Time is the CPU time of one thread, unless a case says wall
time (two processes, or two threads), less that of an empty call.
"""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

Call = Callable[[], object]

#: Seconds until waiting threads of either side sleep. OpenMP's spin for milliseconds after their
#: last work, on the core that the other side's threads need.
_REST = 0.015
#: The share of a sample, as one over this, that is run untimed after a rest: it wakes a side's own
#: threads, which takes up to a millisecond on a virtual machine.
_WAKING = 4


@dataclass(frozen=True)
class Result:
    """Nanoseconds a call, per side: the median, unless said, and quartiles of the samples."""

    name: str
    ours_ns: float
    ours_quartiles_ns: tuple[float, float]
    theirs_ns: float
    theirs_quartiles_ns: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Our time as a fraction of theirs."""
        return self.ours_ns / self.theirs_ns


def _loop_ns(call: Call, count: int, clock: Callable[[], int]) -> float:
    rounds = range(count)
    start = clock()
    for _ in rounds:
        call()
    return (clock() - start) / count


def _calibrate(call: Call, clock: Callable[[], int], sample_ns: float) -> int:
    count = 1
    while True:
        elapsed = _loop_ns(call, count, clock) * count
        if elapsed >= sample_ns / 4 or count >= 1_000_000:
            return max(1, int(count * sample_ns / max(elapsed, 1)))
        count *= 4


def compare(
    name: str,
    ours: Call,
    theirs: Call,
    *,
    samples: int = 21,
    sample_ms: float = 5.0,
    wall: bool = False,
    rest: float = _REST,
    middle: Callable[[list[float]], float] = statistics.median,
) -> Result:
    """Time *ours* against *theirs*, alternating.

    Args:
        name: Row name.
        ours: One call of our side.
        theirs: The same work on the other side.
        samples: Samples a side.
        sample_ms: Length of a sample in milliseconds.
        wall: Measure wall time instead of CPU time.
        rest: Seconds to sleep before a sample of wall time; a part of it is then run untimed.
        middle: What stands for a side's samples.
    """
    clock = time.perf_counter_ns if wall else time.process_time_ns
    sides = (ours, theirs)
    counts = [_calibrate(side, clock, sample_ms * 1e6) for side in sides]
    empty = statistics.median(_loop_ns(_nothing, 100_000, clock) for _ in range(5))
    taken: tuple[list[float], list[float]] = ([], [])
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(samples):
            for side, count, times in zip(sides, counts, taken, strict=True):
                if wall:
                    time.sleep(rest)
                    _loop_ns(side, count // _WAKING + 1, clock)
                times.append(max(_loop_ns(side, count, clock) - empty, 0.1))
    finally:
        if enabled:
            gc.enable()
    (our_low, _, our_high), (low, _, high) = (statistics.quantiles(times, n=4) for times in taken)
    our_mid, mid = map(middle, taken)
    return Result(name, our_mid, (our_low, our_high), mid, (low, high))


def _nothing() -> None:
    return None


def geometric_mean(results: list[Result]) -> float:
    """Return the geometric mean of the ratios."""
    return math.exp(statistics.fmean(math.log(result.ratio) for result in results))


@contextmanager
def side(target: Callable[..., None], *arguments: Any) -> Iterator[Callable[[Any], Any]]:
    """Have ``target(*arguments, orders)`` measure in a process of its own.

    Yields what sends that process an order and returns its answer. The last order is None. The
    process receives orders from a connection and sends its answers there.

    Raises:
        EOFError, ConnectionError: The process has failed, and printed why.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=target, args=(*arguments, there))
    process.start()
    there.close()

    def ask(order: Any) -> Any:
        here.send(order)
        return here.recv()

    try:
        yield ask
    finally:
        with suppress(ConnectionError):
            here.send(None)
        process.join()


def print_table(results: list[Result], ours: str = "shmtensor", theirs: str = "torch") -> None:
    """Print one line a result and the geometric mean of the ratios."""
    print(f"{'case':34} {ours:>24} {theirs:>28} {'ratio':>8}")
    for r in results:
        (a, b), (c, d) = r.ours_quartiles_ns, r.theirs_quartiles_ns
        print(
            f"{r.name:34} {r.ours_ns:10.0f} ns ({a:.0f}-{b:.0f})".ljust(62)
            + f"{r.theirs_ns:10.0f} ns ({c:.0f}-{d:.0f})".ljust(30)
            + f"{r.ratio:8.3f}"
        )
    print(f"geometric mean of the ratios: {geometric_mean(results):.3f}")


def machine() -> dict[str, str]:
    """Describe where and what is measured: processor, kernel, Python, commit."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        "cpu": model,
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": commit,
    }


def write_json(path: Path, results: list[Result], **more: object) -> None:
    """Write results, the machine they come from and *more* to *path*."""
    rows = [{**asdict(result), "ratio": result.ratio} for result in results]
    path.write_text(json.dumps({"machine": machine(), **more, "results": rows}, indent=1) + "\n")
