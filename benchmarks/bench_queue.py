"""Queues, compared with the standard library's and with torch's two strategies.

Run ``python benchmarks/bench_queue.py``; the rows against torch need it installed. Each side is a
process with a child that sends everything back. It times itself, and the sides' samples alternate.
All times are wall times of two processes, and other work on the machine changes them: compare
ratios.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import multiprocessing
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import Result, print_table, side, write_json

N_BURST = 1000
SMALL = (1, 2, 3, 4, 5, 6, 7, 8)


@dataclass(frozen=True)
class Case:
    """A row: what is measured, how often in a sample, and the share of the other side's time."""

    name: str
    count: int
    goals: dict[str, float]


STANDARD = (
    Case("tuple, SimpleQueue", 300, {"stdlib": 0.5}),
    Case("tuple, Queue", 300, {"stdlib": 0.5}),
    Case("1 KB stream, SimpleQueue", 3000, {"stdlib": 0.2}),
    Case("1 KB stream, Queue", 3000, {"stdlib": 0.2}),
)
TENSORS = (
    Case("4 KB tensor", 50, {"file_descriptor": 0.04, "file_system": 0.08}),
    Case("dict of 100", 3, {"file_descriptor": 0.004, "file_system": 0.01}),
    Case("burst of 1000", 1, {"file_descriptor": 0.02, "file_system": 0.08}),
    Case("fresh 64 MB", 1, {"file_descriptor": 0.25, "file_system": 0.25}),
)


# --- what a side does ---


def _echo(library: str, strategy: str, there: Any, back: Any) -> None:
    """Answer: everything goes back, but of a stream only its end, of a large tensor its sum."""
    _prepare(library, strategy)
    while True:
        item = there.get()
        kind = item[0] if isinstance(item, tuple) and item and isinstance(item[0], str) else ""
        if kind == "end":
            return
        if kind == "stream":
            for _ in range(item[1]):
                there.get()
            back.put("done")
        elif kind == "sum":
            back.put(float(item[1].sum()))
        else:
            back.put(item)
        del item


def _prepare(library: str, strategy: str) -> Any:
    if library == "stdlib":
        return None
    lib = importlib.import_module(library)
    importlib.import_module(f"{library}.multiprocessing").set_sharing_strategy(strategy)
    lib.set_num_threads(1)
    return lib


def _round_trips(there: Any, back: Any, item: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        there.put(item)
        back.get()
    return time.perf_counter() - start


def _stream(there: Any, back: Any, items: list[Any]) -> float:
    start = time.perf_counter()
    there.put(("stream", len(items)))
    for item in items:
        there.put(item)
    back.get()
    return time.perf_counter() - start


def _fresh(lib: Any, there: Any, back: Any) -> float:
    tensor = lib.ones(1 << 24)
    start = time.perf_counter()
    there.put(("sum", tensor))
    total = back.get()
    elapsed = time.perf_counter() - start
    if total != float(1 << 24):
        raise ValueError(f"the receiver read a sum of {total}")
    return elapsed


def _measure(lib: Any, name: str, count: int, ends: dict[str, tuple[Any, Any]]) -> float:
    there, back = ends["Queue" if name.endswith(", Queue") else "SimpleQueue"]
    if name.startswith("tuple"):
        return _round_trips(there, back, SMALL, count)
    if name.startswith("1 KB"):
        return _stream(there, back, [b"x" * 1024] * count)
    if name == "fresh 64 MB":
        return _fresh(lib, there, back)
    if name == "burst of 1000":
        return _stream(there, back, [lib.zeros(1024).share_memory_() for _ in range(N_BURST)])
    if name == "dict of 100":
        item: Any = {str(i): lib.zeros(1024).share_memory_() for i in range(100)}
    else:
        item = lib.zeros(1024).share_memory_()
    return _round_trips(there, back, item, count)


def _drive(library: str, strategy: str, orders: Any) -> None:
    """Measure on request, with an echoing child behind each kind of queue."""
    lib = _prepare(library, strategy)
    package = (
        multiprocessing if lib is None else importlib.import_module(f"{library}.multiprocessing")
    )
    context = package.get_context("fork")
    ends: dict[str, tuple[Any, Any]] = {}
    children = []
    for kind in ("SimpleQueue", "Queue"):
        there, back = getattr(context, kind)(), getattr(context, kind)()
        child = context.Process(target=_echo, args=(library, strategy, there, back), daemon=True)
        child.start()
        ends[kind] = there, back
        children.append(child)
    while (order := orders.recv()) is not None:
        name, count = order
        orders.send(_measure(lib, name, count, ends) / count * 1e9)
    for child, (there, _) in zip(children, ends.values(), strict=True):
        there.put(("end",))
        child.join()


# --- comparing ---


def _compare(case: Case, ours: Any, theirs: Any, samples: int) -> Result:
    taken: tuple[list[float], list[float]] = ([], [])
    order = case.name, case.count
    for ask in (ours, theirs):
        ask(order)  # warm
    for _ in range(samples):
        for ask, times in zip((ours, theirs), taken, strict=True):
            times.append(ask(order))
    (low, mid, high), (their_low, their_mid, their_high) = (
        statistics.quantiles(times, n=4) for times in taken
    )
    return Result(case.name, mid, (low, high), their_mid, (their_low, their_high))


def measure(other: str, samples: int) -> list[Result]:
    """Return the rows against *other*: ``stdlib``, or a strategy of torch."""
    cases = STANDARD if other == "stdlib" else TENSORS
    library, strategy = ("stdlib", "") if other == "stdlib" else ("torch", other)
    with (
        side(_drive, "shmtensor", "file_system") as ours,
        side(_drive, library, strategy) as theirs,
    ):
        return [_compare(case, ours, theirs, samples) for case in cases]


def main() -> int:
    """Measure against all sides that are there; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--json", type=Path, help="write the results there, with the side added")
    options = parser.parse_args()
    others = ["stdlib"]
    if importlib.util.find_spec("torch") is not None:
        others += ["file_descriptor", "file_system"]
    goals = {case.name: case.goals for case in (*STANDARD, *TENSORS)}
    missed = []
    for other in others:
        results = measure(other, options.samples)
        print(f"\nagainst {other} (times are of one round trip, message or burst)")
        print_table(results, theirs=other)
        for result in results:
            goal = goals[result.name][other]
            if result.ratio > goal:
                missed.append(f"{result.name}: {result.ratio:.3f} of {other}, goal {goal}")
        if options.json:
            path = options.json.with_name(f"{options.json.stem}-{other}{options.json.suffix}")
            write_json(path, results)
    for line in missed:
        print("missed:", line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
