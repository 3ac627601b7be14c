"""Numbers that are bounded: what is above a bound is refused, or comes in full.

Not covered: lengths of names (test_many_names.py, test_locks.py), topics (test_topics.py).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import waiting

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


def test_rate_of_another_queue_in_the_same_block_is_not_told() -> None:
    session, before = cast("Session", SimpleNamespace(name="s")), _Snapshots()

    def rate(n_put: int, at_s: float) -> float:
        queue: Any = SimpleNamespace(block=7, n_put=n_put)
        return before.put_per_s(session, cast("Queue", queue), at_s)

    assert rate(2**32 - 5, 0.0) == 0
    assert rate(5, 1.0) == 10  # the counter has 32 bits
    assert rate(3, 2.0) == 0  # it belongs to another queue
    assert rate(9, 4.0) == 3
