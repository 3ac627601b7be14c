"""The ring below the queues: its limits, its order with many threads, and damage.

Not covered: kills (test_crash), the queues above (tests/multiprocessing).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import ring_cases


def _run(case: str, native_directory: Path) -> None:
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


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, native_directory: Path
) -> Iterator[dict[str, Future[None]]]:
    """The runs of all cases that are asked for; some wait for their managers for a long time."""
    items = [item for item in request.session.items if item.path == request.path]
    cases = [item.callspec.params["case"] for item in items]
    with ThreadPoolExecutor(4) as pool:
        yield {case: pool.submit(_run, case, native_directory) for case in cases}


@pytest.mark.check
@pytest.mark.parametrize("case", ring_cases.CASES)
def test_ring(case: str, runs: dict[str, Future[None]]) -> None:
    runs[case].result()
