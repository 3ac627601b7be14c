"""Locks, semaphores and barriers of unrelated processes."""

from __future__ import annotations

import math
import os
import threading
import time

import pytest
import service_programs as programs
import waiting

import shmtensor as T
from shmtensor.service import Service

_HOLDER = """
import sys
from shmtensor.service import Service
lock = Service(sys.argv[1]).Lock("lock")
with lock:
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
"""


@pytest.mark.check
def test_lock_is_held_by_one_process(service: Service, run: type[programs.Program]) -> None:
    lock = service.Lock("lock")
    assert not lock.locked()
    holder = run(_HOLDER, service._name)
    assert holder.line() == "held"
    assert lock.locked()
    assert not lock.acquire(blocking=False)
    assert not lock.acquire(timeout=0.05)
    holder.say()
    assert lock.acquire(timeout=programs.WAIT_S)
    holder.finish()
    lock.release()
    assert not lock.locked()


def test_killed_owner_blocks_nobody(service: Service, run: type[programs.Program]) -> None:
    holder = run(_HOLDER, service._name)
    assert holder.line() == "held"
    lock = service.Lock("lock")
    taken = threading.Event()

    def take() -> None:
        with lock:
            taken.set()

    waiter = threading.Thread(target=take)
    waiter.start()
    holder.kill()
    waiter.join(programs.WAIT_S)
    assert taken.is_set()


_COUNTER = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
lock, count = service.Lock("count"), service.attach("count", "rw")
for _ in range(300):
    with lock:
        value = count.item()
        count.fill_(value + 1)
"""


def test_lock_excludes(service: Service, run: type[programs.Program]) -> None:
    count = service.empty(1, dtype=T.int64).zero_()
    service.publish("count", count)
    for counter in [run(_COUNTER, service._name) for _ in range(3)]:
        counter.finish()
    assert count.item() == 900


@pytest.mark.parametrize("timeout", [1e10, 1e300, math.inf])
def test_long_timeouts(service: Service, timeout: float) -> None:
    lock, barrier = service.Lock("long"), service.Barrier("long barrier", 2)
    assert lock.acquire()
    threads = [
        threading.Thread(target=lock.release),
        threading.Thread(target=barrier.wait, args=(timeout,)),
    ]
    for thread in threads:
        thread.start()
    assert lock.acquire(timeout=timeout)
    lock.release()
    barrier.wait(timeout)
    for thread in threads:
        thread.join()


def test_timeouts_that_are_over_or_none(service: Service) -> None:
    lock = service.Lock("over")
    assert lock.acquire(timeout=-math.inf)
    assert not lock.acquire(timeout=-1) and not lock.acquire(timeout=-math.inf)
    with pytest.raises(ValueError, match="timeout must be a number of seconds, got nan"):
        lock.acquire(timeout=math.nan)
    lock.release()


def test_lock_is_not_recursive_and_release_needs_it(service: Service) -> None:
    lock = service.Lock("mine")
    assert lock.acquire()
    assert not lock.acquire(timeout=0)
    lock.release()
    with pytest.raises(ValueError, match="no permit"):
        lock.release()


def test_forked_child_does_not_own_the_lock(service: Service) -> None:
    lock = service.Lock("forked")
    lock.acquire()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            try:
                lock.release()
            except ValueError:
                code = 0 if not service.Lock("forked").acquire(timeout=0.05) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert lock.locked()
    lock.release()


@pytest.mark.check
def test_semaphore_has_so_many_permits(service: Service) -> None:
    semaphore = service.Semaphore("three", 3)
    assert [semaphore.acquire(timeout=0) for _ in range(4)] == [True, True, True, False]
    assert semaphore.value == 0
    semaphore.release()
    assert semaphore.value == 1
    assert service.Semaphore("three", 3).acquire()
    semaphore.release()
    semaphore.release()


def test_name_in_use_otherwise(service: Service) -> None:
    kept = service.Semaphore("taken", 2)
    with pytest.raises(ValueError, match="in use as a semaphore of 2 places"):
        service.Lock("taken")
    with pytest.raises(ValueError, match="in use as a semaphore"):
        service.Barrier("taken", 2)
    assert kept.value == 2


@pytest.mark.parametrize(
    ("name", "n", "text"),
    [
        ("", 1, "a name must have 1 to 127 bytes"),
        ("a\0b", 1, r"none of them 0; got 'a\\x00b'"),
        ("x" * 96, 1, "must have 1 to 95 bytes, got 96"),
        ("s", 0, "places, got 0"),
        ("s", -1, "places, got -1"),
        ("s", 233, "places, got 233"),
        ("s", 1 << 70, f"places, got {1 << 70}"),
    ],
)
def test_bad_arguments(service: Service, name: str, n: int, text: str) -> None:
    for open_lock in (service.Semaphore, service.Barrier):
        with pytest.raises(ValueError, match=text):
            open_lock(name, n)


def test_a_name_is_a_text(service: Service) -> None:
    for open_lock in (service.Lock, service.Semaphore, lambda name: service.Barrier(name, 1)):
        for name in (None, b"x", 5):
            with pytest.raises(TypeError, match="a name must be a str, got"):
                open_lock(name)


_PARTY = """
import sys
from shmtensor.service import Service
service = Service(sys.argv[1])
barrier = service.Barrier("barrier", 3)
phases = service.attach("phases", "rw")
me = int(sys.argv[2])
last = 0
for i in range(100):
    phases[me] += 1
    last += barrier.wait()
    assert (phases >= i + 1).all() and (phases <= i + 2).all(), phases
    last += barrier.wait()
    assert (phases >= i + 1).all() and (phases <= i + 2).all(), phases
print(last)
"""


def test_barrier_keeps_phases_together(service: Service, run: type[programs.Program]) -> None:
    service.publish("phases", service.empty(3, dtype=T.int64).zero_())
    parties = [run(_PARTY, service._name, str(i)) for i in range(3)]
    assert sum(int(party.finish()) for party in parties) == 200


def test_barrier_timeout_takes_back_one_arrival(service: Service) -> None:
    barrier = service.Barrier("two", 2)
    with pytest.raises(TimeoutError, match="of 2 parties"):
        barrier.wait(timeout=0.05)
    assert barrier.n_waiting == 0
    results: list[bool] = []
    other = threading.Thread(target=lambda: results.append(barrier.wait()))
    other.start()
    results.append(barrier.wait(timeout=programs.WAIT_S))
    other.join(programs.WAIT_S)
    assert sorted(results) == [False, True]


_ARRIVE = """
import sys
from shmtensor.service import Service
print("arriving", flush=True)
Service(sys.argv[1]).Barrier("pair", 2).wait()
"""


def test_place_of_a_killed_party_is_open(service: Service, run: type[programs.Program]) -> None:
    barrier = service.Barrier("pair", 2)
    victim = run(_ARRIVE, service._name)
    assert victim.line() == "arriving"
    while barrier.n_waiting == 0:
        time.sleep(0.005)
    victim.kill()
    while barrier.n_waiting == 1:
        time.sleep(0.005)
    replacement = run(_ARRIVE, service._name)
    barrier.wait(timeout=programs.WAIT_S)
    replacement.finish()


def test_unused_names_are_free_again(service: Service, run: type[programs.Program]) -> None:
    text = (
        "import sys; from shmtensor.service import Service\n"
        "service = Service(sys.argv[1])\n"
        "kept = [service.Lock(f'{sys.argv[2]} {i}') for i in range(60)]"
    )
    for i in range(3):
        run(text, service._name, str(i)).finish()


def test_repr_says_what_this_object_has_taken(service: Service) -> None:
    lock, some = service.Lock("lock"), service.Semaphore("some", 3)
    of = repr(service)
    assert repr(lock) == f"<Lock 'lock' of {of}, not taken here>"
    with lock:
        assert repr(lock) == f"<Lock 'lock' of {of}, taken here>"
    some.acquire()
    assert repr(some) == f"<Semaphore 'some' of {of}, 3 permits, 1 taken here>"
    some.release()
    assert repr(service.Barrier("all", 2)) == f"<Barrier 'all' of {of}, 2 parties>"


# It closes all its descriptors, so that its next request makes it another client.
_MOVER = """
import os, sys, threading, time
import waiting
from shmtensor.service import Service
service = Service(sys.argv[1])
{before}
print("ready", flush=True)
sys.stdin.readline()
os.closerange(3, os.sysconf("SC_OPEN_MAX"))
service.publish("y", 6)
waiting.let_the_manager_look()  # it has found that nobody has the old number
print("moved", flush=True)
{after}
"""


@pytest.mark.check
def test_process_that_has_closed_all_descriptors_keeps_its_names_and_permits(
    service: Service, run: type[programs.Program]
) -> None:
    before = 'service.publish("x", 5); lock = service.Lock("moved"); lock.acquire()'
    after = (
        "sys.stdin.readline(); lock.release(); print('released', flush=True)\n"
        "sys.stdin.readline()\n"
        "with lock: print('again', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    mover = run(_MOVER.format(before=before, after=after), service._name)
    assert mover.line() == "ready"
    mover.say()
    assert mover.line() == "moved"
    assert service.attach("x") == 5
    lock = service.Lock("moved")
    assert not lock.acquire(timeout=0.2)
    mover.say()
    assert mover.line() == "released"
    assert lock.acquire(timeout=programs.WAIT_S)
    assert not lock.acquire(timeout=0)
    lock.release()
    mover.say()
    assert mover.line() == "again"
    mover.kill()
    waiting.until(lambda: not {"x", "y"} & service.list().keys(), service.list)
    assert lock.acquire(timeout=programs.WAIT_S)
    lock.release()


def test_permit_of_a_killed_process_that_had_moved_is_free(
    service: Service, run: type[programs.Program]
) -> None:
    before = 'lock = service.Lock("moved and killed"); lock.acquire()'
    mover = run(_MOVER.format(before=before, after="sys.stdin.readline()"), service._name)
    assert mover.line() == "ready"
    mover.say()
    assert mover.line() == "moved"
    lock = service.Lock("moved and killed")
    assert not lock.acquire(timeout=0.2)
    mover.kill()
    assert lock.acquire(timeout=programs.WAIT_S)
    lock.release()


def test_threads_that_wait_while_their_process_becomes_another_client(
    service: Service, run: type[programs.Program]
) -> None:
    lock, barrier = service.Lock("waited for"), service.Barrier("waited at", 2)
    before = (
        'lock, barrier = service.Lock("waited for"), service.Barrier("waited at", 2)\n'
        "def take():\n"
        "    with lock: print('taken', flush=True); sys.stdin.readline()\n"
        "    print('released', flush=True)\n"
        "taker, party = threading.Thread(target=take), threading.Thread(target=barrier.wait)\n"
        "taker.start(); party.start()\n"
        "while barrier.n_waiting == 0: time.sleep(0.01)\n"
    )
    assert lock.acquire()
    mover = run(
        _MOVER.format(before=before, after="party.join(); print('passed', flush=True)"),
        service._name,
    )
    assert mover.line() == "ready"
    mover.say()
    assert mover.line() == "moved"
    barrier.wait(programs.WAIT_S)
    assert mover.line() == "passed"
    lock.release()
    assert mover.line() == "taken"
    assert not lock.acquire(timeout=0.2)
    mover.say()
    assert mover.line() == "released"
    assert lock.acquire(timeout=programs.WAIT_S)
    lock.release()
    mover.finish()


def test_child_without_a_number_that_closes_all_descriptors_takes_no_permits(
    service: Service, run: type[programs.Program]
) -> None:
    child = run(
        "import os, resource, sys\n"
        "from shmtensor.service import Service\n"
        "service = Service(sys.argv[1])\n"
        "service.publish('x', 1); lock = service.Lock('free')\n"
        "limits = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "free = os.dup(0); os.close(free)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))\n"
        "pid = os.fork()\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, limits)\n"
        "if pid == 0:\n"
        "    os.closerange(3, os.sysconf('SC_OPEN_MAX'))\n"
        "    service.publish('y', 2)\n"
        "    print(lock.acquire(timeout=1), flush=True)\n"
        "    os._exit(0)\n"
        "os.waitpid(pid, 0)",
        service._name,
    )
    assert child.finish() == "True\n"
