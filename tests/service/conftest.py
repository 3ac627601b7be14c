"""One service that this process joins, and programs that are always reaped."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import service_programs as _programs

from shmtensor.service import Service


@pytest.fixture(scope="session")
def _joined() -> Iterator[Service]:
    # Of the whole run, so that its descriptors and maps are there before the first test module.
    with _programs.joined() as service:
        yield service


@pytest.fixture(autouse=True, scope="session")
def _joined_first(_joined: Service) -> None:
    pass


@pytest.fixture
def service(_joined: Service) -> Iterator[Service]:
    """A service that this process has joined; it has no names."""
    yield _joined
    _programs.forget_names(_joined)


@pytest.fixture
def run() -> Iterator[type[_programs.Program]]:
    """Make a `Program` that does not outlive the test."""
    with _programs.reaped() as made:
        yield made
