"""A service that this process joins, for the commands that take part in one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))

import service_programs as _programs

from shmtensor.service import Service


@pytest.fixture(scope="session")
def _joined() -> Iterator[Service]:
    with _programs.joined() as service:
        yield service


@pytest.fixture
def service(_joined: Service) -> Iterator[Service]:
    """A service that this process has joined; it has no names."""
    yield _joined
    _programs.forget_names(_joined)
