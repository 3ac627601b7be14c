"""Where are operators over long, narrow, flat and many-dimensional shapes slower than torch's?

Run ``python benchmarks/bench_shapes.py`` where torch is installed: some 1600 pairs of an operator
and a shape of 2e4 to 4e5 elements, float32. CPU time of one thread, samples of both sides in turn.
Every pair is measured briefly; those that seem slower than the limit are measured again. The table
shows those that still are, the worst first.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterator
from functools import partial

import shape_cases
import torch
from measure import Call, Result, compare, geometric_mean, print_table

import shmtensor

_REFUSED = (RuntimeError, TypeError, IndexError, ValueError, AssertionError, NotImplementedError)


def _pairs(only: str) -> Iterator[tuple[str, Call, Call]]:
    """Each pair's name, our call and torch's; shapes that torch refuses are left out."""
    for shape in shape_cases.SHAPES:
        theirs = torch.randn(shape)
        ours = shmtensor.from_numpy(theirs.numpy())
        for name, case in shape_cases.cases().items():
            title = f"{name} {'x'.join(map(str, shape))}"
            if not re.search(only, title):
                continue
            try:
                case(torch, theirs)
            except _REFUSED:
                continue
            yield title, partial(case, shmtensor, ours), partial(case, torch, theirs)


def main() -> int:
    """Measure, print the table and return the process's exit status: 1 where a pair is slower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--above", type=float, default=1.5, help="the limit, in torch's time")
    parser.add_argument("--samples", type=int, default=9)
    arguments = parser.parse_args()
    for lib in (torch, shmtensor):
        lib.set_num_threads(1)
    warnings.simplefilter("ignore")
    looked: list[Result] = []
    slow: list[Result] = []
    for title, ours, theirs in _pairs(arguments.only):
        result = compare(title, ours, theirs, samples=3, sample_ms=1.0)
        looked.append(result)
        if result.ratio > arguments.above:
            result = compare(title, ours, theirs, samples=arguments.samples)
        if result.ratio > arguments.above:
            slow.append(result)
    print(f"{len(looked)} pairs, geometric mean of the ratios {geometric_mean(looked):.3f}")
    if slow:
        print_table(sorted(slow, key=lambda result: -result.ratio))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
