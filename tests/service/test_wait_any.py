"""Waiting for any of several things. Events alone are in test_events.py."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import service_programs as programs
import waiting

import shmtensor.multiprocessing as mp
from shmtensor import service as package
from shmtensor._core._deadlines import deadline_of
from shmtensor.service import Service, _waiting, await_any, wait_any

_OPEN = "import sys, os, signal, time, socket\nfrom shmtensor.service import Service, wait_any\n"
_OPEN += "s = Service(sys.argv[1])\n"


@pytest.fixture(params=["sleeping here", "threads", "a thread for each"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the ways to wait for queues and events: as kernels and numbers would have it."""
    if request.param == "a thread for each":
        monkeypatch.setattr(_waiting, "_AT_ONCE", 1)
    elif request.param == "threads":
        monkeypatch.setattr(_waiting._Wait, "_sleeps_here", lambda self: False)


def _n_threads() -> int:
    return len(os.listdir("/proc/self/task"))


@contextlib.contextmanager
def _leaves_nothing() -> Iterator[None]:
    threads, fds = _n_threads(), len(os.listdir("/proc/self/fd"))
    yield
    waiting.until(lambda: _n_threads() <= threads)  # detached threads end after their last word
    waiting.until(lambda: len(os.listdir("/proc/self/fd")) <= fds)


@pytest.mark.check
def test_what_is_ready_comes_in_the_order_given(service: Service) -> None:
    a, b, go = service.Queue("a"), service.Queue("b"), service.Event("go")
    topic = service.Topic("t")
    news = topic.subscribe()
    own: Any = mp.get_context("spawn").SimpleQueue()
    things = [news, a, own, go, b]
    assert wait_any(things, 0) == [] and wait_any(things, 0.01) == []
    b.put(1)
    assert wait_any(things) == [b]
    go.set()
    topic.publish("x")
    own.put(1)
    assert wait_any(things) == [news, own, go, b]
    a.put(1)
    assert wait_any([b, a, b]) == [b, a, b]
    own.close()


def test_strangers_wake_a_wait(service: Service, run: type[programs.Program], way: None) -> None:
    jobs, go, topic = service.Queue("jobs"), service.Event("go"), service.Topic("t")
    news = topic.subscribe()
    other = run(
        _OPEN + "q, e, t = s.Queue('jobs'), s.Event('go'), s.Topic('t')\n"
        "print('open', flush=True)\n"
        "for step in (lambda: q.put(1), e.set, lambda: t.publish(2), lambda: e.pulse(3)):\n"
        "    sys.stdin.readline(); time.sleep(0.05); step()\n"
        "sys.stdin.readline(); time.sleep(0.05); e.set(); e.clear()",
        service._name,
    )
    assert other.line() == "open"
    things = [jobs, go, news]
    with _leaves_nothing():
        for thing, take in ((jobs, jobs.get), (go, go.clear), (news, news.get)):
            other.say()
            assert wait_any(things) == [thing]
            take()
            assert wait_any(things, 0) == []
        for _ in ("a pulse", "set and cleared at once"):
            other.say()
            assert wait_any(things) == [go]
            waiting.until(lambda: not go.is_set())


def test_sockets_pipes_and_queues_together(service: Service) -> None:
    jobs, go = service.Queue("jobs"), service.Event("go")
    left, right = socket.socketpair()
    receiver, sender = multiprocessing.Pipe(False)
    r, w = os.pipe()
    things = [jobs, left, receiver, r, go]
    with left, right, receiver, sender, _leaves_nothing():
        for expected, step, undo in (
            (left, lambda: right.send(b"x"), lambda: left.recv(1)),
            (receiver, lambda: sender.send(1), receiver.recv),
            (r, lambda: os.write(w, b"x"), lambda: os.read(r, 1)),
            (jobs, lambda: jobs.put(1), jobs.get),
            (go, go.set, go.clear),
        ):
            timer = threading.Timer(0.03, step)
            timer.start()
            assert wait_any(things) == [expected]
            timer.join()
            undo()
            step()
            assert wait_any(things) == [expected]  # at once
            undo()
        assert wait_any(things, 0.02) == []
        right.send(b"x")
        jobs.put(1)
        assert wait_any(things) == [jobs, left]
        right.close()
        assert left in wait_any([left])
        sender.close()
        assert wait_any([receiver], 1) == [receiver]
    os.close(r)
    os.close(w)


def test_a_thousand_queues(service: Service, run: type[programs.Program]) -> None:
    n = 1000
    queues = [service.Queue(f"q{i}") for i in range(n)]
    other = run(
        _OPEN + "q = [s.Queue(f'q{i}') for i in (0, 500, 999)]\nprint('open', flush=True)\n"
        "for x in q: sys.stdin.readline(); time.sleep(0.05); x.put(1)",
        service._name,
    )
    assert other.line() == "open"
    threads = _n_threads()
    most: list[int] = []
    with _leaves_nothing():
        assert wait_any(queues, 0) == []
        for i in (0, 500, 999):
            watcher = threading.Timer(0.03, lambda: most.append(_n_threads()))
            watcher.start()
            other.say()
            assert wait_any(queues) == [queues[i]]
            watcher.join()
            queues[i].get()
        assert max(most) <= threads + 1 + n // 100
    other.finish()


def test_stopped_putters_and_other_takers(
    service: Service, run: type[programs.Program], way: None
) -> None:
    """Another process takes what came: the wait goes on until its time has passed."""
    jobs, spare = service.Queue("jobs"), service.Queue("spare")
    text = _OPEN + "q = s.Queue('jobs')\nprint('open', flush=True)\nwhile True: q.{}"
    taker = run(text.format("get()"), service._name)
    giver = run(text.format("put(1); time.sleep(1e-3)"), service._name)
    assert taker.line() == giver.line() == "open"
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        assert wait_any([jobs, spare], 0.05) in ([], [jobs])
    os.kill(giver.process.pid, signal.SIGSTOP)
    os.kill(taker.process.pid, signal.SIGSTOP)
    spare.put(1)
    assert spare in wait_any([jobs, spare])
    giver.kill()
    taker.kill()
    spare.get()
    threading.Timer(0.05, spare.put, (1,)).start()
    while wait_any([jobs, spare]) == [jobs]:
        jobs.get(timeout=0)
    assert spare.get() == 1


def test_killed_waiter_costs_others_nothing(service: Service, run: type[programs.Program]) -> None:
    jobs, go = service.Queue("jobs"), service.Event("go")
    text = _OPEN + (
        "things = [s.Queue('jobs'), s.Event('go')] + [sys.stdin] * int(sys.argv[2])\n"
        "print('open', flush=True)\nprint(len(wait_any(things)), flush=True)"
    )
    for n in ("0", "1"):
        waiter, survivor = run(text, service._name, n), run(text, service._name, n)
        assert waiter.line() == survivor.line() == "open"
        waiter.kill()
        jobs.put(1)
        assert survivor.line() == "1"
        assert jobs.get(timeout=0) == 1
        assert not go.is_set()


def test_signals_end_a_wait(service: Service, run: type[programs.Program]) -> None:
    text = _OPEN + (
        "signal.signal(signal.SIGUSR1, lambda *_: print('handled', flush=True))\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "things = [s.Queue('jobs'), s.Event('go')] + [sys.stdin] * int(sys.argv[2])\n"
        "n = len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))\n"
        "print('open', flush=True)\n"
        "try:\n    wait_any(things)\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
        "time.sleep(0.1)\n"
        "print(n == (len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))))\n"
    )
    for n in ("0", "1"):
        waiter = run(text, service._name, n)
        assert waiter.line() == "open"
        time.sleep(0.1)
        waiter.process.send_signal(signal.SIGUSR1)
        assert waiter.line() == "handled"
        time.sleep(0.05)
        waiter.process.send_signal(signal.SIGINT)
        assert waiter.line() == "interrupted"
        assert waiter.line() == "True"
        waiter.finish()


def test_asyncio_waits(service: Service, run: type[programs.Program]) -> None:
    jobs, go = service.Queue("jobs"), service.Event("go")
    left, right = socket.socketpair()
    other = run(
        _OPEN + "q, e = s.Queue('jobs'), s.Event('go')\nprint('open', flush=True)\n"
        "sys.stdin.readline(); q.put(1)\nsys.stdin.readline(); e.pulse()",
        service._name,
    )
    assert other.line() == "open"

    async def wait() -> None:
        things: list[Any] = [jobs, go, left]
        assert await await_any(things, 0) == [] and await await_any(things, 0.02) == []
        assert await await_any([], 0.01) == []
        two = asyncio.gather(await_any(things), await_any([left, jobs]))
        await asyncio.sleep(0.05)
        other.say()
        assert list(await two) == [[jobs], [jobs]]
        jobs.get()
        later = asyncio.create_task(await_any(things))
        await asyncio.sleep(0.05)
        assert not later.done()
        other.say()
        assert await later == [go]
        later = asyncio.create_task(await_any(things))
        await asyncio.sleep(0.05)
        right.send(b"x")
        assert await later == [left]
        left.recv(1)
        cancelled = asyncio.create_task(await_any(things))
        await asyncio.sleep(0.02)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled

    with left, right, _leaves_nothing():
        asyncio.run(wait())


def test_fork_during_a_wait(service: Service) -> None:
    """A child that is made while a thread waits can wait for the same things itself."""
    jobs, go = service.Queue("jobs"), service.Event("go")
    r, w = os.pipe()
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.extend(wait_any([jobs, go, r])))
    waiter.start()
    time.sleep(0.05)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if wait_any([jobs, go, r], programs.WAIT_S) == [go] and not wait_any([jobs, r], 0.01):
                jobs.put(7)
                code = 0
        finally:
            os._exit(code)
    time.sleep(0.05)
    go.set()
    waiter.join()
    assert found == [go]
    assert wait_any([jobs], programs.WAIT_S) == [jobs] and jobs.get() == 7
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(r)
    os.close(w)


def test_bad_things(service: Service) -> None:
    jobs, go = service.Queue("jobs"), service.Event("go")
    news = service.Topic("t").subscribe()
    own: Any = mp.get_context("spawn").SimpleQueue()
    with pytest.raises(ValueError, match="nothing to wait for, and no timeout"):
        wait_any([])
    with pytest.raises(ValueError, match="nothing to wait for, and no timeout"):
        asyncio.run(await_any([]))
    assert wait_any([], 0) == [] and wait_any([], 0.01) == [] and wait_any([jobs], -1) == []
    with pytest.raises(ValueError, match="nan"):
        wait_any([jobs], float("nan"))
    for seconds in (np.float16(0.25), np.float32(0.25), Decimal("0.25"), Fraction(1, 4)):
        begun = time.monotonic()
        assert wait_any([jobs], seconds) == []  # type: ignore[arg-type]
        assert 0.2 <= time.monotonic() - begun < 10
        assert isinstance(deadline_of(seconds), float)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a str has no fileno\(\)"):
        wait_any(["jobs"])
    with service.Server("calls") as server, open(os.devnull) as file:
        for alone in (jobs, go, news, own, server, file):
            with pytest.raises(TypeError, match="expected several things, got"):
                wait_any(alone, 0)  # type: ignore[type-var]
            with pytest.raises(TypeError, match="expected several things, got"):
                asyncio.run(await_any(alone, 0))  # type: ignore[type-var]
    for thing in (jobs, go, news, own):
        thing.close()
        with pytest.raises(ValueError, match="close"):
            wait_any([thing], 0)
    left, right = socket.socketpair()
    number = left.fileno()
    left.close()
    right.close()
    receiver, _ = multiprocessing.Pipe(False)
    receiver.close()
    for thing in (left, number, -1, receiver):
        with pytest.raises(ValueError, match=r"is closed|is not open"):
            wait_any([thing], 0)


def test_group_of_calls_is_no_burden(service: Service) -> None:
    """After a wait, a queue is as it was: no thread watches it."""
    jobs = service.Queue("jobs")
    r, w = os.pipe()
    threads = _n_threads()
    for _ in range(50):
        assert wait_any([jobs, r], 0.001) == []
    waiting.until(lambda: _n_threads() <= threads)
    assert package.wait_any is wait_any
    os.close(r)
    os.close(w)


_TAKER = (
    _OPEN
    + "job = s.Queue('jobs').get(ack=True, timeout=60)\n"
    + "print('taken', flush=True); time.sleep(100)\n"
)


def test_work_of_a_killed_taker_ends_a_wait(
    service: Service, run: type[programs.Program], way: None
) -> None:
    jobs, go = service.Queue("jobs"), service.Event("go")
    for waits in ("before", "already"):
        jobs.put(waits)
        taker = run(_TAKER, service._name)
        assert taker.line() == "taken" and wait_any([jobs, go], 0) == []
        timer = threading.Timer(0.3 if waits == "already" else 0, taker.kill)
        timer.start()
        if waits == "before":
            timer.join()
            time.sleep(0.3)
        assert wait_any([jobs, go], 10) == [jobs], waits
        timer.join()
        with jobs.get(timeout=0, ack=True) as job:
            assert (job.value, job.deliveries) == (waits, 2)


def test_work_of_a_killed_taker_ends_an_awaited_wait(
    service: Service, run: type[programs.Program]
) -> None:
    jobs = service.Queue("jobs")
    jobs.put(1)
    taker = run(_TAKER, service._name)
    assert taker.line() == "taken"
    threading.Timer(0.3, taker.kill).start()
    assert asyncio.run(await_any([jobs], 10)) == [jobs]
    jobs.get(timeout=0)
