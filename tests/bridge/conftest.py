"""Two services that this process has joined, and programs that are always reaped."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))
sys.path.insert(0, str(Path(__file__).parent))

import bridge_machines
import service_programs

from shmtensor.bridge import Bridge
from shmtensor.service import Service


@pytest.fixture(scope="session")
def _joined() -> Iterator[tuple[Service, Service]]:
    # Of the whole run, so that its descriptors and maps are there before the first test module.
    with service_programs.serving() as (here, _), service_programs.serving() as (there, _):
        services = Service(here), Service(there)
        for service in services:
            service.publish("start", service.empty(1))
            service.attach("start", "ro")
            service.unpublish("start")
        with contextlib.suppress(ModuleNotFoundError):
            # The threads of Zenoh, with their descriptors, stay for the life of the process.
            address = bridge_machines.free_address()
            first = Bridge(services[0], listen=address)
            second = Bridge(services[1], connect=address)
            with bridge_machines.linked(first, second):
                pass
        yield services


@pytest.fixture(autouse=True, scope="session")
def _joined_first(_joined: tuple[Service, Service]) -> None:
    pass


@pytest.fixture
def services(_joined: tuple[Service, Service]) -> Iterator[tuple[Service, Service]]:
    """Two services without names."""
    yield _joined
    for service in _joined:
        for name in service.list():
            with contextlib.suppress(KeyError):  # its publisher has just ended
                service.unpublish(name)


@pytest.fixture
def run() -> Iterator[type[service_programs.Program]]:
    """Make a `Program` that does not outlive the test."""
    made: list[service_programs.Program] = []

    class Made(service_programs.Program):
        def __init__(self, text: str, *arguments: str, **kwargs: object) -> None:
            super().__init__(text, *arguments, **kwargs)
            made.append(self)

    yield Made
    for program in made:
        program.kill()
