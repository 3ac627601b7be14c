"""Run the shorter benchmarks and write benchmarks/README.md from what they print.

Run ``python benchmarks/summary.py`` where torch is installed, on a machine that does nothing else;
it takes about a quarter of an hour. The page has one section a program: what it measures, its
command, and the table it printed. ``report.py`` writes the page of single operators, which takes
hours.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

from measure import machine

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
#: Program and arguments, in the order of the page.
PROGRAMS = (
    ("bench_sends.py",),
    ("bench_queue.py",),
    ("bench_adopt.py",),
    ("bench_collectives.py",),
    ("bench_share.py",),
    ("bench_memory.py",),
    ("bench_manager.py",),
    ("bench_call.py",),
    ("bench_training.py", "--threads", "1"),
    ("bench_training.py", "--threads", "2"),
    ("bench_optim.py",),
    ("bench_hogwild.py",),
    ("bench_data.py",),
    ("bench_collectives.py",),
    ("bench_import.py",),
)
_INTRODUCTION = """# Measured

`python benchmarks/summary.py` writes this page from one run of each program below.
[operators.md](operators.md) has the operators one by one (`report.py`). Other programs print their
tables: `bench_dtypes.py` (every operator in every dtype), `bench_shapes.py` (narrow, flat and deep
shapes), `bench_peak.py` (memory that a call takes at most).

Ratios are shmtensor's time divided by the other side's: below 1 is faster. Samples of both sides
alternate in one run, and a figure is a median, or the ratio of two medians. The programs want torch
beside the package: `pip install torch==2.13.0`.
"""


def _purpose(program: str) -> str:
    """The first sentence of the program's docstring."""
    doc = ast.get_docstring(ast.parse((HERE / program).read_text())) or ""
    return " ".join(doc.split("\n\n")[0].split())


def _section(command: tuple[str, ...], seconds: float, output: str) -> str:
    title = " ".join(command)
    return (
        f"\n## {title}\n\n{_purpose(command[0])}\n\n"
        f"`python benchmarks/{title}`, {seconds:.0f} s:\n\n```\n{output.rstrip()}\n```\n"
    )


def main() -> None:
    """Run every program, then write the page."""
    facts = "".join(f"- {name}: {value}\n" for name, value in machine().items())
    page = f"{_INTRODUCTION}\n{facts}"
    for command in PROGRAMS:
        start = time.monotonic()
        # A missed goal is an exit status of 1; the table is there all the same.
        done = subprocess.run(
            [sys.executable, str(HERE / command[0]), *command[1:]],
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.stdout:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr[-2000:]}")
        page += _section(command, time.monotonic() - start, done.stdout)
        print(" ".join(command), f"{time.monotonic() - start:.0f} s", flush=True)
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
