"""Processes that use a queue are killed: the others go on, and no message of the living is lost.

Not covered: each step of put and get (tests/shm/test_crash), many random kills (tests/stress).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import queue_children
import waiting

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from shmtensor.multiprocessing.queues import Full, JoinableQueue, Queue, SimpleQueue

CONTEXT = mp.get_context("fork")
HANG_S = 100


_FAMILY = """
import os, time
import shmtensor.multiprocessing as mp
import queue_children
from shmtensor._boundary import sharing

context = mp.get_context("fork")
there, back = context.SimpleQueue(), context.SimpleQueue()
child = context.Process(target=queue_children.echo_until_alone, args=(there, back))
child.start()
there.put(1)
assert back.get() == 1
print(os.getpid(), child.pid, sharing.status()["manager_pid"], flush=True)
time.sleep(1000)
"""


@pytest.mark.check
def test_readers_that_are_killed_while_they_wait_stop_nobody(
    start_child: Callable[..., Any],
) -> None:
    queue, report = Queue(ctx=CONTEXT), Queue(ctx=CONTEXT)
    readers = [start_child(queue_children.forward, queue, report) for _ in range(3)]
    for number in range(3):
        queue.put(number)
    assert sorted(report.get(timeout=HANG_S) for _ in range(3)) == [0, 1, 2]
    for reader in readers[:2]:
        os.kill(reader.pid, signal.SIGKILL)
        reader.join()
    for number in range(50):
        queue.put(number)
    assert sorted(report.get(timeout=HANG_S) for _ in range(50)) == list(range(50))


def test_what_a_killed_sender_had_put_arrives(start_child: Callable[..., Any]) -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    sender = start_child(queue_children.put_and_be_killed, queue, 40)
    sender.join(HANG_S)
    assert sender.exitcode == -signal.SIGKILL
    for number in range(40):
        got, tensor = queue.get()
        assert got == number
        assert tensor.sum().item() == 100 * number
    assert queue.empty()


def test_room_that_a_killed_sender_reserved_is_free_again(start_child: Callable[..., Any]) -> None:
    queue = JoinableQueue(50, ctx=CONTEXT)
    sender = start_child(queue_children.put_large_and_be_killed, queue, 50)
    sender.join(HANG_S)
    # What had found room is there; what had not is lost with the sender.
    waiting.until(lambda: queue.qsize() < 50)
    n = queue.qsize()
    for number in range(n):
        assert queue.get(timeout=HANG_S)[0] == number
        queue.task_done()
    queue.join()
    for number in range(50):
        queue.put(number, timeout=HANG_S)
    with pytest.raises(Full):
        queue.put(50, False)


@pytest.mark.check
def test_messages_for_a_killed_reader_leave_no_memory(start_child: Callable[..., Any]) -> None:
    before = sharing.status()["n_leases"]
    queue = Queue(ctx=CONTEXT)
    reader = start_child(queue_children.sleep_holding, queue)
    for number in range(20):
        queue.put(st.full((1000,), float(number)))
    assert sharing.status()["n_leases"] >= before + 20
    os.kill(reader.pid, signal.SIGKILL)
    reader.join()
    assert queue.get()[0] == 0
    del queue
    waiting.until(lambda: sharing.status()["n_leases"] <= before)


def test_child_leaves_when_its_parent_and_the_manager_are_killed(scripts: Any) -> None:
    family = scripts(_FAMILY)
    parent, child, manager = map(int, family.line().split())
    os.kill(manager, signal.SIGKILL)
    os.kill(parent, signal.SIGKILL)
    waiting.until(lambda: not waiting.runs(child))


def test_locks_of_a_killed_process_are_free_again_without_the_manager(
    start_child: Callable[..., Any],
) -> None:
    queue, report = Queue(ctx=CONTEXT), Queue(ctx=CONTEXT)
    for _ in range(4):
        manager = sharing.status()["manager_pid"]
        sender = start_child(queue_children.put_for_ever, queue)
        reader = start_child(queue_children.forward, queue, report)
        for _ in range(50):
            report.get(timeout=HANG_S)
        os.kill(manager, signal.SIGKILL)
        for child in (sender, reader):
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        while not queue.empty():
            queue.get(timeout=HANG_S)
        queue.put("next")
        assert queue.get(timeout=HANG_S) == "next"
        while not report.empty():
            report.get(timeout=HANG_S)
