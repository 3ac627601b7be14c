"""Messages that raise while they are opened what means something else to who takes them.

Not covered: what interrupts the taker (test_interrupts.py); requests, which are answered with the
error (test_calls.py).
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any

import pytest
import service_programs as programs

from shmtensor.service import Delivery, Service

_N_AT_ONCE = 256  # as many messages are taken in one step

_n_opened = 0


class _Raises:
    """Raises *error* when it is opened, until it was opened *n* times."""

    def __init__(self, error: type[BaseException], n: int = 1 << 30) -> None:
        self.error, self.n = error, n

    def __reduce__(self) -> Any:
        global _n_opened
        _n_opened = 0
        return _opened, (self.error, self.n)


def _opened(error: type[BaseException], n: int) -> str:
    global _n_opened
    _n_opened += 1
    if _n_opened <= n:
        raise error("of the message")
    return "opened"


def _wait(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, programs.WAIT_S))


def _value(delivery: Delivery[Any]) -> Any:
    with delivery:
        return delivery.value


@pytest.mark.check
@pytest.mark.parametrize(
    "take",
    [
        lambda taker: taker.get(0.0),
        lambda taker: taker.get_many(9, 0.0)[0],
        lambda taker: taker.latest(0.0),
        lambda taker: _wait(taker.aget()),
    ],
    ids=["get", "get_many", "latest", "aget"],
)
def test_subscriber_gets_the_error_of_the_message(
    service: Service, take: Callable[[Any], Any]
) -> None:
    topic = service.Topic("topic")
    with topic.subscribe() as messages:
        topic.publish(_Raises(queue.Empty))
        with pytest.raises(queue.Empty, match="of the message"):
            take(messages)
        topic.publish(1)
        assert take(messages) == 1


def test_latest_gives_the_error_and_then_the_older_one(service: Service) -> None:
    topic = service.Topic("topic")
    with topic.subscribe() as messages:
        topic.publish(1)
        topic.publish(_Raises(queue.Empty))
        with pytest.raises(queue.Empty, match="of the message"):
            messages.latest(0.0)
        assert messages.latest(0.0) == 1


@pytest.mark.parametrize(
    "take",
    [
        lambda taker: taker.get(timeout=0.0),
        lambda taker: taker.get_many(9, 0.0)[0],
        lambda taker: _value(taker.get(timeout=0.0, ack=True)),
        lambda taker: _value(taker.get_many(9, 0.0, ack=True)[0]),
        lambda taker: _wait(taker.aget()),
        lambda taker: _value(_wait(taker.aget(ack=True))),
    ],
    ids=["get", "get_many", "get-ack", "get_many-ack", "aget", "aget-ack"],
)
@pytest.mark.parametrize("error", [queue.Empty, queue.Full, EOFError])
def test_taker_gets_the_error_of_the_message(
    service: Service, take: Callable[[Any], Any], error: type[Exception]
) -> None:
    jobs = service.Queue("jobs")
    jobs.put(_Raises(error))
    with pytest.raises(error, match="of the message"):
        take(jobs)
    jobs.put(1)
    assert take(jobs) == 1


@pytest.mark.parametrize("ack", [False, True])
def test_the_error_of_a_message_behind_others_is_reported(
    service: Service, ack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: reported.append(args.exc_type))
    jobs = service.Queue("jobs")
    jobs.put_many([*range(_N_AT_ONCE), _Raises(queue.Empty), 7])
    taken: list[Any] = jobs.get_many(_N_AT_ONCE + 2, 0.0, ack=ack)
    values = [_value(each) for each in taken] if ack else taken
    assert values == [*range(_N_AT_ONCE), 7]
    assert reported == [queue.Empty]
    assert jobs.qsize() == 0


@pytest.mark.parametrize(
    "take",
    [
        lambda taker: taker.get(timeout=0.0),
        lambda taker: taker.get_many(1, 0.0)[0],
        lambda taker: _value(taker.get(timeout=0.0, ack=True)),
        lambda taker: _wait(taker.aget()),
    ],
    ids=["get", "get_many", "get-ack", "aget"],
)
def test_message_for_which_memory_was_short_is_opened_once_more(
    service: Service, take: Callable[[Any], Any]
) -> None:
    jobs = service.Queue("jobs")
    jobs.put_many([_Raises(MemoryError, 1), 2])
    with pytest.raises(MemoryError):
        take(jobs)
    assert take(jobs) == "opened"
    assert take(jobs) == 2
    jobs.put_many([_Raises(MemoryError), 2])
    for _ in range(2):
        with pytest.raises(MemoryError):
            take(jobs)
    assert take(jobs) == 2
    assert jobs.qsize() == 0


def test_any_number_is_a_bound(service: Service) -> None:
    jobs, topic, server = service.Queue("jobs"), service.Topic("topic"), service.Server("server")
    jobs.put_many([1, 2])
    assert jobs.get_many(1 << 63, 0.0) == [1, 2]
    jobs.put(3)
    [job] = jobs.get_many(1 << 200, 0.0, ack=True)
    job.ack()
    with topic.subscribe() as messages:
        topic.publish(4)
        assert messages.get_many(1 << 63, 0.0) == [4]
    asked = service.Client("server").submit(5)
    [request] = server.take(1 << 63)
    request.reply(6)
    assert asked.result(programs.WAIT_S) == 6
    for least in (0, -1, -(1 << 63), -(1 << 200)):
        for get_many in (jobs.get_many, lambda n: jobs.get_many(n, ack=True)):
            with pytest.raises(ValueError, match="at least 1"):
                get_many(least)
        with pytest.raises(ValueError, match="at least 1"):
            server.take(least)
