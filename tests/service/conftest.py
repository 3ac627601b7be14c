"""One service that this process joins, and programs that are always reaped."""

from __future__ import annotations

import contextlib
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
    with _programs.serving() as (name, _):
        service = Service(name)
        service.publish("start", service.empty(1))
        service.attach("start", "ro")
        service.unpublish("start")
        yield service


@pytest.fixture(autouse=True, scope="session")
def _joined_first(_joined: Service) -> None:
    pass


@pytest.fixture
def service(_joined: Service) -> Iterator[Service]:
    """A service that this process has joined; it has no names."""
    yield _joined
    for name in _joined.list():
        with contextlib.suppress(KeyError):  # its publisher has just ended
            _joined.unpublish(name)


@pytest.fixture
def run() -> Iterator[type[_programs.Program]]:
    """Make a `Program` that does not outlive the test."""
    made: list[_programs.Program] = []

    class Made(_programs.Program):
        def __init__(self, text: str, *arguments: str, **kwargs: object) -> None:
            super().__init__(text, *arguments, **kwargs)
            made.append(self)

    yield Made
    for program in made:
        program.kill()
