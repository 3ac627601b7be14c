"""Whether programs that people write pass ``mypy --strict``, and wrong ones do not.

The programs are in tests/typing. A line of ``wrong.py`` that ends in ``# error: kind`` must be
refused for that reason, and no other line may be. ``make types`` runs this.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "typing" / "programs"
WRONG = PROGRAMS / "wrong.py"
_MARK = re.compile(r"# error: ([a-z-]+)$")
_FINDING = re.compile(r"(.+?):(\d+): error: (.*)\[([a-z-]+)\]$")


def expected() -> set[tuple[int, str]]:
    """The lines of ``wrong.py`` that must be refused, with the kinds of their errors."""
    lines = WRONG.read_text(encoding="utf-8").splitlines()
    found = ((i, _MARK.search(line)) for i, line in enumerate(lines, 1))
    return {(i, mark[1]) for i, mark in found if mark is not None}


def main(paths: list[str]) -> int:
    """Check the programs, and further *paths*; returns 1 when something is not as it should be."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        # As in pyproject.toml; on the command line, --strict stands above that.
        "--no-warn-unused-ignores",
        "--no-error-summary",
        "--hide-error-context",
    ]
    command += [str(PROGRAMS.relative_to(ROOT)), "tests/typing/calls.py", *paths]
    environment = {**os.environ, "MYPYPATH": str(PROGRAMS)}
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    refused: set[tuple[int, str]] = set()
    problems: list[str] = [run.stderr] if run.stderr else []
    for line in run.stdout.splitlines():
        finding = _FINDING.match(line)
        if finding is None:
            continue
        if (ROOT / finding[1]).resolve() == WRONG:
            refused.add((int(finding[2]), finding[4]))
        else:
            problems.append(line)
    wanted = expected()
    problems += [
        f"{WRONG.name}:{i}: passes, or for another reason: {k}" for i, k in wanted - refused
    ]
    problems += [f"{WRONG.name}:{i}: is refused, unexpectedly: {k}" for i, k in refused - wanted]
    print("\n".join(sorted(problems)), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
