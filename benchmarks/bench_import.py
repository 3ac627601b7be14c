"""What does starting cost? The import after NumPy compared with torch's, and the manager's memory.

Run ``python benchmarks/bench_import.py`` where torch is installed. Each sample is a fresh
interpreter that imports numpy first and then measures one import; samples of both sides alternate.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

_IMPORT = (
    "import numpy, time; start = time.process_time(); import {name}; "
    "print(time.process_time() - start)"
)
# Prints the resident kB of the manager that serves this very session.
_SHARE = """
import os, pathlib, shmtensor
tensors = [shmtensor.zeros(1024).share_memory_() for _ in range(100)]
session = os.environ["SHMTENSOR_MANAGER"].rpartition("-")[2].lstrip("0")
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        command = (process / "cmdline").read_text()
        status = (process / "status").read_text()
    except OSError:
        continue
    if "shmtensor-manager" in command and session in command:
        (line,) = [row for row in status.splitlines() if row.startswith("VmRSS")]
        print(line.split()[1])
"""


def _run(code: str) -> float:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    """Print both import times, their ratio, and the manager's resident memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=7)
    args = parser.parse_args()
    times: dict[str, list[float]] = {"shmtensor": [], "torch": []}
    for _ in range(args.samples):
        for name, taken in times.items():
            taken.append(_run(_IMPORT.format(name=name)))
    ours, theirs = (statistics.median(taken) for taken in times.values())
    print(f"import after numpy, CPU ms: shmtensor {ours * 1e3:.0f}, torch {theirs * 1e3:.0f}")
    print(f"ratio: {ours / theirs:.3f}")
    print(f"resident memory of the manager with 100 shared tensors: {_run(_SHARE):.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
