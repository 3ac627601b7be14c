"""POSIX semaphores, with a C program on the other side.

Not covered: whose a name is (test_owners.py).
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from waiting import HANG_S, sleeps

import shmtensor as torch
from shmtensor import posix
from shmtensor.service import Service


@pytest.mark.check
def test_c_program_and_python_take_turns(name: str, service: Service, stranger: Any) -> None:
    t = posix.create(name, 2, torch.float64, service=service)
    lock = posix.Semaphore(name, 1, service=service)
    other = stranger("add", name, 2000)
    for _ in range(2000):
        with lock:
            t[0] += 1
    other.finish()
    assert t.tolist() == [4000, 0]
    assert lock.value == 1


def test_semaphore_of_a_c_program(name: str, stranger: Any) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        posix.Semaphore(name)
    assert caught.value.filename == name
    maker = stranger("offer", name, 2)
    assert maker.line() == "ready"
    s = posix.Semaphore(name)
    assert s.acquire()
    assert s.acquire(blocking=False)
    assert not s.acquire(blocking=False)
    assert not s.acquire(timeout=0.05)
    s.release()
    assert s.value == 1
    assert maker.finish() == "1"


def test_second_maker_finds_the_first_one_s(name: str, service: Service) -> None:
    first = posix.Semaphore(name, 3, service=service)
    second = posix.Semaphore(name, 7, service=service)
    assert second.value == 3
    second.acquire()
    assert first.value == 2
    assert "value 2" in repr(first)


def test_acquire_waits_for_a_release_of_another_thread(name: str) -> None:
    s = posix.Semaphore(name, 0, linger=True)
    waiter = threading.Thread(target=s.acquire, args=(True, 60))
    waiter.start()
    s.release()
    waiter.join(60)
    assert not waiter.is_alive()
    assert s.value == 0


@pytest.mark.parametrize("timeout", [math.inf, 1e300, np.float32(60), Decimal(60), Fraction(60)])
def test_any_number_of_seconds_is_a_timeout(name: str, timeout: Any) -> None:
    s = posix.Semaphore(name, 1, linger=True)
    assert s.acquire(timeout=timeout)
    waiter = threading.Thread(target=s.acquire, kwargs={"timeout": timeout})
    waiter.start()
    s.release()
    waiter.join(60)
    assert not waiter.is_alive() and s.value == 0
    assert not s.acquire(timeout=-math.inf)


def test_more_permits_than_there_can_be(name: str) -> None:
    s = posix.Semaphore(name, 2**31 - 1, linger=True)
    with pytest.raises(ValueError, match=r"has 2147483647 permits, and no more"):
        s.release()
    assert s.value == 2**31 - 1


def test_nan_and_text_are_no_timeouts(name: str) -> None:
    s = posix.Semaphore(name, 1, linger=True)
    with pytest.raises(ValueError, match="timeout must be a number of seconds, got nan"):
        s.acquire(timeout=math.nan)
    with pytest.raises(TypeError, match="must be real number, not str"):
        s.acquire(timeout="1")  # type: ignore[arg-type]
    assert s.value == 1


def test_signal_handlers_run_while_it_waits(name: str) -> None:
    s = posix.Semaphore(name, 0, linger=True)
    seen: list[int] = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        begun = time.monotonic()
        assert not s.acquire(timeout=0.5)
        assert time.monotonic() - begun >= 0.45
        assert seen == [1]

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            s.acquire()
    finally:
        signal.signal(signal.SIGALRM, old)
    assert s.value == 0


def test_forked_child_has_it_too(name: str, service: Service) -> None:
    s = posix.Semaphore(name, 0, service=service)
    pid = os.fork()
    if pid == 0:
        s.release()
        os._exit(0)
    assert s.acquire(timeout=60)
    assert os.waitpid(pid, 0)[1] == 0


def test_wrong_arguments(name: str, service: Service) -> None:
    for value in (-1, 1 << 31):
        with pytest.raises(ValueError, match=f"got value={value}"):
            posix.Semaphore(name, value, linger=True)
    with pytest.raises(ValueError, match="with a value only"):
        posix.Semaphore(name, service=service)
    with open(f"/dev/shm/sem.{name[1:]}", "w") as file:
        file.write("short")
    with pytest.raises(ValueError, match=r"is no semaphore: .* of 5 bytes, a semaphore has 32"):
        posix.Semaphore(name, 1, service=service)
    with pytest.raises(ValueError, match="is no semaphore"):
        posix.Semaphore(name)


def test_closed_semaphore_says_so(name: str) -> None:
    s = posix.Semaphore(name, 1, linger=True)
    with pytest.raises(ValueError, match="a timeout goes with blocking"):
        s.acquire(False, 1.0)
    s.close()
    s.close()
    for use in (s.acquire, s.release, lambda: s.value):
        with pytest.raises(ValueError, match="is closed"):
            use()
    assert "closed" in repr(s)
    s.unlink()
    with pytest.raises(FileNotFoundError):
        s.unlink()
    s.unlink(missing_ok=True)


def test_close_ends_the_wait_of_another_thread(name: str) -> None:
    s = posix.Semaphore(name, 0, linger=True)
    ended: list[str] = []

    def wait() -> None:
        try:
            s.acquire()
        except ValueError as error:
            ended.append(str(error))

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    sleeps(waiter)
    s.close()
    waiter.join(HANG_S)
    assert ended == [f"semaphore {name} is closed"]


def test_it_is_not_pickled(name: str) -> None:
    import pickle

    with pytest.raises(TypeError, match="opened by its name"):
        pickle.dumps(posix.Semaphore(name, 1, linger=True))
