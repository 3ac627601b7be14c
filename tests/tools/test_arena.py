"""Placement of shared memory, in processes of their own: a placement divides the arena's map.

Whether this machine has huge pages or several nodes is not assumed.
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as T
from shmtensor import shm
from shmtensor._boundary import sharing
from shmtensor.inspect import Session


def _in_a_child(test: Callable[[], None]) -> Callable[[], None]:
    """Run a test in a forked process."""

    def run() -> None:
        warnings.simplefilter("ignore")  # about what is missing; tested by itself
        test()

    @functools.wraps(test)
    def parent() -> None:
        sharing.join()
        process = multiprocessing.get_context("fork").Process(target=run)
        process.start()
        try:
            process.join(60)
            assert process.exitcode == 0  # the child's traceback is on standard error
        finally:
            process.kill()
            process.join()
            process.close()

    return parent


def _slabs_of(n: int) -> set[int]:
    with Session(os.environ["SHMTENSOR_MANAGER"].removeprefix("@")) as session:
        return {b.slab for b in session.blocks() if b.nbytes == n}


@pytest.mark.check
@_in_a_child
def test_placed_memory_lies_in_slabs_of_its_own() -> None:
    number = sharing.open_placement(True, 0, 0)
    outside = T.full((901,), 1, dtype=T.uint8, shared=True)
    before = sharing.use_placement(number)
    try:
        inside = T.full((902,), 2, dtype=T.uint8, shared=True)
        moved = T.full((903,), 3, dtype=T.uint8).share_memory_()
    finally:
        assert sharing.use_placement(before) == number
    again = T.full((904,), 4, dtype=T.uint8, shared=True)
    assert _slabs_of(901) & _slabs_of(904)
    assert not _slabs_of(901) & _slabs_of(902)
    assert _slabs_of(902) == _slabs_of(903)
    assert [int(t[-1]) for t in (outside, inside, moved, again)] == [1, 2, 3, 4]


@_in_a_child
def test_block_goes_back_to_its_placement() -> None:
    placed = sharing.open_placement(True, 0, 0)
    before = sharing.use_placement(placed)
    try:
        first = T.zeros(5000, dtype=T.uint8, shared=True)
        address = first.data_ptr()
        del first
        gc.collect()
        sharing.use_placement(before)
        other = T.zeros(5000, dtype=T.uint8, shared=True)
        sharing.use_placement(placed)
        assert other.data_ptr() != address
        again = T.zeros(5000, dtype=T.uint8, shared=True)
        large = T.ones(3 << 20, dtype=T.uint8, shared=True)
        assert int(large.sum()) == 3 << 20
        del again, large
    finally:
        sharing.use_placement(before)


@_in_a_child
def test_equal_placements_are_one() -> None:
    assert sharing.open_placement(True, 0, 0) == sharing.open_placement(True, 0, 0)


@_in_a_child
def test_block_ends_where_it_ends_and_for_this_thread_only() -> None:
    seen = []
    with shm.arena(huge_pages=True) as outer:
        with shm.arena() as inner, inner:
            assert sharing.use_placement(0) == 0
        thread = threading.Thread(target=lambda: seen.append(sharing.use_placement(0)))
        thread.start()
        thread.join()
        assert sharing.use_placement(outer._number) == outer._number
    assert seen == [0]
    assert sharing.use_placement(0) == 0


@pytest.mark.check
@_in_a_child
def test_placement_on_the_first_node_works_or_says_why() -> None:
    with shm.arena(node=0) as placed:
        t = T.ones(1 << 20, shared=True)
    report = placed.report()
    assert int(t.sum()) == 1 << 20
    assert report["nodes"] == (0,) or "NUMA" in str(report["missing"])


def test_what_is_missing_is_said() -> None:
    with pytest.warns(UserWarning, match="no placement on NUMA node 63: .*; placed without"):
        placed = shm.arena(node=63)
    assert placed.nodes == ()
    with placed:
        assert T.ones(3, shared=True).is_shared()
    with pytest.raises(RuntimeError, match="no placement on NUMA node 63"):
        shm.arena(node=63, strict=True)


def test_missing_huge_pages_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    setting = tmp_path / "shmem_enabled"
    setting.write_text("always within_size advise [never] deny force\n")
    monkeypatch.setattr(shm, "_SHMEM", setting)
    with pytest.warns(UserWarning, match="no huge pages for shared memory: .* says 'never'"):
        placed = shm.arena(huge_pages=True)
    assert placed.report()["huge_pages"] is False
    setting.write_text("always within_size [advise] never deny force\n")
    assert shm.arena(huge_pages=True).report()["huge_pages"] is True


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"node": -1}, "a NUMA node is a number below 64, got -1"),
        ({"node": 64}, "got 64"),
        ({"node": 1.5}, "got 1.5"),
        ({"node": [0, "1"]}, "got '1'"),
        ({"node": 0, "mode": "near"}, "mode must be bind, preferred or interleave, got 'near'"),
        ({"node": [0, 1], "mode": "preferred"}, "takes one node, got 2"),
    ],
)
def test_placement_that_cannot_be_is_an_error(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        shm.arena(**arguments)


# --- several threads, several numbers ---


@pytest.mark.check
@_in_a_child
def test_threads_in_blocks_of_one_placement_leave_to_where_they_were() -> None:
    placed, seen = shm.arena(huge_pages=True), []
    inner = shm.arena()
    turns = threading.Barrier(2)

    def other() -> None:
        with inner:
            turns.wait()
            turns.wait()
        seen.append(sharing.use_placement(0))

    thread = threading.Thread(target=other)
    with placed:
        with inner:
            thread.start()
            turns.wait()
        assert sharing.use_placement(placed._number) == placed._number
        turns.wait()
        thread.join()
    assert seen == [0]


@_in_a_child
def test_nodes_may_be_repeated_and_numbers_of_any_library() -> None:
    first = shm.arena(node=0).report()
    for same in ([0, 0], np.int64(0), np.zeros(2, dtype=np.int32), iter((0, 0, 0))):
        assert shm.arena(node=same).report() == first  # type: ignore[arg-type]


def test_placement_does_not_leave_its_process() -> None:
    with pytest.raises(TypeError, match="an Arena is of its process"):
        pickle.dumps(shm.arena())
