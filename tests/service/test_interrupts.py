"""Exceptions from signal handlers in every place: nothing stays taken, nothing stays held."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import interrupts
import pytest
import service_programs as programs

import shmtensor as T
from shmtensor import inspect, nn
from shmtensor.service import Delivery, Service

_MB = 1 << 20


def _with(lock: T.service.Semaphore) -> None:
    with lock:
        pass


def _acquire(lock: T.service.Semaphore) -> None:
    lock.acquire(timeout=5.0)


def _release_all(lock: T.service.Semaphore) -> None:
    with contextlib.suppress(ValueError):
        while True:
            lock.release()


@pytest.mark.check
@pytest.mark.parametrize("n", [1, 3])
def test_with_leaves_no_permit_taken(service: Service, n: int) -> None:
    lock = service.Lock("with") if n == 1 else service.Semaphore("with 3", n)
    for point in interrupts.everywhere(lambda: _with(lock)):
        assert lock.value == n, point
    for _ in interrupts.at_random(lambda: _with(lock), 1000, seed=n):
        assert lock.value == n


def test_object_knows_what_an_interrupted_acquire_took(service: Service) -> None:
    lock = service.Lock("acquire")
    for point in interrupts.everywhere(lambda: _acquire(lock), undo=lambda: _release_all(lock)):
        assert not lock.locked(), point
    for _ in interrupts.at_random(lambda: _acquire(lock), 1000, seed=3):
        _release_all(lock)
        assert not lock.locked()


def test_interrupted_wait_for_a_taken_lock_takes_nothing(service: Service) -> None:
    owner, waiter = service.Lock("kept"), service.Lock("kept")
    with owner:
        n = sum(
            interrupts.at_random(
                lambda: waiter.acquire(timeout=programs.WAIT_S), 20, seed=4, longest_s=0.01
            )
        )
    assert n == 20
    assert not owner.locked()
    with pytest.raises(ValueError, match="no permit"):
        waiter.release()


@pytest.mark.check
def test_interrupted_party_leaves_no_arrival_behind(service: Service) -> None:
    barrier = service.Barrier("ghosts", 2)

    def wait() -> None:
        with contextlib.suppress(TimeoutError):
            barrier.wait(timeout=0)

    for point in interrupts.everywhere(wait):
        assert barrier.n_waiting == 0, point
    waits = interrupts.at_random(
        lambda: barrier.wait(timeout=programs.WAIT_S), 50, seed=5, longest_s=0.005
    )
    for came_out in waits:
        assert came_out
        assert barrier.n_waiting == 0
    results: list[bool] = []
    other = threading.Thread(target=lambda: results.append(barrier.wait()))
    other.start()
    results.append(barrier.wait(timeout=programs.WAIT_S))
    other.join(programs.WAIT_S)
    assert sorted(results) == [False, True]


def test_interrupted_delivery_goes_back(service: Service) -> None:
    jobs = service.Queue("deliveries")
    jobs.put([1, T.ones(3)])
    n_calls = 0

    def get() -> None:
        jobs.get(timeout=programs.WAIT_S, ack=True)

    def check() -> None:
        gc.collect()
        assert jobs.qsize() == 1 and jobs.n_unacknowledged == 0

    for point in interrupts.everywhere(get, undo=check):
        n_calls += 1
        assert jobs.qsize() == 1, point
    for _ in interrupts.at_random(get, 300, seed=8, longest_s=500e-6):
        check()
    with jobs.get(ack=True) as job:
        assert job.value[1].sum() == 3
    jobs.join()
    assert n_calls > 5


def _run(coroutine: Any) -> Any:
    """Run a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


@pytest.mark.parametrize("as_", ["shmtensor", "numpy"])
@pytest.mark.parametrize(
    "take",
    [
        lambda taker: taker.get(0.0),
        lambda taker: taker.get_many(1, 0.0)[0],
        lambda taker: _run(taker.aget()),
    ],
    ids=["get", "get_many", "aget"],
)
def test_what_an_interrupted_taker_took_is_taken_next(
    service: Service, take: Callable[[Any], Any], as_: Any
) -> None:
    jobs, frames = service.Queue("jobs", as_=as_), service.Topic("frames")
    with frames.subscribe(as_=as_) as messages:
        for taker, put in ((jobs, jobs.put), (messages, frames.publish)):
            _check_that_one_is_taken(lambda taker=taker: take(taker), taker, put)


def _check_that_one_is_taken(take: Callable[[], Any], taker: Any, put: Any) -> None:
    seen: list[int] = []

    def take_again() -> None:
        while taker.qsize():
            seen.append(taker.get(0.0))
        assert seen == [7]
        seen.clear()
        put(7)

    put(7)
    points = list(interrupts.everywhere(lambda: seen.append(take()), undo=take_again))
    assert any(point.came_out for point in points)


@pytest.mark.parametrize("as_", ["shmtensor", "numpy"])
def test_interrupted_reader_of_the_latest_finds_it_again(service: Service, as_: Any) -> None:
    frames = service.Topic("frames")
    seen: list[int] = []
    with frames.subscribe(as_=as_) as messages:

        def publish() -> None:
            for n in range(3):
                frames.publish(n)

        def read_again() -> None:
            while messages.qsize():
                seen.append(messages.latest(0.0))
            assert seen[-1] == 2
            seen.clear()
            publish()

        publish()
        points = list(
            interrupts.everywhere(lambda: seen.append(messages.latest(0.0)), undo=read_again)
        )
        assert any(point.came_out for point in points)


def test_interrupted_acknowledgement_is_given_once(service: Service) -> None:
    jobs = service.Queue("acknowledged")

    def work() -> None:
        jobs.put(1)
        with jobs.get(timeout=programs.WAIT_S, ack=True):
            pass

    def finish() -> None:
        gc.collect()
        while jobs.qsize():
            jobs.get(ack=True).ack()
        assert jobs.n_unacknowledged == 0

    for _ in interrupts.everywhere(work, undo=finish):
        pass
    for _ in interrupts.at_random(work, 300, seed=9, longest_s=500e-6):
        finish()
    jobs.join()


@pytest.mark.parametrize("first", ["ack", "release"])
@pytest.mark.parametrize("second", ["ack", "release"])
def test_what_settles_a_delivery_can_be_repeated_after_an_interrupt(
    service: Service, first: str, second: str
) -> None:
    jobs = service.Queue("jobs")
    held: list[Delivery[Any]] = []
    texts: list[str] = []

    def begin() -> None:
        jobs.put(1)
        held.append(jobs.get(timeout=programs.WAIT_S, ack=True))

    def repeat() -> None:
        delivery, text = held.pop(), ""
        try:
            getattr(delivery, second)()
        except RuntimeError as error:
            text = str(error)
        is_back = any(word in text for word in ("released", "given back"))
        assert jobs.qsize() == (is_back or (not text and second == "release")), text
        assert jobs.n_unacknowledged == 0
        texts.append(text)
        while jobs.qsize():
            jobs.get(ack=True).ack()
        begin()

    begin()
    points = list(interrupts.everywhere(lambda: getattr(held[0], first)(), undo=repeat))
    assert all(point.came_out for point in points)
    assert all(texts[:1] + texts[-1:]), "those two were not interrupted"
    if first == second:
        assert not any(texts[1:-1])
    held.pop().ack()
    jobs.join()


def test_interrupt_of_an_acknowledgement_in_a_with_block_comes_out(service: Service) -> None:
    jobs = service.Queue("jobs")

    def work() -> None:
        jobs.put(1)
        with jobs.get(timeout=programs.WAIT_S, ack=True) as job:
            job.ack()

    def finish() -> None:
        gc.collect()
        while jobs.qsize():
            jobs.get(ack=True).ack()
        assert jobs.n_unacknowledged == 0

    points = list(interrupts.everywhere(work, undo=finish))
    assert all(point.came_out for point in points)
    jobs.join()


def _used_bytes(service: Service) -> int:
    """Bytes of the blocks that anybody has."""
    gc.collect()
    (session,) = inspect.open_sessions(service._name)
    with session:
        session.trim()  # sweeps
        return session.snapshot().used_bytes


def _empty(service: Service) -> Callable[[], object]:
    return lambda: service.empty(_MB // 4)


def _publish(service: Service) -> Callable[[], object]:
    value = {"a": T.ones(_MB // 4), "b": [T.ones(3), 1, None]}
    return lambda: service.publish("value", value)


def _attach(mode: str) -> Callable[[Service], Callable[[], object]]:
    def prepare(service: Service) -> Callable[[], object]:
        def attach() -> None:
            service.attach("value", mode)

        return attach

    return prepare


def _attach_module(service: Service) -> Callable[[], object]:
    return lambda: service.attach_module("module")


def _wait_newer(service: Service) -> Callable[[], object]:
    return lambda: service.wait_newer("value", 0)


@pytest.mark.parametrize(
    "prepare",
    [_empty, _publish, _attach("rw"), _attach("ro"), _attach("cow"), _attach_module, _wait_newer],
    ids=["empty", "publish", "rw", "ro", "cow", "attach_module", "wait_newer"],
)
def test_no_memory_stays_held(
    service: Service, prepare: Callable[[Service], Callable[[], object]]
) -> None:
    before = _used_bytes(service)
    call = prepare(service)

    def renew() -> None:
        # What an interrupted call still holds of the last versions is never free again.
        service.publish("value", T.ones(_MB // 4))
        service.publish_module("module", nn.Linear(512, 512, bias=False))

    renew()
    for _ in interrupts.everywhere(call, undo=renew):
        pass
    for _ in interrupts.at_random(call, 100, seed=6, longest_s=500e-6):
        renew()
    service.unpublish("value")
    service.unpublish("module")
    assert _used_bytes(service) <= before  # a name of an earlier test may have gone meanwhile


def test_interrupted_publish_and_unpublish_are_done_or_not(service: Service) -> None:
    versions = [0]

    def publish() -> None:
        service.publish("counted", 1)

    def check() -> None:
        versions.append(service.version("counted"))
        assert versions[-1] - versions[-2] in (0, 1)

    service.publish("counted", 0)
    versions.append(service.version("counted"))
    for _ in interrupts.everywhere(publish, undo=check):
        assert service.attach("counted") == 1

    def unpublish() -> None:
        with contextlib.suppress(KeyError):
            service.unpublish("counted")

    for _ in interrupts.everywhere(unpublish):
        assert service.list().keys() <= {"counted"}
        service.publish("counted", 1)


def test_interrupted_close_of_a_client_can_be_repeated(service: Service) -> None:
    made: list[tuple[Any, list[Any]]] = []

    def begin() -> None:
        client = service.Client("nobody answers")
        made.append((client, [client.submit(i) for i in range(2)]))

    def close_again() -> None:
        client, futures = made.pop()
        client.close()
        assert all(future.cancelled() for future in futures), futures
        assert not wait(futures, programs.WAIT_S).not_done
        begin()

    begin()
    for _ in interrupts.everywhere(lambda: made[-1][0].close(), undo=close_again):
        pass
    made.pop()[0].close()


def test_interrupted_end_of_a_subscription_can_be_repeated(service: Service) -> None:
    topic = service.Topic("ended", depth=1, overflow="block")
    made: list[Any] = []

    def begin() -> None:
        made.append(topic.subscribe())
        topic.publish(1)

    def close_again() -> None:
        made[-1].close()
        assert topic.n_subscribers == 0
        topic.publish(2, timeout=programs.WAIT_S)  # nobody is left who has no room
        begin()

    begin()
    for _ in interrupts.everywhere(lambda: made[-1].close(), undo=close_again):
        pass
    made[-1].close()
