"""What an opener leaves open is settled by the first who says it; a second value is an error.

Not covered: the same for programs in C (tests/capi/names.c).
"""

from __future__ import annotations

import queue
import threading
from typing import Any

import numpy as np
import pytest
import service_programs as programs
import waiting

import shmtensor as T
from shmtensor.service import Service

_OPEN = "import sys, os, shmtensor as T; from shmtensor.service import Service\n"
_OPENER = (
    _OPEN
    + """
service = Service(sys.argv[1])
held = eval(sys.argv[2])
print("open", flush=True)
print(eval(sys.stdin.readline()), flush=True)
"""
)


def _drain(subscription: Any) -> list[object]:
    found: list[object] = []
    while True:
        try:
            found.append(subscription.get(0))
        except queue.Empty:
            return found


# --- topics ---

_SAID = [("depth", 64, 32, 16), ("history", 3, 2, 0), ("overflow", "block", "drop_newest", None)]


@pytest.mark.check
@pytest.mark.parametrize(("what", "said", "other", "default"), _SAID)
def test_what_a_topic_was_not_told_is_settled_by_the_first_who_says_it(
    service: Service, what: str, said: object, other: object, default: object
) -> None:
    frames = service.Topic("frames")
    assert getattr(frames, what) == (default if default is not None else "drop_oldest")
    again = service.Topic("frames", **{what: said})  # type: ignore[arg-type]
    assert getattr(frames, what) == getattr(again, what) == said
    message = f"the topic 'frames' has {what}={said!r}, not {other!r}"
    with pytest.raises(ValueError, match=message):
        service.Topic("frames", **{what: other})  # type: ignore[arg-type]
    assert getattr(service.Topic("frames"), what) == said
    assert getattr(service.Topic("frames", **{what: said}), what) == said  # type: ignore[arg-type]


def test_a_default_that_is_said_is_a_statement(service: Service) -> None:
    frames = service.Topic("frames", depth=16, history=0, overflow="drop_oldest")
    for what, value in (("depth", 17), ("history", 1), ("overflow", "block")):
        with pytest.raises(ValueError, match=f"the topic 'frames' has {what}="):
            service.Topic("frames", **{what: value})  # type: ignore[arg-type]
    assert (frames.depth, frames.history, frames.overflow) == (16, 0, "drop_oldest")


def test_who_contradicts_in_one_thing_says_none(service: Service) -> None:
    frames = service.Topic("frames", depth=4)
    with pytest.raises(ValueError, match="has depth=4, not 5"):
        service.Topic("frames", depth=5, history=2, overflow="block")
    assert (frames.history, frames.overflow) == (0, "drop_oldest")
    jobs = service.Queue("jobs", max_deliveries=2)
    with pytest.raises(ValueError, match="2 times, not 3"):
        service.Queue("jobs", 5, max_deliveries=3)
    assert not jobs.full() and service.Queue("jobs", 7).max_deliveries == 2


def test_a_topic_that_another_program_opened_first(
    service: Service, run: type[programs.Program]
) -> None:
    other = run(_OPENER, service._name, 'service.Topic("frames")')
    assert other.line() == "open"
    frames = service.Topic("frames", depth=64, history=5, overflow="block")
    other.say("held.depth, held.history, held.overflow")
    assert other.line() == "(64, 5, 'block')"
    other.finish()
    assert frames.depth == 64


def test_a_depth_counts_for_subscriptions_to_come(service: Service) -> None:
    frames = service.Topic("frames")
    before = frames.subscribe()
    service.Topic("frames", depth=40)
    after = frames.subscribe()
    for i in range(100):
        frames.publish(i)
    assert _drain(before) == list(range(84, 100)) and before.lost == 84
    assert _drain(after) == list(range(60, 100)) and after.lost == 60


def test_a_depth_below_the_default(service: Service) -> None:
    frames = service.Topic("frames")
    before = frames.subscribe()
    service.Topic("frames", depth=2, overflow="drop_newest")
    after = frames.subscribe()
    for i in range(20):
        frames.publish(i)
    assert _drain(before) == list(range(16)) and _drain(after) == [0, 1]


def test_an_overflow_counts_from_the_next_message_on(service: Service) -> None:
    frames = service.Topic("frames")
    subscription = frames.subscribe()
    for i in range(17):
        frames.publish(i)
    assert subscription.lost == 1
    service.Topic("frames", overflow="block")
    with pytest.raises(queue.Full):
        frames.publish(17, timeout=0)
    assert _drain(subscription) == list(range(1, 17))
    frames.publish(18)
    assert subscription.get(0) == 18 and subscription.lost == 1


def test_a_history_counts_from_the_next_message_on(service: Service) -> None:
    frames = service.Topic("frames")
    frames.publish(1)
    kept = service.Topic("frames", history=2)
    with pytest.raises(queue.Empty):
        kept.latest()
    assert _drain(kept.subscribe()) == []
    for i in (2, T.arange(3), 4):
        frames.publish(i)
    assert kept.latest() == frames.latest() == 4
    found = _drain(service.Topic("frames").subscribe())
    assert len(found) == 2 and found[1] == 4


def test_publishers_at_once_make_one_history(service: Service) -> None:
    frames = service.Topic("frames", depth=1000)
    topics = [service.Topic("frames") for _ in range(6)]
    start = threading.Barrier(6)

    def publish(number: int) -> None:
        start.wait()
        service.Topic("frames", history=100)
        for i in range(10):
            topics[number].publish((number, i))

    threads = [threading.Thread(target=publish, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = _drain(frames.subscribe())
    assert len(found) == 60
    for number in range(6):
        assert [i for n, i in found if n == number] == list(range(10))  # type: ignore[misc]


def test_history_outlives_its_first_publisher(
    service: Service, run: type[programs.Program]
) -> None:
    frames = service.Topic("frames", persist=True)
    source = _OPENER.replace(
        "held = eval(sys.argv[2])", "held = eval(sys.argv[2])\nheld.publish(T.ones(4))"
    )
    other = run(source, service._name, 'service.Topic("frames", history=2)')
    assert other.line() == "open"
    other.kill()
    del frames
    assert service.Topic("frames").latest().tolist() == [1.0] * 4


# --- queues and servers ---


@pytest.mark.check
def test_a_bound_of_a_queue_is_settled_by_the_first_who_says_it(service: Service) -> None:
    jobs = service.Queue("jobs")
    jobs.put(1)
    bounded = service.Queue("jobs", 2, max_deliveries=3)
    assert jobs.max_deliveries == 3
    jobs.put(2)
    assert jobs.full() and bounded.full()
    for end in (jobs, bounded):
        with pytest.raises(queue.Full):
            end.put(3, timeout=0)
    with pytest.raises(ValueError, match="the queue 'jobs' takes 2 messages, not 3"):
        service.Queue("jobs", 3)
    assert jobs.get() == 1
    jobs.put(4, timeout=0)


def test_a_bound_below_what_is_in_the_queue(service: Service) -> None:
    jobs = service.Queue("jobs")
    for i in range(5):
        jobs.put(i)
    service.Queue("jobs", 2)
    with pytest.raises(queue.Full):
        jobs.put(9, timeout=0)
    assert [jobs.get() for _ in range(4)] == [0, 1, 2, 3]
    jobs.put(9, timeout=0)


def test_a_bound_reaches_programs_that_opened_the_queue_before(
    service: Service, run: type[programs.Program]
) -> None:
    other = run(_OPENER, service._name, 'service.Queue("jobs")')
    assert other.line() == "open"
    jobs = service.Queue("jobs", 1)
    jobs.put(1)
    other.say("held.full()")
    assert other.line() == "True"
    other.finish()


@pytest.mark.check
def test_a_bound_of_a_server_that_a_client_opened_first(service: Service) -> None:
    client = service.Client("double")
    server = service.Server("double", 1)
    calls = [client.submit(1)]
    waiting.until(lambda: server._ring.n_messages() == 1)
    with pytest.raises((queue.Full, TimeoutError)):
        client.call(2, timeout=0.1)
    server.take()[0].reply(5)
    assert calls[0].result(10) == 5
    with pytest.raises(ValueError, match="the server 'double' takes 1 messages, not 2"):
        service.Server("double", 2)
    service.Server("double", 1)


# --- semaphores ---


@pytest.mark.check
def test_permits_are_settled_by_the_first_who_says_how_many(service: Service) -> None:
    some = service.Semaphore("permits")
    assert some.value == 1 and some.acquire() and not some.acquire(blocking=False)
    three = service.Semaphore("permits", 3)
    assert some.value == three.value == 2
    assert some.acquire(False) and three.acquire(False) and not some.acquire(False)
    for n in (1, 2, 4):
        with pytest.raises(
            ValueError, match=f'"permits" is in use as a semaphore of 3 places, not of {n}'
        ):
            service.Semaphore("permits", n)
    with pytest.raises(ValueError, match="3 places, not of 1"):
        service.Lock("permits")
    assert "some permits" in repr(some) and "3 permits" in repr(three)
    some.release()
    some.release()
    three.release()


def test_who_waits_for_a_permit_gets_one_that_is_settled(service: Service) -> None:
    some = service.Semaphore("more")
    got: list[bool] = []
    with some:
        waiter = threading.Thread(target=lambda: got.append(some.acquire(timeout=30)))
        waiter.start()
        service.Semaphore("more", 2)
        waiter.join()
    assert got == [True]
    some.release()


def test_one_permit_that_is_said_stays_one(service: Service) -> None:
    lock = service.Lock("lock")
    assert service.Semaphore("lock").value == 1
    with pytest.raises(ValueError, match="1 places, not of 2"):
        service.Semaphore("lock", 2)
    with lock:
        assert service.Semaphore("lock").value == 0


@pytest.mark.parametrize("n", [0, -1, 233])
def test_a_number_of_permits_that_cannot_be(service: Service, n: int) -> None:
    with pytest.raises(ValueError, match=rf"1 to 232 places, got {n}|{n} places, at most 232"):
        service.Semaphore("none", n)


# --- persist ---


@pytest.mark.parametrize("kind", ["Queue", "Topic", "Event", "Server"])
def test_who_says_persist_later_is_heard(service: Service, kind: str) -> None:
    make = getattr(service, kind)
    first = make("it")
    assert not service.list()["it"].persists
    second = make("it", persist=True)
    before = service.list()["it"]
    assert before.persists
    third = make("it")
    first.close(), second.close(), third.close()
    del first, second, third
    waiting.until(lambda: service.list()["it"].persists)
    assert service.list()["it"].version == before.version
    make("it", persist=True).close()
    service.unpublish("it")


def test_a_queue_that_persists_later_keeps_its_messages(
    service: Service, run: type[programs.Program]
) -> None:
    other = run(_OPENER, service._name, 'service.Queue("jobs")')
    assert other.line() == "open"
    service.Queue("jobs", persist=True).close()
    other.say("held.put(T.ones(3)), os._exit(0)")
    other.finish()
    jobs = service.Queue("jobs")
    assert np.asarray(jobs.get(timeout=10)).tolist() == [1, 1, 1]
    service.unpublish("jobs")


# --- what the maker says ---


def test_what_the_maker_says_is_there_before_the_name_is(service: Service) -> None:
    """Another thread opens each name at the moment when it is there, and says nothing of it."""
    names = [f"made-{i}" for i in range(300)]
    seen: list[Any] = []

    def look() -> None:
        for i, name in enumerate(names):
            service._handle.wait_newer(name, 0, 10_000)
            seen.append(service.Topic(name)._said() if i % 2 else service.Queue(name)._maxsize)

    other = threading.Thread(target=look)
    other.start()
    made: list[Any] = []
    for i, name in enumerate(names):
        made.append(
            service.Topic(name, depth=256, history=3, overflow="block")
            if i % 2
            else service.Queue(name, 7)
        )
        if i % 10 == 9:
            waiting.until(lambda i=i: len(seen) == i + 1)
    other.join()
    assert seen == [[256, 3, "block"] if i % 2 else 7 for i in range(300)]
