"""What a service takes while it is small: its tables get memory as they are used.

Not covered: the memory of tensors (tests/multiprocessing/test_lifetime.py), quotas (test_serve.py),
tables of thousands of processes (tests/multiprocessing/test_members.py).
"""

from __future__ import annotations

import pytest
import service_programs as programs

_SMALL = """
import os, signal, sys
from shmtensor.inspect import open_sessions
from shmtensor.service import Service

name, manager = sys.argv[1], int(sys.argv[2])
service = Service(name)

def taken():
    (session,) = open_sessions(name)
    with session:
        return session.snapshot().resident_bytes

"""
_TINY = """
service.publish("tiny", service.empty(4))
service.attach("tiny", "ro")
service.Lock("tiny").acquire()
assert taken() < 1 << 20, taken()
"""
_LOCKS = """
kept = service.Lock("kept")
kept.acquire()
before = taken()
semaphores = [service.Semaphore(f"s{i}", 3) for i in range(100)]
assert all(semaphore.acquire() for semaphore in semaphores)
assert 100 * 1024 < taken() - before < 400 * 1024, taken() - before
os.kill(manager, signal.SIGKILL)
assert not service.Lock("kept").acquire(timeout=0.05)
assert service.Semaphore("s99", 3).acquire()
assert service.Lock("new").acquire()
kept.release()
assert service.Lock("kept").acquire(timeout=60)
"""


@pytest.mark.check
def test_a_small_service_takes_less_than_a_megabyte(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        run(_SMALL + _TINY, name, str(server.pid)).finish()


_QUEUES = """
before = taken()
queues = [service.Queue(f"q{i}") for i in range(100)]
assert taken() - before < 100 * (40 << 10), taken() - before
for queue in queues:
    queue.put(b"x" * 20_000)
    queue.put([1, "two"])
used = taken() - before
assert used < 100 * (90 << 10), used
os.kill(manager, signal.SIGKILL)  # the next one counts the messages, and gives them no pages
for queue in queues:
    assert queue.get() == b"x" * 20_000 and queue.get() == [1, "two"]
assert taken() - before <= used + (1 << 20), (used, taken() - before)
for _ in range(30):
    queues[0].put(b"x" * 30_000)
    assert len(queues[0].get()) == 30_000
"""


def test_queues_take_memory_as_they_fill(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        run(_SMALL + _QUEUES, name, str(server.pid)).finish()


def test_named_locks_take_memory_as_they_are_opened_and_survive_the_manager(
    run: type[programs.Program],
) -> None:
    with programs.serving() as (name, server):
        run(_SMALL + _LOCKS, name, str(server.pid)).finish()
