"""Measure everything of bench_ops and write benchmarks/operators.md.

Run ``python benchmarks/report.py`` where torch is installed, on a machine that does nothing else.
Three runs, each in a process of its own: one thread (CPU time), two threads (wall time), and two
threads beside a busy process on every core (wall time). ``--quick`` takes three samples a case.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAGE = HERE / "operators.md"
RUNS = {
    "one thread": ["--threads", "1", "--realtime"],
    "two threads": ["--threads", "2", "--realtime"],
    "busy": ["--threads", "2", "--busy"],
}
_INTRODUCTION = """# Operators, measured

`python benchmarks/report.py` writes this page. Other programs measure other things and print their
tables: `bench_dtypes.py` (every operator in every dtype), `bench_shapes.py` (narrow, flat and deep
shapes, and which of those pairs are slower than torch's), `bench_peak.py` (memory),
`bench_training.py` (training steps of networks).

Every ratio is shmtensor's time divided by torch's: below 1 is faster. Both libraries alternate in
one process, and the figure is the ratio of the medians. A case has its operands as local
variables, and the time of an empty call is subtracted. *One thread* is CPU time of the process.
*Two threads* is wall time with `set_num_threads(2)` in both libraries; before it come a rest, in
which the other library's threads go to sleep, and some calls that wake the library's own threads.
Both are measured at real-time priority. *Busy* is the mean wall time with two threads and without
rests, while another process keeps each core busy, except for short waits. *Fresh* results are so
large that malloc takes new memory from the kernel for them. A group's figure is the geometric mean
of its cases, beside its goal. Single cases of a million elements vary by a factor of two.
"""


def run(options: list[str]) -> dict[str, Any]:
    """Run bench_ops with *options* and return what it measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        command = [sys.executable, str(HERE / "bench_ops.py"), "--json", str(path), *options]
        # A missed goal is an exit status of 1, and no reason to stop.
        done = subprocess.run(command, check=False)
        if not path.exists():
            raise SystemExit(f"{' '.join(command)}: exit status {done.returncode} and no results")
        found: dict[str, Any] = json.loads(path.read_text())
        return found


def _time(ns: float) -> str:
    if ns < 1e4:
        return f"{ns:.0f} ns"
    return f"{ns / 1e3:.1f} us" if ns < 1e6 else f"{ns / 1e6:.2f} ms"


def _summary(found: dict[str, dict[str, Any]]) -> list[str]:
    lines = ["| group | goal | one thread | two threads | busy | worst case of one thread |"]
    lines.append("|---|---|---|---|---|---|")
    ratios = {run: {r["name"]: r["ratio"] for r in data["results"]} for run, data in found.items()}
    for group, facts in found["one thread"]["groups"].items():
        means = [found[run]["groups"][group]["mean"] for run in RUNS]
        worst = max(facts["cases"], key=lambda case: ratios["one thread"][case])
        columns = " | ".join(f"{mean:.3f}" for mean in means)
        last = f"{worst}: {ratios['one thread'][worst]:.2f}"
        lines.append(f"| {group} | {facts['goal']:g} | {columns} | {last} |")
    return lines


def _cases(found: dict[str, dict[str, Any]]) -> list[str]:
    lines: list[str] = []
    for group, facts in found["one thread"]["groups"].items():
        lines += ["", f"### {group}", ""]
        lines.append("| case | shmtensor | torch | one thread | two threads | busy |")
        lines.append("|---|---|---|---|---|---|")
        rows = {
            run: {r["name"]: r for r in data["results"] if r["name"] in facts["cases"]}
            for run, data in found.items()
        }
        for case in facts["cases"]:
            one = rows["one thread"][case]
            columns = " | ".join(
                f"{rows[run][case]['ratio']:.2f}" if case in rows[run] else "-" for run in RUNS
            )
            times = f"{_time(one['ours_ns'])} | {_time(one['theirs_ns'])}"
            lines.append(f"| {case} | {times} | {columns} |")
    return lines


def page(found: dict[str, dict[str, Any]]) -> str:
    """Return the page."""
    machine = found["one thread"]["machine"]
    facts = [
        f"- processor: {machine['cpu']}, {machine['cores']} cores",
        f"- Linux {machine['kernel']}, Python {machine['python']}, torch {version('torch')}",
        f"- shmtensor at commit {machine['commit']}",
    ]
    lines = [_INTRODUCTION, *facts, "", "## Groups", "", *_summary(found), "", "## Cases"]
    return "\n".join([*lines, *_cases(found)]) + "\n"


def main() -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three samples a case")
    parser.add_argument("--group", nargs="*", help="only these groups of bench_ops")
    options = parser.parse_args()
    more = ["--samples", "3" if options.quick else "7"]
    if options.group:
        more += ["--group", *options.group]
    # The libraries' own threads only: nothing that a variable of another library limits.
    os.environ.pop("OMP_NUM_THREADS", None)
    found = {}
    for name, arguments in RUNS.items():
        print(f"\n== {name}", flush=True)
        found[name] = run([*arguments, *more])
    PAGE.write_text(page(found))
    print(f"written: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
