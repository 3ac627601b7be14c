"""Forks beside threads that use every part that has a lock: each child can use all of them."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import traceback
from collections.abc import Callable

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import func
from shmtensor.autograd import profiler

LIMIT_S = 120
N_FORKS = 8

generator = st.Generator().manual_seed(1)
numbers = itertools.count()


def _random() -> None:
    st.randn(30_000, generator=generator)
    st.Generator().manual_seed(2)


def _autocast() -> None:
    with st.autocast("cpu", dtype=st.bfloat16):
        assert (st.ones(4, 4) @ st.ones(4, 4)).dtype == st.bfloat16


def _vmap() -> None:
    assert func.vmap(lambda x: x.sum())(st.ones(3, 4)).tolist() == [4.0] * 3


def _backward() -> None:
    x = st.ones(30_000, requires_grad=True)
    y = x * 2
    y.retain_grad()
    handle = y.register_hook(lambda grad: grad * 1)
    (y * y).sum().backward()
    handle.remove()
    assert x.grad is not None and x.grad[0].item() == 8.0


def _fft() -> None:
    for n in range(60, 64):
        st.fft.fft(st.ones(n))


def _parallel() -> None:
    assert st.ones(500_000).add(1).sum().item() == 1_000_000


def _share() -> None:
    shared = st.ones(30_000).share_memory_()
    queue = mp.SimpleQueue()
    queue.put(shared)
    assert queue.get().sum().item() == 30_000


def _profile() -> None:
    try:
        with profiler.profile():
            st.ones(3) + 1
    except RuntimeError:  # another thread's runs
        pass


def _operators() -> None:
    made = st.library.Library("fork_locks", "FRAGMENT")
    made.define(f"f{next(numbers)}(Tensor x) -> Tensor")


CALLS: list[Callable[[], None]] = [
    _random,
    _autocast,
    _vmap,
    _backward,
    _fft,
    _parallel,
    _share,
    _profile,
    _operators,
]


@pytest.mark.check
def test_a_child_can_use_what_its_parents_threads_were_using() -> None:
    stop = threading.Event()
    failures: list[str] = []

    def work(calls: list[Callable[[], None]]) -> None:
        try:
            while not stop.is_set():
                for call in calls:
                    call()
        except BaseException:
            failures.append(traceback.format_exc())

    for call in CALLS:
        call()  # imports what it needs: Python's own locks of modules are not free in a child
    threads = [threading.Thread(target=work, args=(CALLS[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(N_FORKS):
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(LIMIT_S)
                try:
                    for call in CALLS:
                        call()
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
            assert os.waitpid(pid, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]
