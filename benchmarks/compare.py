"""Two builds of shmtensor against each other, with any program of this folder.

    python benchmarks/compare.py ../old . bench_call.py
    python benchmarks/compare.py ../old . bench_ops.py --group reductions --samples 3

OLD and NEW are checkouts that were built in place (``python build_ffi.py``), for example of two
commits: ``git worktree add ../old v0.1``. The program of this checkout runs with both in turn, in
changing order, and the shortest time of each row counts. The table has the rows that both printed:
new time divided by old time, below 1 is faster now.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
#: A row of `measure.print_table`: its name, then the times of shmtensor and of the other side.
_ROW = re.compile(r"^(.*?)\s+(\d+) ns \(\d+-\d+\)\s+\d+ ns")

Times = dict[tuple[str, int], list[float]]


def rows(output: str) -> dict[tuple[str, int], float]:
    """Return shmtensor's time of each row; equal names are numbered."""
    found: dict[tuple[str, int], float] = {}
    for line in output.splitlines():
        match = _ROW.match(line)
        if match:
            name = match.group(1)
            number = sum(known == name for known, _ in found)
            found[name, number] = float(match.group(2))
    return found


def run(tree: Path, program: list[str]) -> dict[tuple[str, int], float]:
    """Run a program with the build in *tree*.

    Raises:
        SystemExit: It fails.
    """
    done = subprocess.run(
        [sys.executable, str(HERE / program[0]), *program[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",  # where no folder shmtensor hides the tree's
        env={**os.environ, "PYTHONPATH": str(tree)},
    )
    # A missed goal is an exit status of 1.
    if done.returncode not in (0, 1) or not rows(done.stdout):
        raise SystemExit(f"{' '.join(program)} with {tree}: {done.stderr[-2000:]}")
    return rows(done.stdout)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (3)")
    arguments = parser.parse_args()
    if not arguments.program:
        parser.error("name a program of benchmarks/")
    trees = (arguments.old.resolve(), arguments.new.resolve())
    times: dict[Path, Times] = {tree: {} for tree in trees}
    for number in range(arguments.rounds):
        for tree in trees if number % 2 == 0 else reversed(trees):
            for row, time in run(tree, arguments.program).items():
                times[tree].setdefault(row, []).append(time)
    old, new = (times[tree] for tree in trees)
    ratios = {row: min(new[row]) / min(old[row]) for row in old if row in new}
    for row, ratio in sorted(ratios.items(), key=lambda item: -item[1]):
        print(f"{row[0]:40} {min(old[row]):12.0f} ns {min(new[row]):12.0f} ns {ratio:8.3f}")
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
    print(f"{len(ratios)} rows, geometric mean of new / old: {mean:.3f}")


if __name__ == "__main__":
    main()
