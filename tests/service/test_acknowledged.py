"""Messages that come back when their taker dies or lets go of them before it acknowledges them.

Not covered: a kill at every step of the protocol (tests/shm/test_crash.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import ctypes
import gc
import os
import pickle
import queue
import random
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import service_programs as programs
import waiting

import shmtensor as T
from shmtensor import errors, inspect
from shmtensor._cli._common import queue_lines
from shmtensor.service import Delivery, Service

_OPEN = "import os, sys, time, shmtensor as T; from shmtensor.service import Service\n"
_TAKER = (
    _OPEN
    + """
q = Service(sys.argv[1]).Queue("jobs")
print("open", flush=True)
for line in sys.stdin:
    job = q.get(ack=True)
    print(repr(job.value), job.deliveries, flush=True)
    sys.stdin.readline()
    job.ack()
    print("done", flush=True)
"""
)


def _inside(service: Service) -> int:
    [session] = inspect.open_sessions(service._name)
    return session.snapshot().n_used


def _all_gone(service: Service, before: int) -> None:
    gc.collect()
    waiting.until(lambda: _inside(service) <= before, lambda: f"{_inside(service)} > {before}")


@pytest.mark.check
def test_acknowledged_message_is_gone(service: Service) -> None:
    jobs = service.Queue("jobs")
    jobs.put([1, T.ones(3)])
    job = jobs.get(ack=True)
    assert isinstance(job, Delivery)
    assert job.value[1].sum() == 3 and job.deliveries == 1
    assert jobs.qsize() == 0 and jobs.n_unacknowledged == 1
    job.ack()
    assert jobs.n_unacknowledged == 0
    with pytest.raises(RuntimeError, match="was acknowledged before"):
        job.ack()
    with pytest.raises(RuntimeError, match="was acknowledged before"):
        job.release()
    with pytest.raises(queue.Empty):
        jobs.get(timeout=0.3)
    jobs.join()


@pytest.mark.check
def test_killed_takers_message_is_delivered_again(
    service: Service, run: type[programs.Program]
) -> None:
    jobs = service.Queue("jobs")
    jobs.put({"a": T.ones(3)})
    jobs.put("second")
    for i in range(3):
        taker = run(_TAKER, service._name)
        assert taker.line() == "open"
        taker.say()
        assert taker.line().endswith(f" {i + 1}")
        assert jobs.n_unacknowledged == 1
        taker.kill()
    values = {}
    for _ in range(2):  # the manager may not have seen the last death yet: any order
        with jobs.get(timeout=programs.WAIT_S, ack=True) as job:
            values[job.deliveries] = job.value
    assert values[4]["a"].sum() == 3 and values[1] == "second"
    jobs.join()


def test_waiting_consumer_gets_the_message_of_a_killed_one(
    service: Service, run: type[programs.Program]
) -> None:
    jobs = service.Queue("jobs")
    jobs.put("job")
    first, second = (run(_TAKER, service._name) for _ in range(2))
    for taker in (first, second):
        assert taker.line() == "open"
    first.say()
    assert first.line() == "'job' 1"
    second.say()  # waits in get
    time.sleep(0.1)
    first.kill()
    assert second.line() == "'job' 2"
    second.say()
    assert second.line() == "done"
    jobs.join()


def test_plain_get_takes_what_came_back(service: Service, run: type[programs.Program]) -> None:
    jobs = service.Queue("jobs")
    jobs.put("job")
    taker = run(_TAKER, service._name)
    taker.say()
    assert taker.line() == "open"
    assert taker.line() == "'job' 1"
    taker.kill()
    assert jobs.get(timeout=programs.WAIT_S) == "job"
    jobs.task_done()
    jobs.join()


def test_stopped_taker_keeps_its_message(service: Service, run: type[programs.Program]) -> None:
    jobs = service.Queue("jobs")
    jobs.put("job")
    taker = run(_TAKER, service._name)
    taker.say()
    assert taker.line() == "open"
    assert taker.line() == "'job' 1"
    os.kill(taker.process.pid, signal.SIGSTOP)
    with pytest.raises(queue.Empty):
        jobs.get(timeout=1.0)
    os.kill(taker.process.pid, signal.SIGCONT)
    taker.say()
    assert taker.line() == "done"
    jobs.join()


def test_message_waits_for_a_consumer_that_comes_later(run: type[programs.Program]) -> None:
    """The taker, and the manager with it, are killed; nobody has the queue open."""
    with programs.serving() as (name, server):
        maker = run(_OPEN + "Service(sys.argv[1]).Queue('jobs', persist=True).put('job')", name)
        maker.finish()
        taker = run(_TAKER, name)
        taker.say()
        assert taker.line() == "open"
        assert taker.line() == "'job' 1"
        member = run(
            _OPEN
            + "s = Service(sys.argv[1]); s.list(); print('in', flush=True); sys.stdin.readline()",
            name,
        )
        assert member.line() == "in"
        server.kill()
        taker.kill()
        later = run(_TAKER, name)
        later.say()
        assert later.line() == "open"
        assert later.line() == "'job' 2"
        later.say()
        assert later.line() == "done"
        run(_OPEN + "Service(sys.argv[1]).unpublish('jobs')", name).finish()


def test_with_statement(service: Service) -> None:
    jobs = service.Queue("jobs")
    jobs.put(1)
    job = jobs.get(ack=True)
    assert job.value == 1
    with pytest.raises(KeyError), job:
        raise KeyError
    assert jobs.qsize() == 1
    with jobs.get(ack=True) as job:
        assert job.deliveries == 2
    with jobs_released(jobs) as job:
        job.release()
    assert jobs.get().__class__ is int
    jobs.task_done()
    jobs.join()


def jobs_released(jobs: object) -> Delivery[int]:
    jobs.put(2)  # type: ignore[attr-defined]
    return jobs.get(ack=True)  # type: ignore[attr-defined, no-any-return]


def test_collected_delivery_goes_back_to_the_front(service: Service) -> None:
    jobs = service.Queue("jobs", 2)
    jobs.put("first")
    jobs.put("second")
    job = jobs.get(ack=True)
    jobs.put("third")
    del job
    gc.collect()
    assert jobs.qsize() == 3 and jobs.full(), "what comes back may exceed the bound"
    assert [jobs.get() for _ in range(3)] == ["first", "second", "third"]


def test_out_of_order(service: Service) -> None:
    jobs = service.Queue("jobs")
    jobs.put_many(range(100))
    taken = jobs.get_many(100, ack=True)
    assert [job.value for job in taken] == list(range(100))
    random.Random(1).shuffle(taken)
    for job in taken[:50]:
        job.ack()
    assert jobs.n_unacknowledged == 50
    left = sorted(job.value for job in taken[50:])
    for job in sorted(taken[50:], key=lambda job: -job.value):
        job.release()
    assert [jobs.get() for _ in left] == left
    for _ in left:
        jobs.task_done()
    jobs.join()


@pytest.mark.parametrize("kind", ["small", "long", "tensors"])
def test_long_job_does_not_hold_up_others(service: Service, kind: str) -> None:
    before = _inside(service)
    values = {"small": "x" * 50, "long": "x" * 30_000, "tensors": [T.ones(10) for _ in range(40)]}
    jobs = service.Queue("jobs")
    jobs.put("long")
    job = jobs.get(ack=True)
    for _ in range(400):
        jobs.put(values[kind])
        other = jobs.get(ack=True)
        assert len(other.value) == len(values[kind])  # type: ignore[arg-type]
        other.ack()
        del other
    assert jobs.n_unacknowledged == 1
    if kind == "tensors":
        waiting.until(lambda: _inside(service) < before + 30)
    job.release()
    assert jobs.get() == "long"
    del jobs, job
    waiting.until(lambda: "jobs" not in service.list())
    _all_gone(service, before)


def test_room_for_unacknowledged_messages_has_an_end(service: Service) -> None:
    jobs = service.Queue("jobs")
    taken = []

    def fill() -> None:
        while True:
            jobs.put("x" * 30_000)
            taken.append(jobs.get(ack=True))

    with pytest.raises(queue.Full, match="messages of the queue are not acknowledged yet and take"):
        fill()
    assert 30 < len(taken) < 35
    assert jobs.qsize() == 1
    taken.pop().ack()
    taken.append(jobs.get(ack=True))
    for job in taken:
        job.ack()
    jobs.join()


def test_dead_letters(service: Service) -> None:
    jobs = service.Queue("jobs", max_deliveries=2)
    assert service.Queue("jobs").max_deliveries == 2
    with pytest.raises(ValueError, match="delivers a message 2 times, not 3"):
        service.Queue("jobs", max_deliveries=3)
    jobs.put([T.ones(10)])
    for i in range(2):
        job = jobs.get(ack=True)
        assert job.deliveries == i + 1
        job.release()
    with pytest.raises(queue.Empty):
        jobs.get(timeout=0.1)
    assert jobs.n_dead_letters == 1 and jobs.n_unacknowledged == 0
    jobs.join()
    jobs.put(1)
    keep = jobs.get(ack=True)
    [session] = inspect.open_sessions(service._name)
    [view] = [q for q in session.queues() if q.n_dead_letters]
    assert (view.n_unacknowledged, view.n_dead_letters) == (1, 1)
    assert any("1, 1 dead" in line for line in queue_lines(session, session.snapshot()))
    keep.ack()


class _Exiting:
    """Unpickling it exits, as a program without a guard does that is imported for its classes."""

    def __reduce__(self) -> Any:
        return sys.exit, (5,)


@pytest.mark.parametrize("max_deliveries", [0, 2])
def test_message_that_ends_its_takers_ends_two(service: Service, max_deliveries: int) -> None:
    jobs = service.Queue("jobs", max_deliveries=max_deliveries)
    jobs.put(_Exiting())
    jobs.put(1)
    for _ in range(2):
        with pytest.raises(SystemExit):
            jobs.get(ack=True)
    job = jobs.get(timeout=programs.WAIT_S, ack=True)
    assert (job.value, job.deliveries) == (1, 1)
    job.ack()
    assert jobs.n_unacknowledged == 0 and jobs.qsize() == 0
    jobs.join()
    assert jobs.n_dead_letters == (1 if max_deliveries else 0)


@pytest.mark.parametrize("max_deliveries", [0, 2])
def test_message_that_the_library_cannot_show_stops_no_taker(
    service: Service, max_deliveries: int
) -> None:
    jobs = service.Queue("jobs", max_deliveries=max_deliveries, as_="numpy")
    for value in ("first", T.ones(2, dtype=T.bfloat16), "last"):
        jobs.put(value)
    for _ in range(max_deliveries or 1):
        with pytest.raises(TypeError, match="NumPy has no dtype bfloat16"):
            jobs.get_many(3, 10, ack=True)
    got = jobs.get_many(3, 10, ack=True)
    assert [(job.value, job.deliveries) for job in got] == [("first", 1), ("last", 1)]
    for job in got:
        job.ack()
    jobs.join()
    assert jobs.n_dead_letters == (1 if max_deliveries else 0)


def test_child_does_not_own_its_parents_delivery(service: Service) -> None:
    jobs = service.Queue("jobs")
    jobs.put(1)
    job = jobs.get(ack=True)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = ""
        try:
            job.ack()
        except RuntimeError as error:
            text = str(error)
        finally:
            del job
            gc.collect()
            os.write(writing, text.encode() or b"none")
            os._exit(0)
    os.waitpid(pid, 0)
    assert b"delivered to process" in os.read(reading, 1000)
    os.close(reading)
    os.close(writing)
    assert jobs.qsize() == 0 and jobs.n_unacknowledged == 1
    job.ack()


def test_child_that_takes_as_it_starts_keeps_its_message(service: Service) -> None:
    """The manager may hear of a child only after the child has taken a message."""
    jobs = service.Queue("jobs")
    n = 8
    for i in range(n):
        jobs.put(i)
    jobs.get(ack=True).release()
    reader, writer = os.pipe()
    go, stop = os.pipe()
    children = []
    for _ in range(n):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                job = jobs.get(ack=True)
                os.write(writer, b"x")
                os.close(stop)
                os.read(go, 1)
                job.ack()
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    seen = 0
    while seen < n:
        seen += len(os.read(reader, n))
    with pytest.raises(queue.Empty):
        jobs.get(timeout=0.5)  # looks for dead takers
    os.close(stop)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * n
    for fd in (reader, writer, go):
        os.close(fd)
    assert jobs.n_unacknowledged == 0


def test_await_gets_the_message_of_a_killed_taker(
    service: Service, run: type[programs.Program]
) -> None:
    jobs = service.Queue("jobs")
    jobs.put("job")
    taker = run(_TAKER, service._name)
    taker.say()
    assert taker.line() == "open"
    assert taker.line() == "'job' 1"

    async def both() -> object:
        waiter = asyncio.create_task(jobs.aget(ack=True))
        await asyncio.sleep(0.05)
        taker.kill()
        return await waiter

    job = asyncio.run(both())
    assert isinstance(job, Delivery) and job.deliveries == 2
    job.release()
    assert select.select([jobs.fileno()], [], [], programs.WAIT_S)[0]
    assert jobs.get() == "job"


_WORKER = (
    _OPEN
    + """
q = Service(sys.argv[1]).Queue("jobs")
done = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
print("open", flush=True)
while True:
    with q.get(ack=True) as job:
        number, tensor = job.value
        assert tensor.sum().item() == 10 * number
        os.write(done, f"{number}\\n".encode())
"""
)


def test_every_job_is_done_whoever_is_killed(
    service: Service, run: type[programs.Program], tmp_path: object
) -> None:
    before = _inside(service)
    path = os.path.join(str(tmp_path), "done")
    open(path, "w").close()
    n, dice = 3000, random.Random(7)
    jobs = service.Queue("jobs", 50)
    workers = [run(_WORKER, service._name, path) for _ in range(3)]
    for worker in workers:
        assert worker.line() == "open"
    for i in range(n):
        jobs.put([i, T.full((10,), float(i))])
        if i % 300 == 299:
            time.sleep(dice.random() * 0.02)
            victim = dice.randrange(3)
            workers[victim].kill()
            workers[victim] = run(_WORKER, service._name, path)
    jobs.join()
    assert jobs.qsize() == 0 and jobs.n_unacknowledged == 0
    for worker in workers:
        worker.kill()
    with open(path) as file:
        numbers = [int(line) for line in file.read().split()]
    assert set(numbers) == set(range(n))
    assert len(numbers) < n + 30, "only what killed workers had is delivered again"
    with pytest.raises(queue.Empty):
        jobs.get(timeout=0.2)
    del jobs
    waiting.until(lambda: "jobs" not in service.list())
    _all_gone(service, before)


def test_damaged_ring_is_emptied(service: Service) -> None:
    jobs = service.Queue("jobs")
    jobs.put_many(range(5))
    taken = jobs.get_many(3, ack=True)
    _scribble(bytes([0xFF]) * 4096)
    with pytest.raises(errors.HandleError, match="the queue is damaged"):
        taken[0].ack()
    with pytest.raises(RuntimeError, match="given back to its queue"):
        taken[1].ack()
    taken[2].release()
    with jobs.get(ack=True) as job:
        assert job.value == 3
    assert jobs.get() == 4


@pytest.mark.parametrize("seed", range(10))
def test_scribbled_ring_gives_errors_and_nothing_worse(service: Service, seed: int) -> None:
    dice = random.Random(seed)
    jobs = service.Queue("jobs")
    jobs.put_many([[i, T.ones(3)] for i in range(20)])
    for round_number in range(6):
        taken: list[Delivery[object]] = []
        with contextlib.suppress(Exception):  # what a scribbled pickle raises
            for _ in range(3):
                taken.append(jobs.get(timeout=1.0, ack=True))
        if round_number:
            at = dice.randrange(0, 1024, 4)
            _scribble(dice.randbytes(dice.choice([4, 8, 64])), at)
        for job in taken:
            with contextlib.suppress(errors.HandleError, RuntimeError):
                dice.choice([job.ack, job.release])()


def _scribble(data: bytes, at: int = 0) -> None:
    """Write to the messages of all rings of unacknowledged ones in the arenas of this process."""
    found = False
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if not os.path.islink(path) or "shmtensor-arena" not in os.readlink(path):
            continue
        fd, place = os.open(path, os.O_RDWR), 0
        try:
            while True:
                place = os.lseek(fd, place, os.SEEK_DATA) // 4096 * 4096
                header = os.pread(fd, 16, place)
                if header[:8] == b"SMTRING1" and header[12:16] == (1 << 20).to_bytes(4, "little"):
                    os.pwrite(fd, data, place + 320 + at)  # also to those that are gone already
                    found = True
                place += 4096
        except OSError:  # no more data
            pass
        os.close(fd)
    assert found


@contextlib.contextmanager
def _held(ring: object) -> Iterator[None]:
    """The lock of those who put is taken, as if its owner was stopped."""
    maps = Path("/proc/self/maps").read_text()
    library = ctypes.CDLL(re.findall(r"/\S*libshmtensor\S*", maps)[0])
    pointer = ctypes.c_void_p.from_address(id(ring) + object.__basicsize__)  # a shmt__ring
    lock = ctypes.c_void_p((ctypes.c_void_p * 3).from_address(pointer.value or 0)[2] + 128)
    word = ctypes.c_uint32()
    assert library.shmt__ring_lock(pointer, lock, ctypes.c_uint64(0), ctypes.byref(word)) == 0
    yield
    library.shmt__ring_unlock(lock, word)


def test_messages_that_cannot_go_back_now_all_go_back_later(service: Service) -> None:
    jobs, others = service.Queue("jobs"), service.Queue("others")
    jobs.put_many(list(range(100)))
    others.put(1)
    taken, other = jobs.get_many(100, ack=True), others.get(ack=True)
    with _held(jobs._ring):
        taken.clear()
        with _held(others._ring):
            del other
        with pytest.raises(queue.Empty):
            service.Queue("none").get(timeout=0.0, ack=True)
        assert others.qsize() == 1  # it does not wait for those
        assert jobs.qsize() == 0
    with pytest.raises(queue.Empty):
        service.Queue("none").get(timeout=0.0, ack=True)
    assert sorted(jobs.get_many(100, timeout=0.0)) == list(range(100))
    assert others.get(timeout=0.0) == 1


def test_a_delivery_is_not_copied(service: Service) -> None:
    queue_of_one = service.Queue("jobs")
    queue_of_one.put("once")
    delivery = queue_of_one.get(ack=True)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a Delivery is of one process"):
            make(delivery)
    delivery.ack()
    assert queue_of_one.n_unacknowledged == 0
