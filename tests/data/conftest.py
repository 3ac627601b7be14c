"""What the tests of loaders are held to: no process, no descriptor, no shared block stays."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Scripts and spawned workers import the modules beside this, and a tool of another folder.
sys.path.insert(0, str(Path(__file__).parents[1] / "multiprocessing"))
sys.path.insert(0, str(Path(__file__).parent))

from mp_scripts import Script, starting_scripts
from session_figures import used_bytes, wait_until_used_bytes

_HELPERS = (b"resource_tracker", b"forkserver", b"manager")


def _children() -> set[int]:
    """Processes that this one has started, but for helpers that stay until it ends."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        for pid in map(int, (_read(f"/proc/self/task/{task}/children") or b"").split()):
            command = _read(f"/proc/{pid}/cmdline")
            if command is not None and not any(name in command for name in _HELPERS):
                found.add(pid)
    return found


def _read(path: str) -> bytes | None:
    """What a file of a thread or process says; None if that is gone."""
    try:
        return Path(path).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """Check that a test leaves nothing; for those that start processes."""
    used = used_bytes()
    gc.collect()
    children, n_descriptors = _children(), len(_descriptors())
    yield
    gc.collect()
    assert _children() <= children
    # The resource tracker and the fork server of the standard library stay, with their pipes.
    assert len(_descriptors()) <= n_descriptors + 6
    wait_until_used_bytes(used)


@pytest.fixture
def scripts() -> Iterator[Callable[..., Script]]:
    with starting_scripts(Path(__file__).parent) as start:
        yield start
