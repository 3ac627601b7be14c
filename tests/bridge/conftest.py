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
    with service_programs.joined() as here, service_programs.joined() as there:
        services = here, there
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
        service_programs.forget_names(service)


@pytest.fixture
def run() -> Iterator[type[service_programs.Program]]:
    """Make a `Program` that does not outlive the test."""
    with service_programs.reaped() as made:
        yield made
