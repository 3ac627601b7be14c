"""The programs whose types ``make types`` checks do run, and are checked here where mypy is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = [HERE / "calls.py", *sorted(HERE.glob("programs/[!w]*.py"))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program_that_mypy_accepts_runs(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("typing_extensions")
    run = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.check
def test_programs_have_the_types_that_they_say() -> None:
    pytest.importorskip("mypy")
    run = subprocess.run(
        [sys.executable, "tools/check_typing.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
