"""Run the shorter benchmarks; write benchmarks/README.md and results.json from what they print.

Run ``make bench``, or ``python benchmarks/summary.py``, where torch is installed, on a machine that
does nothing else; it takes about a quarter of an hour. The page has a section for each program:
what it measures, its command, a plot and the tables. The other file has what each program printed,
and the same tables as JSON; ``figures.py`` makes the figures of the first page and the plots from
it. ``report.py`` writes the page of single operators, which takes hours. ``--only`` runs some
programs again and keeps the rest, ``--page`` only writes the page from the recorded results.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from figures import RESULTS, image_name
from measure import machine
from tables import Table, markdown, parts_of, rows_of

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
#: Program and arguments, in the order of the page.
PROGRAMS = (
    ("bench_sends.py",),
    ("bench_queue.py",),
    ("bench_adopt.py",),
    ("bench_peers.py",),
    ("bench_messages.py",),
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
    ("bench_import.py",),
    ("bench_growth.py",),
)
_INTRODUCTION = """# Benchmarks

How fast is shmtensor, compared with torch and with other packages that do the same? Times are
microseconds, with three digits. Ratios are shmtensor's time divided by the other side's: below 1,
shmtensor is faster.

Samples of both sides alternate in one run. A time is a median, and in the plots a thick line runs
from its lower to its upper quartile. `make bench` runs every program below once, and writes this
page, the plots and `results.json`, which has all figures in nanoseconds. Install torch first
(`pip install torch==2.13.0`). bench_peers and bench_messages measure those of
`ray SharedArray faster-fifo lmdb pyzmq iceoryx2` that you have installed.

Looking for a single operator? [operators.md](operators.md) has them one by one (`report.py` writes
it). Other programs print their tables: `bench_dtypes.py` (every operator in every dtype),
`bench_shapes.py` (narrow, flat and deep shapes), `bench_peak.py` (the most memory that a call
takes), `bench_steps.py` (the parts of a Hogwild step).
"""


def _purpose(program: str) -> str:
    """The first sentence of the program's docstring."""
    doc = ast.get_docstring(ast.parse((HERE / program).read_text())) or ""
    return " ".join(doc.split("\n\n")[0].split())


def _section(command: tuple[str, ...], found: dict[str, Any], usual: dict[str, str]) -> str:
    title, output = " ".join(command), found["output"]
    has_tables = any(isinstance(part, Table) for part in parts_of(output))
    image = f"![{title}: times of both sides](../docs/images/{image_name(title)})\n\n"
    here = found["machine"]
    where = "" if here == usual else f" Measured on {here['cpu']}, commit {here['commit']}."
    return (
        f"\n## {title}\n\n{_purpose(command[0])}\n\n"
        f"`python benchmarks/{title}` takes {found['seconds']:.0f} s.{where}\n\n"
        f"{image if has_tables else ''}{markdown(output)}\n"
    )


def _run(command: tuple[str, ...]) -> dict[str, Any]:
    """Run a program; returns what it printed, its tables and how long it took."""
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
    seconds = time.monotonic() - start
    print(" ".join(command), f"{seconds:.0f} s", flush=True)
    return {
        "machine": machine(),
        "seconds": seconds,
        "output": done.stdout,
        "results": rows_of(done.stdout),
    }


def page(results: dict[str, Any]) -> str:
    """Return the page of recorded results."""
    programs = results["programs"]
    machines = [found["machine"] for found in programs.values()]
    usual = max(machines, key=machines.count)
    facts = "".join(f"- {name}: {value}\n" for name, value in usual.items())
    text = f"{_INTRODUCTION}\nMeasured on, where a section does not say another:\n\n{facts}"
    for command in PROGRAMS:
        found = programs.get(" ".join(command))
        if found is not None:
            text += _section(command, found, usual)
    return text


def main() -> None:
    """Run the programs, then write the page and the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="programs such as bench_call.py; default: all")
    parser.add_argument("--page", action="store_true", help="run nothing; write the page")
    options = parser.parse_args()
    only = options.only
    if options.page:
        PAGE.write_text(page(json.loads(RESULTS.read_text())))
        return
    programs: dict[str, Any] = {}
    if only:
        programs = json.loads(RESULTS.read_text())["programs"]
    torch = version("torch").partition("+")[0].removesuffix(".0")
    results = {"torch": torch, "programs": programs}
    for command in PROGRAMS:
        if not only or command[0] in only:
            programs[" ".join(command)] = _run(command)
            # After each one: a program that fails loses nothing of the others.
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
