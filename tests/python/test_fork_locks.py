"""Locks between threads, in children that are forked while other threads hold them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor._fork_locks import free_in_child, module_lock
from shmtensor.autograd import profiler
from shmtensor.distributed import _tcp_store
from shmtensor.distributed._work import Lane, Work

LIMIT_S = 60


def child_status(call: Callable[[], object]) -> int:
    """Fork a child that does *call*, which is ended when it hangs; return how it ended."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        try:
            call()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1]


class Held:
    """A lock that another thread holds until the end of the block."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._end = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self._lock:
            self._begun.set()
            self._end.wait(LIMIT_S)

    def __enter__(self) -> Held:
        self._thread.start()
        assert self._begun.wait(LIMIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@pytest.mark.check
@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock, threading.Condition])
def test_a_lock_of_an_object_is_free_in_a_child(kind: Callable[[], Any]) -> None:
    lock = free_in_child(kind())

    def take() -> None:
        assert lock.acquire(timeout=LIMIT_S)
        lock.release()

    with Held(lock):
        assert child_status(take) == 0
        assert not lock.acquire(blocking=False)  # the parent's thread still has it
    assert child_status(take) == 0


def test_a_fork_waits_for_the_lock_of_a_module() -> None:
    lock = module_lock()
    state = [0, 0]
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            with lock:
                state[0] += 1
                sum(range(100))
                state[1] += 1

    def look() -> None:
        with lock:
            assert state[0] == state[1]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert [child_status(look) for _ in range(30)] == [0] * 30
    finally:
        stop.set()
        thread.join()
    with lock:
        assert child_status(look) == 0  # the thread that has it may fork


@pytest.mark.check
@pytest.mark.parametrize(
    "make",
    [
        lambda: (st.futures.Future(), "_changed", lambda f: f.set_result(1)),
        lambda: (Work(), "_lock", lambda w: w._finish()),
        lambda: (Lane(), "_condition", lambda lane: lane.run(lambda: 1)),
    ],
    ids=["future", "work", "lane"],
)
def test_objects_work_in_a_child(make: Callable[[], tuple[Any, str, Any]]) -> None:
    made, name, use = make()
    with Held(getattr(made, name)):
        assert child_status(lambda: use(made)) == 0
    use(made)


def test_the_package_makes_its_locks_so() -> None:
    for lock in (profiler._Recording._lock, _tcp_store._servers_lock):
        with lock, lock:  # the kind that a fork takes
            pass
