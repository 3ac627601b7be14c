"""Run all programs of examples/ with --quick --check, and say what each reached.

A program passes when it reaches the quality that its help states, within five minutes, and leaves
no process behind. One that needs a package that is not installed is skipped. The files of each run
are in build/examples/<program>.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from tree import ROOT

FOLDER = ROOT / "build" / "examples"
LONGEST_S = 300.0
#: A manager of shared memory ends soon after its last client.
_MANAGER_ENDS_S = 10.0
_MARK = "SHMTENSOR_EXAMPLE"


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    name: str
    how: str
    seconds: float
    text: str

    @property
    def is_failure(self) -> bool:
        """Whether something was wrong."""
        return self.how not in ("ok", "skipped")


def _marked(mark: str) -> list[int]:
    """Processes with the mark in their environment, managers of shared memory among them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # of another user, or gone
            if f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def _left_by(mark: str) -> list[int]:
    """Processes of the program that do not end by themselves."""
    deadline = time.monotonic() + _MANAGER_ENDS_S
    while (left := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def run(program: Path) -> Outcome:
    """Run one program, with its output in a file."""
    folder = FOLDER / program.stem
    folder.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex
    began = time.monotonic()
    options = ["--quick", "--check", "--plain", "--out", str(folder)]
    output = folder / "output.txt"
    with output.open("w") as file:
        try:
            status = subprocess.run(
                [sys.executable, str(program), *options],
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=LONGEST_S,
                check=False,
                env={**os.environ, _MARK: mark},
            ).returncode
        except subprocess.TimeoutExpired:
            return Outcome(program.stem, "too long", LONGEST_S, f"see {output}")
    seconds = time.monotonic() - began
    text = output.read_text()
    if status == 2 and "not installed" in text:
        return Outcome(program.stem, "skipped", seconds, text.strip().splitlines()[-1])
    if status != 0:
        last = (text.strip().splitlines() or [""])[-1]
        return Outcome(program.stem, f"status {status}", seconds, f"{last}; see {output}")
    if left := _left_by(mark):
        return Outcome(program.stem, "left some", seconds, f"processes {left} have not ended")
    reached = re.findall(r"^reached: (.*)$", text, re.M)
    return Outcome(program.stem, "ok", seconds, ", ".join(reached))


def main() -> int:
    """Run those that are named, or all; returns the exit status."""
    programs = sorted((ROOT / "examples").glob("*.py"))
    if len(sys.argv) > 1:
        programs = [program for program in programs if program.stem in sys.argv[1:]]
    outcomes = []
    for program in programs:
        outcome = run(program)
        outcomes.append(outcome)
        print(
            f"{outcome.name:20} {outcome.how:10} {outcome.seconds:6.1f} s  {outcome.text}",
            flush=True,
        )
    failed = [outcome.name for outcome in outcomes if outcome.is_failure]
    total = sum(outcome.seconds for outcome in outcomes)
    print(f"{len(outcomes)} programs in {total:.0f} s; failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
