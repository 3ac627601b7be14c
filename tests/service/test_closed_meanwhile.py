"""What a thread or task waits for is closed by another one: the wait ends, and says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import service_programs as programs

from shmtensor.service import Service, await_any, wait_any

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
