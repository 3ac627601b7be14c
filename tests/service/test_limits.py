"""Numbers that are bounded: what is above a bound is refused, or comes in full.

Not covered: lengths of names (test_many_names.py, test_locks.py), topics (test_topics.py).
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import waiting

import shmtensor as T
from shmtensor import multiprocessing
from shmtensor._cli.top import _Snapshots
from shmtensor.inspect import Queue, Session
from shmtensor.service import Service

_MANY = 600  # more than C takes at once


@pytest.mark.check
def test_many_messages_come_at_once(service: Service) -> None:
    jobs, topic = service.Queue("jobs"), service.Topic("frames", depth=_MANY)
    numbers = list(range(_MANY))
    with topic.subscribe() as frames:
        jobs.put_many(numbers)
        for number in numbers:
            topic.publish(number)
        assert jobs.get_many(_MANY + 1, timeout=0.0) == numbers
        assert frames.get_many(_MANY - 1, timeout=0.0) == numbers[:-1]
        assert frames.get_many(9) == numbers[-1:]
    jobs.put_many(numbers)
    taken = jobs.get_many(_MANY + 1, timeout=0.0, ack=True)
    assert [delivery.value for delivery in taken] == numbers
    assert jobs.n_unacknowledged == _MANY
    for delivery in taken:
        delivery.ack()


def test_many_requests_come_at_once(service: Service) -> None:
    server = service.Server("double")
    clients = [service.Client("double") for _ in range(2)]
    futures = [client.submit(n) for client in clients for n in range(_MANY // 2)]
    waiting.until(lambda: server.qsize() == _MANY)
    batch = server.take(_MANY + 1)
    assert len(batch) == _MANY
    for request in batch:
        request.reply(request.value * 2)
    assert [f.result(waiting.HANG_S) for f in futures] == [2 * n for n in range(_MANY // 2)] * 2


@pytest.mark.parametrize("kind", ["Queue", "Server"])
def test_bound_that_is_too_large_is_refused(service: Service, kind: str) -> None:
    make = getattr(service, kind)
    with pytest.raises(ValueError, match=r"maxsize must be at most 2147483647, got 2147483648"):
        make("bounded", maxsize=1 << 31)
    assert make("bounded", maxsize=(1 << 31) - 1).name == "bounded"


#: What takes a count, by the number that it is to take.
_COUNTS: dict[str, Callable[[Service, Any], object]] = {
    "Queue": lambda service, n: service.Queue("q", n),
    "max_deliveries": lambda service, n: service.Queue("q", max_deliveries=n),
    "Server": lambda service, n: service.Server("s", n),
    "depth": lambda service, n: service.Topic("t", depth=n),
    "history": lambda service, n: service.Topic("t", history=n),
    "Semaphore": lambda service, n: service.Semaphore("m", n),
    "Barrier": lambda service, n: service.Barrier("b", n),
    "take": lambda service, n: _empty(lambda: service.Server("s").take(n, timeout=0.0)),
    "get_many": lambda service, n: _empty(lambda: service.Queue("q").get_many(n, timeout=0.0)),
    "get_many with ack": lambda service, n: _empty(
        lambda: service.Queue("q").get_many(n, timeout=0.0, ack=True)
    ),
    "frames": lambda service, n: _empty(
        lambda: service.Topic("t").subscribe().get_many(n, timeout=0.0)
    ),
    "retry": lambda service, n: service.Client("s").submit(1, retry=n).cancel(),
    "pulse": lambda service, n: service.Event("e").pulse(n),
    "loan": lambda service, n: service.Topic("t").loan(n),
    "queue": lambda service, n: multiprocessing.Queue(n).close(),
    "queue of jobs": lambda service, n: multiprocessing.JoinableQueue(n).close(),
}


def _empty(take: Callable[[], object]) -> None:
    with pytest.raises(Empty):
        take()


@pytest.mark.parametrize("name", _COUNTS)
def test_counts_are_integers_of_any_library(service: Service, name: str) -> None:
    _COUNTS[name](service, np.int64(3))
    _COUNTS[name](service, T.tensor(3))
    for wrong in (3.0, np.float64(3.0), "3"):
        with pytest.raises(TypeError):
            _COUNTS[name](service, wrong)


@pytest.mark.parametrize("as_", ["shmtensor", "numpy"])
def test_memory_that_no_machine_has_is_refused(service: Service, as_: Any) -> None:
    topic = service.Topic("frames")
    for make in (service.empty, topic.loan):
        for sizes in ((1 << 62,), (1 << 59,), (1 << 60, 1), (1 << 40, 1 << 40), (1 << 80,)):
            with pytest.raises(MemoryError):
                make(*sizes, dtype=T.float64, as_=as_)
        with pytest.raises(ValueError, match="cannot be negative"):
            make(2, -1, as_=as_)
        for dtype in (T.float64, *(["U3"] if as_ == "numpy" else [])):
            with pytest.raises(RuntimeError, match="at most 64 sizes are possible, got 65"):
                make([1] * 65, dtype=dtype, as_=as_)


def test_rate_of_another_queue_in_the_same_block_is_not_told() -> None:
    session, before = cast("Session", SimpleNamespace(name="s")), _Snapshots()

    def rate(n_put: int, at_s: float) -> float:
        queue: Any = SimpleNamespace(block=7, n_put=n_put)
        return before.put_per_s(session, cast("Queue", queue), at_s)

    assert rate(2**32 - 5, 0.0) == 0
    assert rate(5, 1.0) == 10  # the counter has 32 bits
    assert rate(3, 2.0) == 0  # it belongs to another queue
    assert rate(9, 4.0) == 3
