"""Fixtures that start programs of examples/ and end them, whatever a test finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import Run


@pytest.fixture
def started() -> Iterator[list[Run]]:
    """The programs that a test has started, which adds them."""
    runs: list[Run] = []
    yield runs
    for run in runs:
        run.close()


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path, started: list[Run]) -> Callable[..., Run]:
    """Starts the PROGRAM of the test's module, with a folder for its results."""

    def start(*arguments: str, folder: str = "--out") -> Run:
        started.append(
            Run(request.module.PROGRAM.name, tmp_path / "run", *arguments, folder=folder)
        )
        return started[-1]

    return start
