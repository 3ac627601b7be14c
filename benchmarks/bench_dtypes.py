"""Where is an operator in some dtype slower than torch's?

Run ``python benchmarks/bench_dtypes.py`` where torch is installed: some 2300 pairs of an operator
and a dtype, those that both libraries know. CPU time of one thread, samples of both sides in turn.
Every pair is measured briefly. Those that seem slower than the limit are measured again, with more
and longer samples. The table shows those that still are, the worst first: medians, quartiles and
the ratio of the medians.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dtype_cases
import torch
from measure import Call, Result, compare, geometric_mean, print_table, write_json

import shmtensor


def _pairs(dtypes: list[str], only: str, n: int) -> Iterator[tuple[str, Call, Call]]:
    """Each pair's name, our call and torch's; what torch has and we have not is printed."""
    chosen = {name: make for name, make in dtype_cases.cases().items() if re.search(only, name)}
    for dtype in dtypes:
        ours = dtype_cases.operands(shmtensor, dtype, n)
        theirs = dtype_cases.operands(torch, dtype, n)
        for name, make in chosen.items():
            try:
                their_call = make(torch, theirs)
                their_call()
            except (RuntimeError, TypeError, AttributeError, IndexError, ValueError):
                continue  # no operator of torch for this dtype
            try:
                our_call = make(shmtensor, ours)
                our_call()
            except (RuntimeError, TypeError, AttributeError, IndexError, ValueError) as error:
                print(f"{name} {dtype}: not ours: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            yield f"{name} {dtype}", our_call, their_call


def _slower(
    pairs: Iterator[tuple[str, Call, Call]], above: float, samples: int, sample_ms: float
) -> tuple[list[Result], list[Result]]:
    """All pairs as they looked first, and those that are slower than *above* times torch."""
    looked, slow = [], []
    for name, ours, theirs in pairs:
        measured = partial(compare, name, ours, theirs)
        result = measured(samples=3, sample_ms=min(sample_ms, 1.0))
        looked.append(result)
        if result.ratio <= above:
            continue
        result = measured(samples=samples, sample_ms=sample_ms)
        if result.ratio > above:
            slow.append(result)
    return looked, sorted(slow, key=lambda result: -result.ratio)


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtypes", nargs="*", default=dtype_cases.DTYPES, metavar="DTYPE")
    parser.add_argument("--only", default="", metavar="PATTERN", help="names of operators")
    parser.add_argument("--size", type=int, default=10_000, help="elements of an operand")
    parser.add_argument(
        "--above", type=float, default=1.15, help="ratio from which pairs are shown"
    )
    parser.add_argument("--samples", type=int, default=9, help="samples a side of slow pairs")
    parser.add_argument(
        "--sample-ms", type=float, default=3.0, help="milliseconds of such a sample"
    )
    parser.add_argument("--json", type=Path, help="write the table there too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    shmtensor.set_num_threads(1)
    pairs = _pairs(options.dtypes, options.only, options.size)
    looked, slow = _slower(pairs, options.above, options.samples, options.sample_ms)
    if not looked:
        parser.error(f"no operator is called like {options.only!r}")
    if slow:
        print_table(slow)
    print(f"{len(slow)} of {len(looked)} pairs take more than {options.above:g} of torch's time")
    print(f"geometric mean of all, at a short look: {geometric_mean(looked):.3f}")
    if options.json:
        write_json(options.json, slow, n_pairs=len(looked))
    return 0


if __name__ == "__main__":
    sys.exit(main())
