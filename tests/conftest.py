"""What every test module is held to: nothing stays open, mapped or alive behind it.

Before and after each module the garbage collector runs; then the process must have no more blocks
of tensor memory, descriptors and mappings of shared segments than before. The session with the
manager is joined first: its own descriptors and mappings stay for the life of the process.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# A shell starts what is to run in the background with SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The resource tracker and the fork server of the standard library keep a few pipes once started.
_HELPER_DESCRIPTORS = 6


def pytest_collection_finish() -> None:
    """Spare the garbage collector the collected tests: it runs before and after every module."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class HeldResources:
    """What this process holds at one moment."""

    blocks: int
    descriptors: dict[str, str]
    shared_mappings: int

    @classmethod
    def now(cls) -> HeldResources:
        """Collect garbage, then count."""
        from shmtensor import memory

        gc.collect()
        gc.collect()
        stats = memory.memory_stats()
        return cls(
            blocks=stats["n_allocations"] - stats["n_frees"],
            descriptors=_descriptors(),
            shared_mappings=_n_shared_mappings(),
        )


def _n_shared_mappings() -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    # The arena's second mapping stays once a lent tensor has come.
    return sum(
        "memfd:" in line and not (" r--s " in line and "shmtensor-arena" in line) for line in lines
    )


def _descriptors() -> dict[str, str]:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # the one this listing used
            continue
    return found


@pytest.fixture(autouse=True, scope="module")
def _module_leaves_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    from shmtensor._boundary import sharing

    sharing.join()
    before = HeldResources.now()
    # Tests collect garbage hundreds of times; what was there before is not walked each time.
    gc.freeze()
    failed_before = request.session.testsfailed
    yield
    if request.session.testsfailed > failed_before:
        return  # a failure's traceback keeps its tensors
    after = HeldResources.now()
    deadline = time.monotonic() + 10
    while after.shared_mappings > before.shared_mappings and time.monotonic() < deadline:
        time.sleep(0.1)  # cached files are unmapped after a second
        after = HeldResources.now()
    new = {n: to for n, to in after.descriptors.items() if n not in before.descriptors}
    assert after.blocks <= before.blocks, f"{after.blocks - before.blocks} tensor blocks leaked"
    assert len(new) <= _HELPER_DESCRIPTORS, f"descriptors left open: {new}"
    assert after.shared_mappings <= before.shared_mappings, "shared memory left mapped"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """``job(n, script)`` runs a script as MPI ranks (mpi_ranks.Ranks); none outlives the test."""
    from mpi_ranks import Ranks

    with contextlib.ExitStack() as made:

        def start(n: int, script: str, folder: Path = tmp_path, **options: Any) -> Ranks:
            return made.enter_context(contextlib.closing(Ranks(n, script, folder, **options)))

        yield start


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of threads that operators are shared out to; more than one as few cores have."""
    import shmtensor

    before = shmtensor.get_num_threads()
    shmtensor.set_num_threads(request.param)
    yield request.param
    shmtensor.set_num_threads(before)
