"""Calls without a thread that waits for each: clients that close, callbacks that call or raise.

Note [The reader never waits] in shmtensor/service/_submitted.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, as_completed, wait
from typing import Any, NoReturn

import pytest
import service_programs as programs
import waiting
from interrupts import Interrupt, everywhere

from shmtensor.errors import RemoteError, WaitTimeoutError
from shmtensor.service import Client, Server, Service, _submitted

_AT_ONCE = _submitted._AT_ONCE


@contextlib.contextmanager
def answering(
    server: Server, answer: Callable[[Any], object] = lambda value: value
) -> Iterator[None]:
    """A thread answers until the end of the block."""

    def serve() -> None:
        for request in server:
            request.reply(answer(request.value))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        server.close()
        thread.join(programs.WAIT_S)


class Waiting:
    """A thread with a `submit` that waits; what it got or raised."""

    def __init__(self, client: Client) -> None:
        self.result: Any = None
        self._client = client
        self._thread = threading.Thread(target=self._submit)
        self._thread.start()

    def _submit(self) -> None:
        try:
            self.result = self._client.submit("late")
        except ValueError as error:
            self.result = error

    def ends(self) -> bool:
        self._thread.join(programs.WAIT_S)
        return not self._thread.is_alive()


def under_way(client: Client) -> int:
    submitted = client._submitted
    return 0 if submitted is None else len(submitted._calls)


@pytest.mark.check
def test_closing_ends_a_submit_that_waits_for_its_turn(service: Service) -> None:
    server = service.Server("s")
    client = service.Client("s")
    futures = [client.submit(i) for i in range(_AT_ONCE)]
    waiter = Waiting(client)
    submitted: Any = client._submitted
    waiting.until(lambda: submitted._changed._waiters)
    client.close()
    assert waiter.ends()
    assert isinstance(waiter.result, ValueError) and "used after close" in str(waiter.result)
    assert all(future.cancelled() for future in futures)
    server.close()


def test_closing_ends_a_submit_that_waits_for_room(service: Service) -> None:
    server = service.Server("s", 1)
    client = service.Client("s")
    first = client.submit(1)
    waiter = Waiting(client)
    waiting.until(lambda: under_way(client) == 2)
    client.close()
    assert waiter.ends()
    assert first.cancelled() and isinstance(waiter.result, ValueError)
    server.close()


def test_closing_cancels_all_whatever_a_callback_raises(service: Service) -> None:
    server = service.Server("s")
    client = service.Client("s")
    futures = [client.submit(i) for i in range(3)]
    futures[0].add_done_callback(lambda _: sys.exit(3))
    with pytest.raises(SystemExit):
        client.close()
    assert all(future.cancelled() for future in futures)
    server.close()


def test_cancelled_futures_are_done_for_who_waits(service: Service) -> None:
    server = service.Server("s")
    client = service.Client("s")
    futures = [client.submit(i) for i in range(4)]
    futures[0].cancel()
    assert wait(futures[:1], programs.WAIT_S).done == {futures[0]}
    futures[1].add_done_callback(lambda _: sys.exit(3))
    with pytest.raises(SystemExit):
        client.close()
    assert wait(futures, programs.WAIT_S).done == set(futures)
    assert set(as_completed(futures, programs.WAIT_S)) == set(futures)
    server.close()


def test_a_callback_s_cancelled_call_is_done_for_who_waits(service: Service) -> None:
    begun: list[Future[Any]] = []

    def call_and_cancel(_: Future[Any]) -> None:
        begun.append(client.submit("never sent"))
        begun[0].cancel()

    with answering(service.Server("s")), service.Client("s") as client:
        client.submit(1).add_done_callback(call_and_cancel)
        waiting.until(lambda: begun)
        assert wait(begun, programs.WAIT_S).done == set(begun)


@pytest.mark.check
def test_callbacks_call_while_other_threads_wait_for_their_turn(service: Service) -> None:
    n_left = 4 * _AT_ONCE
    ended = threading.Event()

    def again(future: Future[Any]) -> None:
        nonlocal n_left
        future.result()
        n_left -= 1
        if n_left == 0:
            ended.set()
        elif n_left > 0:
            client.submit(0).add_done_callback(again)

    def call() -> None:
        while not ended.is_set():
            client.submit(0)

    with answering(service.Server("s")), service.Client("s") as client:
        others = [threading.Thread(target=call) for _ in range(2)]
        for thread in others:
            thread.start()
        for _ in range(_AT_ONCE // 2):
            client.submit(0).add_done_callback(again)
        assert ended.wait(programs.WAIT_S)
        for thread in others:
            thread.join(programs.WAIT_S)
            assert not thread.is_alive()


def test_callbacks_call_while_the_servers_have_no_room(service: Service) -> None:
    results: list[Future[Any]] = []
    server = service.Server("s", 2)
    with service.Client("s") as client:

        def more(_: Future[Any]) -> None:
            results.extend(client.submit(i, timeout=None if i else 0.2) for i in range(6))

        client.submit("first").add_done_callback(more)
        server.take().pop().reply(0)
        waiting.until(lambda: len(results) == 6)
        with pytest.raises(WaitTimeoutError):
            results[0].result(programs.WAIT_S)
        with answering(server):
            assert [future.result(programs.WAIT_S) for future in results[1:]] == [1, 2, 3, 4, 5]


@pytest.mark.check
def test_callback_that_exits_ends_no_other_call(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(service.Server("s")), service.Client("s") as client:
        with caplog.at_level(logging.ERROR, logger="concurrent.futures"):
            first = client.submit(1)
            first.add_done_callback(lambda _: sys.exit(3))
            assert first.result(programs.WAIT_S) == 1
            assert client.submit(2).result(programs.WAIT_S) == 2


class Exiting:
    """Unpickling it exits, as a program without a guard does that is imported for its classes."""

    def __reduce__(self) -> Any:
        return sys.exit, (5,)


def test_reply_whose_unpickling_exits_fails_one_call(service: Service) -> None:
    def answer(value: Any) -> object:
        return Exiting() if value == "bad" else value

    with answering(service.Server("s"), answer), service.Client("s") as client:
        bad, good = client.submit("bad"), client.submit(1)
        with pytest.raises(RemoteError, match="cannot be read"):
            bad.result(programs.WAIT_S)
        assert good.result(programs.WAIT_S) == 1
        assert client.submit(2).result(programs.WAIT_S) == 2


def _find_no_memory() -> NoReturn:
    raise MemoryError("of the reply")


class Scarce:
    """Unpickling it finds no memory."""

    def __reduce__(self) -> Any:
        return _find_no_memory, ()


def test_reply_that_finds_no_memory_fails_one_call(service: Service) -> None:
    def answer(value: Any) -> object:
        return Scarce() if value == "bad" else value

    with answering(service.Server("s"), answer), service.Client("s") as client:
        bad, good = client.submit("bad"), client.submit(1)
        with pytest.raises(MemoryError, match="of the reply") as caught:
            bad.result(programs.WAIT_S)
        assert "cannot be read" in str(caught.value.__cause__)
        assert good.result(programs.WAIT_S) == 1
        for ask in (client.call, lambda value: asyncio.run(client.acall(value))):
            with pytest.raises(MemoryError, match="of the reply"):
                ask("bad")
            assert ask(2) == 2
        assert client.submit(3).result(programs.WAIT_S) == 3


@pytest.mark.check
def test_interrupted_submit_leaves_no_call_under_way(service: Service) -> None:
    futures: list[Future[Any]] = []
    left: list[int] = []

    def undo() -> None:
        if futures:  # it was not interrupted
            futures.pop().cancel()
            waiting.until(lambda: under_way(client) == 0)
        left.append(under_way(client))

    with service.Server("s") as server, service.Client("s") as client:
        points = list(everywhere(lambda: futures.append(client.submit(0)), undo=undo))
        assert len(points) > 20 and all(point.came_out for point in points)
        assert set(left) == {0}
        last = client.submit(1)
        server.take(timeout=programs.WAIT_S).pop().reply(2)
        assert last.result(programs.WAIT_S) == 2


def test_interrupted_submit_that_finds_no_room_leaves_no_call_under_way(service: Service) -> None:
    left: list[int] = []
    with service.Server("s", 1) as server, service.Client("s") as client:
        first = client.submit(1)

        def submit() -> None:
            with contextlib.suppress(WaitTimeoutError):
                client.submit(2, timeout=0)

        points = list(everywhere(submit, undo=lambda: left.append(under_way(client))))
        assert any(point.came_out for point in points)
        assert set(left) == {1}
        server.take(timeout=programs.WAIT_S).pop().reply(3)
        assert first.result(programs.WAIT_S) == 3


def test_interrupted_start_of_the_thread_leaves_one_that_reads(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def start_interrupted(thread: threading.Thread) -> None:
        start(thread)
        started.append(thread)
        raise Interrupt

    with answering(service.Server("s")), service.Client("s") as client:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start_interrupted)
            with pytest.raises(Interrupt):
                client.submit(1)
        assert client.submit(2).result(programs.WAIT_S) == 2
        submitted: Any = client._submitted
        started.append(submitted._thread)
        waiting.until(lambda: sum(thread.is_alive() for thread in started) == 1)
        assert client.submit(3).result(programs.WAIT_S) == 3


def test_negative_retries_and_endless_timeouts_are_none(service: Service) -> None:
    with answering(service.Server("s")), service.Client("s") as client:
        assert asyncio.run(client.acall(1, retry=-1)) == 1
        assert client.call(2, retry=-1) == 2
        for forever in (float("inf"), 1e300):
            assert client.submit(3, timeout=forever).result(programs.WAIT_S) == 3
            assert asyncio.run(client.acall(4, timeout=forever)) == 4
