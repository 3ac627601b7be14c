"""Sessions of their own for the tests here, and what each of them must leave: nothing."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mp_scripts import Script, starting_scripts


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    # Joined first: a session keeps three descriptors, whatever happens in it.
    from shmtensor._boundary import sharing

    sharing.join()
    gc.collect()
    before = _descriptors()
    yield
    gc.collect()
    left = {n: to for n, to in _descriptors().items() if n not in before}
    # The resource tracker and the fork server of the standard library stay, with their pipes.
    assert len(left) <= 4, left


def _descriptors() -> dict[str, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one this listing used
            found[number] = os.readlink(f"/proc/self/fd/{number}")
    return found


@pytest.fixture
def children() -> Iterator[list[Any]]:
    """A list for processes; those in it are killed at the end of the test."""
    made: list[Any] = []
    yield made
    for child in made:
        child.kill()
        child.join()
        child.close()


@pytest.fixture
def start_child(children: list[Any]) -> Callable[..., Any]:
    """``start_child(target, *arguments)``: a forked process, which is killed at the end."""

    import shmtensor.multiprocessing as mp

    def start(target: Callable[..., Any], *arguments: Any) -> Any:
        child = mp.get_context("fork").Process(target=target, args=arguments)
        children.append(child)
        child.start()
        return child

    return start


@pytest.fixture
def scripts() -> Iterator[Callable[..., Script]]:
    with starting_scripts() as start:
        yield start
