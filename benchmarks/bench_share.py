"""Shared tensors to another process and back, compared with torch's two strategies.

Run ``python benchmarks/bench_share.py`` where torch is installed. A child process of each library
echoes what it gets over the standard ``SimpleQueue``; samples of both sides alternate. A round
trip is two messages, so it pickles, wakes and opens twice. Wall time: two processes take part.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import multiprocessing
import sys
from pathlib import Path
from typing import Any

from measure import Result, compare, print_table, side, write_json

#: Share of torch's time that we may take: of file_descriptor and of file_system.
GOALS = {"4 KB tensor": (0.12, 0.25), "dict of 100": (0.02, 0.02)}


def _prepare(library: str, strategy: str) -> Any:
    lib = importlib.import_module(library)
    importlib.import_module(f"{library}.multiprocessing").set_sharing_strategy(strategy)
    if library == "torch":
        lib.set_num_threads(1)
    return lib


def _echo(library: str, strategy: str, inbox: Any, outbox: Any) -> None:
    _prepare(library, strategy)
    while _relay(inbox, outbox):
        pass


def _relay(inbox: Any, outbox: Any) -> bool:
    """Send one item back; nothing of it is kept when the next one comes."""
    item = inbox.get()
    if item is not None:
        outbox.put(item)
    return item is not None


def _drive(library: str, strategy: str, orders: Any) -> None:
    """Run round trips on request: the parent names what to send and waits for the word."""
    lib = _prepare(library, strategy)
    context = multiprocessing.get_context("fork")
    there, back = context.SimpleQueue(), context.SimpleQueue()
    peer = context.Process(target=_echo, args=(library, strategy, there, back), daemon=True)
    peer.start()
    items = {
        "int": 1,
        "4 KB tensor": lib.zeros(1024).share_memory_(),
        "1 MB tensor": lib.zeros(1 << 18).share_memory_(),
        "dict of 100": {str(i): lib.zeros(1024).share_memory_() for i in range(100)},
    }
    while (order := orders.recv()) is not None:
        name, count = order
        item = items[name]
        for _ in range(count):
            there.put(item)
            back.get()
        orders.send(None)
    there.put(None)
    peer.join()


def measure(strategy: str, samples: int) -> list[Result]:
    """Return the cases against torch's *strategy*; times are of a batch of round trips."""
    results = []
    # So many in a batch that asking for one, two messages more, is little beside it.
    cases = (("int", 200), ("4 KB tensor", 50), ("1 MB tensor", 50), ("dict of 100", 20))
    with (
        side(_drive, "shmtensor", "file_system") as ours,
        side(_drive, "torch", strategy) as theirs,
    ):
        for name, count in cases:
            result = compare(
                name,
                functools.partial(ours, (name, count)),
                functools.partial(theirs, (name, count)),
                samples=samples,
                sample_ms=30,
                wall=True,
            )
            results.append(result)
    return results


def main() -> int:
    """Measure against both strategies; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument(
        "--json", type=Path, help="write the results there, with the strategy added"
    )
    options = parser.parse_args()
    missed = []
    for column, strategy in enumerate(("file_descriptor", "file_system")):
        results = measure(strategy, options.samples)
        print(f"\nagainst torch {strategy} (times are of one batch of round trips)")
        print_table(results)
        for result in results:
            goal = GOALS.get(result.name)
            if goal is not None and result.ratio > goal[column]:
                missed.append(
                    f"{result.name}: {result.ratio:.3f} of {strategy}, goal {goal[column]}"
                )
        if options.json:
            path = options.json.with_name(f"{options.json.stem}-{strategy}{options.json.suffix}")
            write_json(path, results)
    for line in missed:
        print("missed:", line)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
