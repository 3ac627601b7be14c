"""Sessions of their own for the tests here, and what each of them must leave: nothing."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from mp_scripts import Script


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> Iterator[None]:
    # Joined first: a session keeps three descriptors, whatever happens in it.
    from shmtensor._boundary import sharing

    sharing.join()
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    left = set(os.listdir("/proc/self/fd")) - before
    # The resource tracker and the fork server of the standard library stay, with their pipes.
    assert len(left) <= 4, [os.readlink(f"/proc/self/fd/{n}") for n in left]


@pytest.fixture
def scripts() -> Iterator[type[Script]]:
    made: list[Script] = []

    class Made(Script):
        def __init__(self, text: str, *arguments: str, session: str | None = None) -> None:
            super().__init__(text, *arguments, session=session)
            made.append(self)

    yield Made
    for script in made:
        script.process.kill()
        script.process.communicate()
