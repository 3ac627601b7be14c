"""Run all programs of examples/ with --quick --check, and say what each reached.

A program passes when it reaches the quality that its help states, within five minutes, and leaves
no session behind. One that needs a package that is not installed is skipped. The files of each run
are in build/examples/<program>.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tree import ROOT

from shmtensor import inspect

FOLDER = ROOT / "build" / "examples"
LONGEST_S = 300.0
#: A session ends soon after its last process.
_SESSION_ENDS_S = 10.0


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


def _sessions() -> set[str]:
    return {str(session.address) for session in inspect.open_sessions()}


def _leaves_nothing(before: set[str]) -> bool:
    deadline = time.monotonic() + _SESSION_ENDS_S
    while _sessions() - before:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def run(program: Path) -> Outcome:
    """Run one program, with its output in a file."""
    folder = FOLDER / program.stem
    folder.mkdir(parents=True, exist_ok=True)
    before = _sessions()
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
    if not _leaves_nothing(before):
        return Outcome(program.stem, "left a session", seconds, "; ".join(_sessions() - before))
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
