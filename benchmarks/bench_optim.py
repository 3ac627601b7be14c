"""One step of each optimiser, compared with torch's default and with torch's fastest form.

Run ``python benchmarks/bench_optim.py [--threads N]`` where torch is installed. The sizes are 100
tensors of 10 000 numbers, 1000 of 100, and one of a million. The forms are torch's options
``foreach`` and ``fused``; ours has one. One thread: CPU time; more: wall time.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import torch
from measure import Call, Result, compare, print_table

import shmtensor

SIZES = {"100 of 10 000": (100, 10_000), "1000 of 100": (1000, 100), "one of 1 000 000": (1, 10**6)}
OPTIONS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9},
    "Adam": {},
    "AdamW": {},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Adagrad": {},
    "Adadelta": {},
    "RMSprop": {},
    "Rprop": {},
    "ASGD": {},
}
TITLES = ("torch's default", "its fastest form")
#: What torch fuses on the CPU.
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")


def _step(lib: Any, name: str, size: tuple[int, int], **form: bool) -> Call:
    n_tensors, n_numbers = size
    params = [lib.randn(n_numbers, requires_grad=True) for _ in range(n_tensors)]
    for param in params:
        param.grad = lib.randn(n_numbers)
    optimiser = getattr(lib.optim, name)(params, lr=1e-6, **OPTIONS[name], **form)
    optimiser.step()  # makes the state
    step: Call = optimiser.step
    return step


def _forms(name: str) -> Iterator[dict[str, bool]]:
    yield {}
    yield {"foreach": True}
    if name in FUSED:
        yield {"fused": True}


def measure(name: str, label: str, threads: int, samples: int) -> tuple[Result, Result]:
    """Compare one optimiser with torch's default, and with its fastest form."""
    ours = _step(shmtensor, name, SIZES[label])
    found = [
        compare(
            f"{name} ({next(iter(form), 'default')}), {label}",
            ours,
            _step(torch, name, SIZES[label], **form),
            samples=samples,
            sample_ms=20.0,
            wall=threads > 1,
        )
        for form in _forms(name)
    ]
    return found[0], max(found, key=lambda result: result.ratio)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--only", default="", help="only optimisers whose name contains this")
    arguments = parser.parse_args()
    for lib in (shmtensor, torch):
        lib.set_num_threads(arguments.threads)
    for label in SIZES:
        results = [
            measure(name, label, arguments.threads, arguments.samples)
            for name in OPTIONS
            if arguments.only in name
        ]
        for title, rows in zip(TITLES, zip(*results, strict=True), strict=True):
            print(f"Against {title}:")
            print_table(list(rows))


if __name__ == "__main__":
    main()
