"""Threads of one process that share, send, receive and drop at once; also run by ``make tsan``.

Not covered: threads beside a fork (tests/stress), asyncio (test_queue_waits).
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp

N_THREADS = 4


def _run(work: Callable[[int], None], n: int = N_THREADS) -> None:
    """Run *work* in threads that begin together; what one raises is raised here."""
    begin, failures = threading.Barrier(n), []

    def guarded(i: int) -> None:
        try:
            begin.wait(60)
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.check
def test_threads_share_and_drop() -> None:
    def work(i: int) -> None:
        kept: list[Any] = []
        for n in range(150):
            size = (10, 1000, 200_000)[n % 3]
            kept.append(st.full((size,), float(i)).share_memory_())
            if len(kept) > 5:
                tensor = kept.pop(n % 5)
                assert tensor[0] == i
                assert tensor[-1] == i

    _run(work)


def test_threads_share_one_tensor() -> None:
    for size in (100, 300_000):
        for _ in range(40):
            tensor = st.arange(size)
            seen: list[tuple[int, int]] = []

            def work(_: int, tensor: st.Tensor = tensor, seen: list[Any] = seen) -> None:
                message = ForkingPickler.dumps(tensor)
                seen.append((tensor.data_ptr(), pickle.loads(message).data_ptr()))

            _run(work)
            assert seen == [(tensor.data_ptr(),) * 2] * N_THREADS
            assert tensor[-1] == size - 1


@pytest.mark.check
def test_threads_open_one_message_and_drop_it() -> None:
    tensor = st.full((1000,), 3.0).share_memory_()
    address = tensor.data_ptr()
    messages = [[bytes(ForkingPickler.dumps(tensor)) for _ in range(100)] for _ in range(4)]

    def work(i: int) -> None:
        for message in messages[i]:
            got = pickle.loads(message)
            assert got[999] == 3
            assert got.data_ptr() == address

    _run(work)
    first = [bytes(ForkingPickler.dumps(tensor)) for _ in range(N_THREADS)]
    del tensor  # now each thread may be the first, and the last

    def reopen(i: int) -> None:
        got = pickle.loads(first[i])
        assert got.data_ptr() == address
        assert got.sum() == 3000

    _run(reopen)


def test_threads_send_through_one_queue() -> None:
    queue = mp.Queue(20)
    seen: list[tuple[int, int]] = []

    def work(i: int) -> None:
        for n in range(200):
            if i % 2:
                queue.put((i, n, st.full((50,), float(n))))
            else:
                sender, number, tensor = queue.get()
                assert tensor.sum() == 50 * number
                seen.append((sender, number))

    _run(work)
    assert sorted(seen) == [(i, n) for i in (1, 3) for n in range(200)]
    queue.close()
    queue.join_thread()


def test_threads_work_on_one_shared_tensor() -> None:
    tensor = st.zeros(N_THREADS, 300_000, shared=True)

    def work(i: int) -> None:
        for _ in range(5):
            tensor[i].add_(1)
            assert tensor[i].sum() > 0

    _run(work)
    assert tensor.sum() == N_THREADS * 300_000 * 5
