"""The program whose types ``make types`` checks does run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_calls_that_mypy_accepts_run(tmp_path: Path) -> None:
    program = Path(__file__).with_name("calls.py")
    run = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
