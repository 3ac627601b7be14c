"""Queues as the tools see them: this process's own, looked at from outside."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import shmtensor as T
import shmtensor.multiprocessing as mp
from shmtensor.inspect import Queue, Session, as_prometheus, as_rows


@pytest.fixture
def session() -> Iterator[Session]:
    T.empty(1, shared=True)  # joins
    with Session(os.environ["SHMTENSOR_MANAGER"].removeprefix("@")) as session:
        yield session


def _with(session: Session, n_messages: int) -> list[Queue]:
    return [queue for queue in session.queues() if queue.n_messages == n_messages]


@pytest.mark.check
def test_queue_shows_its_messages(session: Session) -> None:
    queue = mp.get_context("fork").Queue(1000)
    try:
        for i in range(37):
            queue.put(i)
        (view,) = _with(session, 37)
        assert (view.max_messages, view.n_put, view.n_pending) == (1000, 37, 0)
        assert 0 < view.used_bytes < view.capacity_bytes
        assert len(view.holders) == 1
        queue.get()
        (view,) = _with(session, 36)
        assert view.n_put == 37
        row = next(row for row in as_rows([session]))
        labels = f'session="{session.name}",service="",block="{view.block}"'
        line = f"shmtensor_queue_messages{{{labels}}} 36"
        assert line in as_prometheus([row]).splitlines()
        for _ in range(36):
            queue.get()
    finally:
        queue.close()
        queue.join_thread()


@pytest.mark.check
def test_tensor_in_a_queue_is_not_stranded(session: Session) -> None:
    queue = mp.get_context("fork").SimpleQueue()
    try:
        queue.put(T.zeros(779, dtype=T.uint8, shared=True))
        block = next(b for b in session.blocks() if b.nbytes == 779)
        assert (block.n_queued, block.n_leases, block.holders) == (1, 0, ())
        assert not block.is_stranded
        assert session.snapshot().n_queued >= 1
        queue.get()
    finally:
        queue.close()


def test_ls_and_top_show_queues(session: Session, shmtensor_command: Callable[..., Any]) -> None:
    queue = mp.get_context("fork").SimpleQueue()
    try:
        for i in range(41):
            queue.put(i)
        for arguments in (("ls", "--queues"), ("top", "--plain", "--count", "1")):
            done = shmtensor_command(*arguments, "--session", session.name)
            heads = next(i for i, line in enumerate(done.out.splitlines()) if "QUEUE" in line)
            rows = [line.split() for line in done.out.splitlines()[heads + 1 :]]
            assert "41" in [row[1] for row in rows]
        for _ in range(41):
            queue.get()
    finally:
        queue.close()


def test_ls_and_top_say_that_a_queue_is_full(
    session: Session, shmtensor_command: Callable[..., Any]
) -> None:
    queue = mp.get_context("fork").Queue(3)
    try:
        for i in range(2):
            queue.put(i)
        before = shmtensor_command("ls", "--queues", "--session", session.name).out
        assert "2 of 3 " in before
        queue.put(2)
        for arguments in (("ls", "--queues"), ("top", "--plain", "--count", "1")):
            done = shmtensor_command(*arguments, "--session", session.name)
            assert "3 of 3, full " in done.out
        found = [q for q in session.queues() if q.max_messages == 3]
        assert [q.is_full for q in found] == [True]
        for _ in range(3):
            queue.get()
    finally:
        queue.close()
        queue.join_thread()
