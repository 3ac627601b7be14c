"""POSIX message queues, with a C program on the other side."""

from __future__ import annotations

import asyncio
import math
import os
import queue
import select
import signal
import threading
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import HANG_S, sleeps

from shmtensor import posix


@pytest.mark.check
def test_c_program_sends_a_message_back(name: str, stranger: Any) -> None:
    with posix.MessageQueue(name, 4, 100) as there:
        with posix.MessageQueue(name + "-back", 4, 8192) as back:
            back.unlink(missing_ok=True)
        with posix.MessageQueue(name + "-back", 4, 8192) as back:
            program = stranger("echo", name)
            there.send(b"a\0b", priority=4)
            assert back.receive(timeout=60) == (b"a\0b", 5)
            program.process.wait(60)
            back.unlink()


def test_higher_priorities_come_first(name: str) -> None:
    with posix.MessageQueue(name, 4, 10) as q:
        for data, priority in ((b"low", 0), (b"high", 9), (b"low2", 0)):
            q.send(data, priority)
        assert len(q) == 3
        assert repr(q) == f"<MessageQueue {name!r}, 3 of 4 messages>"
        assert [q.receive().data for _ in range(3)] == [b"high", b"low", b"low2"]


def test_waiting_ends_after_the_timeout(name: str) -> None:
    with posix.MessageQueue(name, 1, 10) as q:
        with pytest.raises(queue.Empty):
            q.receive(timeout=0)
        begun = time.monotonic()
        with pytest.raises(queue.Empty):
            q.receive(timeout=0.2)
        assert time.monotonic() - begun >= 0.19
        q.send(b"x")
        with pytest.raises(queue.Full):
            q.send(b"y", timeout=0)
        with pytest.raises(queue.Full):
            q.send(b"y", timeout=0.05)


@pytest.mark.parametrize("timeout", [math.inf, 1e300, np.float32(60), Decimal(60), Fraction(60)])
def test_any_number_of_seconds_is_a_timeout(name: str, timeout: Any) -> None:
    with posix.MessageQueue(name, 1, 10) as q:
        q.send(b"x", timeout=timeout)
        assert q.receive(timeout).data == b"x"
        with pytest.raises(queue.Empty):
            q.receive(-math.inf)
        with pytest.raises(ValueError, match="timeout must be a number of seconds, got nan"):
            q.receive(math.nan)
        with pytest.raises(TypeError, match="must be real number, not str"):
            q.send(b"x", timeout="1")  # type: ignore[arg-type]
        assert len(q) == 0


def test_signal_handlers_run_while_it_waits(name: str) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, stop)
    try:
        with posix.MessageQueue(name, 1, 10) as q:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                q.receive()
    finally:
        signal.signal(signal.SIGALRM, old)


def test_sizes(name: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        posix.MessageQueue(name)
    assert caught.value.filename == name
    q = posix.MessageQueue(name, 2, 10)
    assert (q.max_messages, q.max_message_bytes) == (2, 10)
    with pytest.raises(ValueError, match="takes messages of up to 10 bytes, got 11"):
        q.send(bytes(11))
    with pytest.raises(ValueError, match="a priority is 0 to 32767, got 32768"):
        q.send(b"", 32768)
    q.send(memoryview(b"view"))
    assert posix.MessageQueue(name).receive().data == b"view"
    with pytest.raises(ValueError, match="holds 2 messages of 10 bytes, not 3 of 10"):
        posix.MessageQueue(name, 3, 10)
    for wrong in ((0, 10), (1, 0)):
        with pytest.raises(ValueError, match="at least 1 message of 1 byte"):
            posix.MessageQueue(name, *wrong)
    with pytest.raises(ValueError, match="read, write or both"):
        posix.MessageQueue(name, read=False, write=False)


def test_limits_of_the_system_are_in_the_error(name: str) -> None:
    limit = Path("/proc/sys/fs/mqueue/msg_max").read_text().strip()
    with pytest.raises(ValueError, match=f"the limits are {limit} and"):
        posix.MessageQueue(name, 1 << 20, 1 << 20)


def test_directions(name: str) -> None:
    with posix.MessageQueue(name, 1, 10):
        reader = posix.MessageQueue(name, write=False)
        writer = posix.MessageQueue(name, read=False)
        writer.send(b"x")
        assert reader.receive().data == b"x"
        with pytest.raises(OSError):
            reader.send(b"x", timeout=0)
        with pytest.raises(OSError):
            writer.receive(timeout=0)


def test_descriptor_can_be_polled(name: str) -> None:
    with posix.MessageQueue(name, 1, 10) as q:
        assert not os.get_inheritable(q.fileno())
        assert select.select([q], [q], [], 0) == ([], [q], [])
        q.send(b"x")
        assert select.select([q], [q], [], 0) == ([q], [], [])
    assert q.fileno() == -1


def test_asyncio_waits_for_messages(name: str) -> None:
    async def main() -> list[bytes]:
        got: list[bytes] = []
        done = asyncio.Event()

        def read() -> None:
            got.append(q.receive(timeout=0).data)
            if len(got) == 2:
                done.set()

        asyncio.get_running_loop().add_reader(q.fileno(), read)
        q.send(b"1")
        q.send(b"2")
        await asyncio.wait_for(done.wait(), 60)
        asyncio.get_running_loop().remove_reader(q.fileno())
        return got

    with posix.MessageQueue(name, 2, 10) as q:
        assert asyncio.run(main()) == [b"1", b"2"]


def test_notification_comes_once(name: str) -> None:
    told = threading.Event()
    with posix.MessageQueue(name, 2, 10) as q:
        q.notify(lambda which: told.set() if which is q else None)
        q.send(b"1")
        assert told.wait(60)
        told.clear()
        q.receive()
        q.send(b"2")
        assert not told.wait(0.2)
        q.receive()
        q.notify(lambda _: told.set())
        q.notify(None)
        q.send(b"3")
        assert not told.wait(0.2)


def test_second_process_that_wants_to_be_told_is_refused(name: str) -> None:
    with posix.MessageQueue(name, 2, 10) as q:
        q.notify(lambda _: None)
        pid = os.fork()
        if pid == 0:
            try:
                q.notify(lambda _: None)
            except RuntimeError:
                os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        q.notify(None)


def test_close_ends_the_wait_of_another_thread(name: str) -> None:
    q = posix.MessageQueue(name, 2, 10)
    ended: list[str] = []

    def wait() -> None:
        try:
            q.receive()
        except ValueError as error:
            ended.append(str(error))

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    sleeps(waiter)
    q.close()
    waiter.join(HANG_S)
    assert ended == [f"queue {name} is closed"]
    with posix.MessageQueue(name) as again:
        again.send(b"kept", timeout=0)
        assert again.receive(0).data == b"kept"
        again.unlink()


def test_closed_queue_says_so(name: str) -> None:
    q = posix.MessageQueue(name, 2, 10)
    q.close()
    q.close()
    for use in (lambda: q.send(b""), q.receive, lambda: len(q), lambda: q.notify(None)):
        with pytest.raises(ValueError, match="is closed"):
            use()
    assert "closed" in repr(q)
    q.unlink()
    with pytest.raises(FileNotFoundError):
        q.unlink()
    q.unlink(missing_ok=True)
