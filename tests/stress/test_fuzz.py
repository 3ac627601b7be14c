"""The fuzz targets of tests/fuzz, for half a minute.

``make fuzz-wire SECONDS=600`` and ``make fuzz-control SECONDS=600`` run longer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang")
def test_fuzzing_finds_nothing() -> None:
    command = [sys.executable, ROOT / "tools" / "fuzz.py", "--seconds", "30"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]


@pytest.mark.skipif(shutil.which("clang") is None, reason="no clang")
def test_a_member_that_writes_over_tables_ends_nobody() -> None:
    command = [sys.executable, ROOT / "tools" / "fuzz.py", "--control", "4000"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-8000:]
