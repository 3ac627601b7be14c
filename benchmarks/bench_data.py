"""The data loader with worker processes, compared with torch's.

Run ``python benchmarks/bench_data.py`` where torch is installed. Batches are 64 images of
3 x 64 x 64, float32, from memory, made by two workers; times are wall times, and samples of both
sides alternate. Then: the time from ``iter(loader)`` to the first batch under spawn, the memory of
all processes that read 500 MB (in copies of it), and the time until a killed worker is reported.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measure import Result, print_table

SHAPE = (3, 64, 64)
BATCH = 64
N_IMAGES = 1024


class Images:
    """A dataset that takes its images out of one tensor in memory."""

    def __init__(self, images: Any) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.images[index]


def _plain(lib: Any) -> Any:
    return Images(lib.rand(N_IMAGES, *SHAPE))


def _rows(lib: Any) -> Any:
    data = importlib.import_module(f"{lib.__name__}.utils.data")
    return data.TensorDataset(lib.rand(N_IMAGES, *SHAPE))


def _loader(lib: Any, dataset: Any, **options: Any) -> Any:
    data = importlib.import_module(f"{lib.__name__}.utils.data")
    return data.DataLoader(dataset, batch_size=BATCH, num_workers=2, **options)


def _libraries() -> list[Any]:
    return [importlib.import_module(name) for name in ("shmtensor", "torch")]


def _alternate(name: str, sides: list[Callable[[], float]], samples: int) -> Result:
    """Take samples of both sides in turn, each of which times itself in nanoseconds."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(samples):
        for side, times in zip(sides, taken, strict=True):
            times.append(side())
    (a, ours, b), (c, theirs, d) = (statistics.quantiles(times, n=4) for times in taken)
    return Result(name, ours, (a, b), theirs, (c, d))


def _pass_of(loader: Any) -> Callable[[], float]:
    """Return what times a pass of persistent workers; gives nanoseconds a batch."""

    def run() -> float:
        iterator: Iterator[Any] = iter(loader)
        next(iterator)
        start = time.perf_counter_ns()
        n = sum(1 for _ in iterator)
        return (time.perf_counter_ns() - start) / n

    run()
    return run


def _first_batch_of(lib: Any) -> Callable[[], float]:
    dataset = _rows(lib)

    def run() -> float:
        loader = _loader(lib, dataset, multiprocessing_context="spawn")
        start = time.perf_counter_ns()
        iterator = iter(loader)
        next(iterator)
        taken = time.perf_counter_ns() - start
        for _ in iterator:
            pass
        return taken

    return run


def _memory_bytes() -> int:
    """Memory of this process and all below it; what several share counts once."""
    listing = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
    )
    total = 0
    for pid in [str(os.getpid()), *listing.stdout.split()]:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        total += 1024 * int(text.partition("\nPss:")[2].split()[0])
    return total


def _copies(library: str) -> float:
    """How much memory four spawned workers and their parent take for 500 MB, in copies of it."""
    lib = importlib.import_module(library)
    data = importlib.import_module(f"{library}.utils.data")
    images = lib.empty(500_000_000 // (4 * 3 * 64 * 64), *SHAPE)
    before = _memory_bytes()
    images.fill_(1)
    kind = getattr(data, "SharedTensorDataset", data.TensorDataset)
    options = {"num_workers": 4, "multiprocessing_context": "spawn", "persistent_workers": True}
    loader = data.DataLoader(kind(images), batch_size=BATCH, **options)
    empty = iter(data.DataLoader(kind(images[:256].clone()), batch_size=BATCH, **options))
    for _ in empty:
        pass
    images.sum()  # has all of it mapped here, wherever it is now
    of_workers = _memory_bytes() - before - images.nbytes
    del empty
    for _ in loader:
        pass
    return (_memory_bytes() - before - of_workers) / images.nbytes


def _killed_worker_ns(lib: Any) -> float:
    """Nanoseconds from the death of a worker to the error in the loop."""
    iterator = iter(_loader(lib, _rows(lib), persistent_workers=True))
    next(iterator)
    os.kill(iterator._workers[0].pid, signal.SIGKILL)
    start = time.perf_counter_ns()
    try:
        for _ in iterator:
            pass
    # Of torch also these: the worker was to send a descriptor, or was about to.
    except (RuntimeError, OSError, EOFError):
        return time.perf_counter_ns() - start
    raise SystemExit(f"{lib.__name__}: nobody noticed")


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--copies", metavar="LIBRARY", help="only print the copies of 500 MB")
    arguments = parser.parse_args()
    if arguments.copies:
        print(_copies(arguments.copies))
        return
    libs = _libraries()
    results = []
    for name, make in {"a batch, Dataset": _plain, "a batch, TensorDataset": _rows}.items():
        loaders = [_loader(lib, make(lib), persistent_workers=True) for lib in libs]
        results.append(
            _alternate(name, [_pass_of(loader) for loader in loaders], arguments.samples)
        )
        del loaders
    results.append(
        _alternate("first batch, spawn", [_first_batch_of(lib) for lib in libs], samples=3)
    )
    sides = [lambda lib=lib: _killed_worker_ns(lib) for lib in libs]
    results.append(_alternate("killed worker reported", sides, samples=3))
    print_table(results)
    for lib in libs:
        command = [sys.executable, __file__, "--copies", lib.__name__]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(f"500 MB, four spawned workers, {lib.__name__}: {float(done.stdout):.2f} copies")


if __name__ == "__main__":
    main()
