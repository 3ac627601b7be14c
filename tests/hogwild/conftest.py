"""Tests of Hogwild runs leave no process and no shared memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Scripts and spawned workers import the modules beside this, and a tool of another folder.
sys.path.insert(0, str(Path(__file__).parents[1] / "multiprocessing"))
sys.path.insert(0, str(Path(__file__).parent))

from mp_scripts import Script


@pytest.fixture
def scripts() -> Iterator[type[Script]]:
    made: list[Script] = []

    class Made(Script):
        def __init__(self, text: str, *arguments: str) -> None:
            here = str(Path(__file__).parent)
            super().__init__(f"import sys\nsys.path.insert(0, {here!r})\n{text}", *arguments)
            made.append(self)

    yield Made
    for script in made:
        script.kill()
