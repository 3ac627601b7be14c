"""Tests of Hogwild runs leave no process and no shared memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Scripts and spawned workers import the modules beside this, and a tool of another folder.
sys.path.insert(0, str(Path(__file__).parents[1] / "multiprocessing"))
sys.path.insert(0, str(Path(__file__).parent))

from mp_scripts import Script, starting_scripts


@pytest.fixture
def scripts() -> Iterator[Callable[..., Script]]:
    with starting_scripts(Path(__file__).parent) as start:
        yield start
