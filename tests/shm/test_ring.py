"""The ring below the queues: its limits, its order with many threads, and damage.

Not covered: kills (test_crash), the queues above (tests/multiprocessing).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ring_cases


@pytest.mark.check
@pytest.mark.parametrize("case", ring_cases.CASES)
def test_ring(case: str, native_directory: Path) -> None:
    number = list(ring_cases.CASES).index(case)
    session = (os.getpid() << 42) | 1 << 41 | number
    program = Path(ring_cases.__file__)
    result = subprocess.run(
        [sys.executable, program, str(native_directory), str(session), case],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
