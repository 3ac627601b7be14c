"""What a thread or task waits for is closed by another one: the wait ends, and says so."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from queue import Empty
from typing import Any

import pytest
import service_programs as programs

from shmtensor.service import Service, Subscription, await_any, wait_any

#: How long a wait has begun before it is closed. A later one finds it closed at once.
_BEGUN_S = 0.1


async def listed(things: AsyncIterator[Any]) -> list[Any]:
    return [thing async for thing in things]


def subscription(service: Service) -> Any:
    return service.Topic("t").subscribe()


def server(service: Service) -> Any:
    return service.Server("s")


def queue(service: Service) -> Any:
    return service.Queue("q")


#: Name: what makes the thing; the wait; what it gives, or None if it raises ValueError.
WAITS: dict[str, tuple[Callable[[Service], Any], Callable[[Any], Any], Any]] = {
    "get": (subscription, lambda s: s.get(), None),
    "get_many": (subscription, lambda s: s.get_many(3), None),
    "latest": (subscription, lambda s: s.latest(), None),
    "poll": (subscription, lambda s: s.poll(None), None),
    "iterate": (subscription, list, []),
    "wait for any": (subscription, lambda s: wait_any([s]), None),
    "take": (server, lambda s: s.take(), None),
    "iterate over requests": (server, list, []),
    "wait for any request": (server, lambda s: wait_any([s]), None),
}
AWAITS: dict[str, tuple[Callable[[Service], Any], Callable[[Any], Any], Any]] = {
    "aget": (subscription, lambda s: s.aget(), None),
    "iterate": (subscription, listed, []),
    "await any": (subscription, lambda s: await_any([s]), None),
    "atake": (server, lambda s: s.atake(), None),
    "iterate over requests": (server, listed, []),
    "aget from a queue": (queue, lambda q: q.aget(), None),
    "aget with ack": (queue, lambda q: q.aget(ack=True), None),
}


@pytest.mark.check
@pytest.mark.parametrize("what", WAITS)
def test_another_thread_closes(what: str, service: Service) -> None:
    make, wait, expected = WAITS[what]
    thing = make(service)
    ended: list[Any] = []

    def run() -> None:
        try:
            ended.append(wait(thing))
        except ValueError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(_BEGUN_S)
    thing.close()
    thread.join(programs.WAIT_S)
    assert not thread.is_alive()
    _check(ended.pop(), expected)


@pytest.mark.check
@pytest.mark.parametrize("what", AWAITS)
def test_another_task_closes(what: str, service: Service) -> None:
    make, wait, expected = AWAITS[what]

    async def run() -> Any:
        thing = make(service)
        task = asyncio.ensure_future(wait(thing))
        await asyncio.wait([task], timeout=_BEGUN_S)
        thing.close()
        await asyncio.wait([task], timeout=programs.WAIT_S)
        assert task.done()
        return task.exception() or task.result()

    _check(asyncio.run(run()), expected)


def _check(got: Any, expected: Any) -> None:
    if expected is None:
        assert isinstance(got, ValueError) and "close" in str(got)
    else:
        assert got == expected


@pytest.mark.parametrize("n_waiting", [0, 2])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("what", ["get", "get_many", "latest", "aget", "poll"])
def test_subscription_is_closed_after_it_was_found_open(
    what: str, nth: int, n_waiting: int, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`nth`: of the looks whether it is open, the one after which another thread closes it."""
    find_open, looks = Subscription._check_open, iter(range(1, 100))

    def close_after(self: Subscription) -> None:
        find_open(self)
        if next(looks) == nth:
            self.close()

    takes: dict[str, Callable[[Any], Any]] = {
        "get": lambda s: s.get(0.0),
        "get_many": lambda s: s.get_many(3, 0.0),
        "latest": lambda s: s.latest(0.0),
        "aget": lambda s: asyncio.run(s.aget()),
        "poll": lambda s: s.poll(0.0),
    }
    topic = service.Topic("t")
    subscribed = topic.subscribe()
    for number in range(n_waiting):
        topic.publish(number)
    monkeypatch.setattr(Subscription, "_check_open", close_after)
    if nth == 1 or (what == "aget" and n_waiting == 0):
        with pytest.raises(ValueError, match="used after close"):
            takes[what](subscribed)
    else:  # it ends before the second look
        with contextlib.suppress(Empty):
            takes[what](subscribed)
        subscribed.close()


def test_subscription_is_closed_while_the_latest_value_is_sought(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Subscription.qsize

    def close_after(self: Subscription) -> int:
        n = count(self)
        self.close()
        return n

    topic = service.Topic("t")
    subscribed = topic.subscribe()
    for number in range(2):
        topic.publish(number)
    monkeypatch.setattr(Subscription, "qsize", close_after)
    with pytest.raises(ValueError, match="used after close"):
        subscribed.latest(0.0)


def test_what_came_before_is_not_lost(service: Service) -> None:
    """The iteration gives what was published before, and ends when it waits again."""

    async def run() -> list[Any]:
        topic = service.Topic("t")
        subscribed = topic.subscribe()
        task = asyncio.ensure_future(listed(subscribed))
        await asyncio.sleep(0)
        topic.publish(1)
        topic.publish(2)
        while subscribed.qsize():
            await asyncio.sleep(0.01)
        subscribed.close()
        return await asyncio.wait_for(task, programs.WAIT_S)

    assert asyncio.run(run()) == [1, 2]
