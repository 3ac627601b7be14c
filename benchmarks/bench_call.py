"""How long does a call of a small operator take? One process, one thread, CPU time, beside torch.

Run ``python benchmarks/bench_call.py`` where torch is installed. Tensors have four elements, so
this measures the call itself: parsing, dispatch, recording, allocation, wrapping.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from measure import Call, Result, compare, geometric_mean, print_table, write_json

import shmtensor


def _calls(library: ModuleType, *, grad: bool) -> dict[str, Call]:
    """Return the calls by name on four-element tensors of *library*."""
    lib: Any = library
    a = lib.ones(4, requires_grad=grad)
    b = lib.ones(4, requires_grad=grad)
    zero = lib.zeros(4, requires_grad=grad)
    target = lib.ones(4)
    other = lib.zeros(4)

    def add_inplace() -> object:
        return target.add_(other)

    def add_inplace_recorded() -> object:
        # A fresh alias each time: writes recorded on one tensor would make an ever longer chain.
        return target.detach().add_(zero)

    return {
        "a + b": lambda: a + b,
        "a.add_(b)": add_inplace_recorded if grad else add_inplace,
        "a * 2.0": lambda: a * 2.0,
        "a[3]": lambda: a[3],
        "a[1:3]": lambda: a[1:3],
        "a.view(2, 2)": lambda: a.view(2, 2),
        "a.sum()": lambda: a.sum(),
        "zeros(4)": (lambda: lib.zeros(4, requires_grad=True)) if grad else (lambda: lib.zeros(4)),
    }


def _chain(library: ModuleType) -> Call:
    """Return a chain of ten operators and a sum, forward and backward."""
    lib: Any = library
    x = lib.ones(4, requires_grad=True)
    w = lib.full((4,), 1.01)

    def run() -> None:
        y = x
        for _ in range(5):
            y = y * w
            y = y + w
        y.sum().backward()
        x.grad = None

    return run


def measure_calls(samples: int) -> tuple[list[Result], Result]:
    """Measure every call with and without grad, and the chain."""
    rows = []
    for grad in (False, True):
        ours = _calls(shmtensor, grad=grad)
        theirs = _calls(torch, grad=grad)
        for name, call in ours.items():
            label = name + (" (grad)" if grad else "")
            rows.append(compare(label, call, theirs[name], samples=samples))
    chain = compare("chain of 10, forward + backward", _chain(shmtensor), _chain(torch))
    return rows, chain


def main() -> int:
    """Print the table; exit 1 when a limit given on the command line is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=21)
    parser.add_argument("--json", type=Path, help="also write the results here")
    parser.add_argument("--max-mean", type=float, help="fail when the geometric mean is above")
    parser.add_argument("--max-each", type=float, help="fail when one ratio is above")
    parser.add_argument("--max-chain", type=float, help="fail when the chain's ratio is above")
    args = parser.parse_args()
    torch.set_num_threads(1)
    shmtensor.set_num_threads(1)
    rows, chain = measure_calls(args.samples)
    print_table(rows)
    print_table([chain])
    if args.json:
        write_json(args.json, [*rows, chain])
    over = [
        args.max_mean is not None and geometric_mean(rows) > args.max_mean,
        args.max_each is not None and max(row.ratio for row in rows) > args.max_each,
        args.max_chain is not None and chain.ratio > args.max_chain,
    ]
    return 1 if any(over) else 0


if __name__ == "__main__":
    sys.exit(main())
