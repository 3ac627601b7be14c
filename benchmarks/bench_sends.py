"""Sending tensors through every channel, compared with torch under the same strategy.

Run ``python benchmarks/bench_sends.py`` where torch is installed. Rows are start methods times
strategies times channels (queue, simple queue, pipe, pool) times values. Each side is a process
with a child behind each channel. It times itself, and the sides' samples alternate. One send is:
put, open in the child, read an element of each tensor, drop them, and a short answer. A value that
is not shared is made again before each send, outside the time. All are wall times of two processes:
compare ratios, and their geometric mean.
"""

from __future__ import annotations

import argparse
import importlib
import math
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import Result, geometric_mean, print_table, side, write_json

#: Of the geometric mean over all rows.
GOAL = 0.07

METHODS = ("fork", "spawn")
STRATEGIES = ("file_descriptor", "file_system")
CHANNELS = ("Queue", "SimpleQueue", "Pipe", "Pool")


@dataclass(frozen=True)
class Value:
    """What is sent: so many tensors of so many floats, shared before or not."""

    name: str
    n_tensors: int
    n_floats: int
    is_shared: bool
    count: int
    """Sends in a sample."""

    def make(self, lib: Any) -> Any:
        """Return a tensor, or a dictionary of them."""
        tensors = [lib.ones(self.n_floats) for _ in range(self.n_tensors)]
        if self.is_shared:
            for tensor in tensors:
                tensor.share_memory_()
        if self.n_tensors == 1:
            return tensors[0]
        return {str(i): tensor for i, tensor in enumerate(tensors)}


VALUES = (
    Value("4 KB shared", 1, 1 << 10, True, 40),
    Value("4 KB", 1, 1 << 10, False, 40),
    Value("1 MB shared", 1, 1 << 18, True, 20),
    Value("1 MB", 1, 1 << 18, False, 10),
    Value("64 MB", 1, 1 << 24, False, 1),
    Value("100 x 4 KB shared", 100, 1 << 10, True, 3),
    Value("100 x 4 KB", 100, 1 << 10, False, 3),
)


# --- what a side does ---


def read(item: Any) -> float:
    """Return the sum of the tensors' first elements, which a receiver must open them for."""
    tensors = item.values() if isinstance(item, dict) else [item]
    return sum(float(tensor[0]) for tensor in tensors)


def _answer(library: str, strategy: str, receive: Any, send: Any) -> None:
    _prepare(library, strategy)
    while (item := receive()) is not None:
        send(read(item))
        del item


def _prepare(library: str, strategy: str) -> Any:
    lib = importlib.import_module(library)
    importlib.import_module(f"{library}.multiprocessing").set_sharing_strategy(strategy)
    lib.set_num_threads(1)
    return lib


def _serve_pipe(library: str, strategy: str, end: Any) -> None:
    _answer(library, strategy, end.recv, end.send)


def _serve_queue(library: str, strategy: str, there: Any, back: Any) -> None:
    _answer(library, strategy, there.get, back.put)


Sender = Callable[[Any], float]


def _open_channels(context: Any, library: str, strategy: str) -> dict[str, tuple[Sender, Any]]:
    """Return for each channel a function that sends something, and one that ends its child."""
    channels: dict[str, tuple[Sender, Any]] = {}
    for kind in ("Queue", "SimpleQueue"):
        there, back = getattr(context, kind)(), getattr(context, kind)()
        context.Process(
            target=_serve_queue, args=(library, strategy, there, back), daemon=True
        ).start()
        channels[kind] = _over_queues(there, back), lambda there=there: there.put(None)
    end, other = context.Pipe()
    context.Process(target=_serve_pipe, args=(library, strategy, other), daemon=True).start()
    channels["Pipe"] = _over_pipe(end), lambda: end.send(None)
    pool = context.Pool(1, _prepare, (library, strategy))
    channels["Pool"] = (lambda item: pool.apply(read, (item,))), pool.terminate
    return channels


def _over_queues(there: Any, back: Any) -> Sender:
    def send(item: Any) -> float:
        there.put(item)
        return float(back.get())

    return send


def _over_pipe(end: Any) -> Sender:
    def send(item: Any) -> float:
        end.send(item)
        return float(end.recv())

    return send


def _seconds(lib: Any, send: Sender, value: Value) -> float:
    """Return the seconds of one send."""
    elapsed = 0.0
    item = value.make(lib) if value.is_shared else None
    for _ in range(value.count):
        sent = item if value.is_shared else value.make(lib)
        start = time.perf_counter()
        total = send(sent)
        elapsed += time.perf_counter() - start
        if total != value.n_tensors:
            raise ValueError(f"{value.name}: the receiver read {total}")
        del sent
    return elapsed / value.count


def _drive(library: str, strategy: str, method: str, orders: Any) -> None:
    """Measure on request."""
    lib = _prepare(library, strategy)
    context = importlib.import_module(f"{library}.multiprocessing").get_context(method)
    channels = _open_channels(context, library, strategy)
    while (order := orders.recv()) is not None:
        channel, value = order
        orders.send(_seconds(lib, channels[channel][0], value) * 1e9)
    for _, end in channels.values():
        with suppress(OSError):
            end()


# --- comparing ---


def measure(strategy: str, method: str, samples: int) -> list[Result]:
    """Return the rows of a strategy and a start method, on both sides."""
    results = []
    with (
        side(_drive, "shmtensor", strategy, method) as ours,
        side(_drive, "torch", strategy, method) as theirs,
    ):
        for channel in CHANNELS:
            for value in VALUES:
                taken: tuple[list[float], list[float]] = ([], [])
                for i in range(samples + 1):
                    for ask, times in zip((ours, theirs), taken, strict=True):
                        elapsed = ask((channel, value))
                        if i > 0:  # the first warms
                            times.append(elapsed)
                (low, mid, high), (their_low, their_mid, their_high) = (
                    statistics.quantiles(times, n=4) for times in taken
                )
                name = f"{method}, {strategy}, {channel}, {value.name}"
                results.append(Result(name, mid, (low, high), their_mid, (their_low, their_high)))
    return results


def main() -> int:
    """Measure all rows; 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the results there")
    options = parser.parse_args()
    results: list[Result] = []
    for method in METHODS:
        for strategy in STRATEGIES:
            rows = measure(strategy, method, options.samples)
            print_table(rows)
            print(flush=True)
            results += rows
    print("means of the ratios:")
    for label in (*METHODS, *STRATEGIES, *CHANNELS, *(value.name for value in VALUES)):
        part = [r for r in results if label in r.name.split(", ")]
        print(f"{label:20} {geometric_mean(part):.3f}")
    mean = geometric_mean(results)
    print(f"all of {len(results)} rows: {mean:.3f} of torch's time, goal {GOAL}")
    if options.json:
        write_json(options.json, results)
    return int(not math.isfinite(mean) or mean > GOAL)


if __name__ == "__main__":
    sys.exit(main())
