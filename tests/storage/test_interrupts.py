"""Exceptions from signal handlers where Python gets what C has made: nothing stays held.

Not covered: queues and pipes (multiprocessing/test_queue_interrupts), services
(service/test_interrupts).
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest
from interrupts import at_random, everywhere

import shmtensor as T
import shmtensor.multiprocessing as mp
from shmtensor import _C, inspect
from shmtensor._boundary import storage as boundary
from shmtensor._boundary.group import GroupMemory, create
from shmtensor.errors import HandleError
from shmtensor.multiprocessing.queues import SimpleQueue

N_BYTES = 65_432  # no other test's blocks have this size


class Work(Protocol):
    """What is interrupted, by `call` alone."""

    def call(self) -> object:
        """Do it once."""

    def renew(self) -> None:
        """Prepare the next call."""

    def end(self) -> None:
        """Let go of everything."""


class _OnAStorage:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.storage = T.zeros(N_BYTES, dtype=T.uint8, shared=True).untyped_storage()

    def end(self) -> None:
        del self.storage


class _TensorOver(_OnAStorage):
    def call(self) -> object:
        return boundary.tensor_over(self.storage._ref, [N_BYTES], None, 0, T.uint8._code)


class _WeakReference(_OnAStorage):
    def call(self) -> object:
        return boundary.WeakStorageRef(self.storage._ref).lock()


class _View(_OnAStorage):
    def call(self) -> object:
        return self.storage._view()


class _ReceivedAlone(_OnAStorage):
    """A storage that comes as the bytes of its handle."""

    packed: Any = None

    def call(self) -> object:
        return T.UntypedStorage._received(self.packed)

    def renew(self) -> None:
        super().renew()
        self._open()
        self.packed = _C._pack_shared_storage(self.storage._cdata)

    def end(self) -> None:
        self._open()
        super().end()

    def _open(self) -> None:
        if self.packed is not None:
            with contextlib.suppress(HandleError):  # it was opened
                T.UntypedStorage._received(self.packed)


class _ReceivedInAMessage:
    def __init__(self) -> None:
        self.queue = SimpleQueue(ctx=mp.get_context("fork"))
        self.renew()

    def call(self) -> object:
        return self.queue.get()

    def renew(self) -> None:
        self._take_all()
        self.queue.put(T.zeros(N_BYTES, dtype=T.uint8, shared=True).untyped_storage())

    def end(self) -> None:
        self._take_all()
        del self.queue

    def _take_all(self) -> None:
        while not self.queue.empty():
            self.queue.get()


def _n_blocks() -> int:
    gc.collect()
    with inspect.current() as session:
        session.trim()  # sweeps
        return sum(block.nbytes == N_BYTES for block in session.blocks())


@pytest.mark.check
@pytest.mark.parametrize(
    "kind", [_TensorOver, _WeakReference, _View, _ReceivedAlone, _ReceivedInAMessage]
)
def test_no_shared_memory_stays_held(kind: Callable[[], Work]) -> None:
    work = kind()
    assert _n_blocks() == 1
    n = sum(point.came_out for point in everywhere(work.call, undo=work.renew))
    for came_out in at_random(work.call, 3000, seed=1, longest_s=30e-6):
        n += came_out
        work.renew()
    work.end()
    assert n > 0
    assert _n_blocks() == 0


def test_interrupted_view_leaves_no_pin() -> None:
    storage = T.UntypedStorage(N_BYTES)
    for n, point in enumerate(everywhere(lambda: storage._view())):
        gc.collect()
        storage.resize_(N_BYTES + n % 2)  # raises while a view is there
        assert point


def _n_descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def _inspect() -> None:
    with inspect.current():
        pass


@contextlib.contextmanager
def _group() -> Iterator[int]:
    fd = create(1, 4096)
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.check
def test_interrupted_inspector_leaves_no_descriptor() -> None:
    T.zeros(1, shared=True)
    _inspect()
    before = _n_descriptors()
    for point in everywhere(_inspect):
        assert _n_descriptors() == before, point


def test_interrupted_opening_of_a_group_takes_no_rank() -> None:
    with _group() as fd:
        GroupMemory(fd, 0, 1).close()
        before = _n_descriptors()
        for point in everywhere(lambda: GroupMemory(fd, 0, 1)):
            assert _n_descriptors() == before, point
            GroupMemory(fd, 0, 1).close()  # raises while the rank is taken


def test_signals_at_the_opening_of_a_group_take_no_rank() -> None:
    with _group() as fd:
        before = _n_descriptors()
        for _ in at_random(lambda: GroupMemory(fd, 0, 1).close(), 2000, seed=2, longest_s=60e-6):
            GroupMemory(fd, 0, 1).close()
        assert _n_descriptors() == before
