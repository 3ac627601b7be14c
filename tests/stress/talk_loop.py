"""Programs that talk and are killed: ``talk_loop.py <name> <seed> <kills>``.

Writers publish to a topic, and subscribers come and go and check that what they get is whole and in
order. Servers answer, and clients check the answers. Jobs go through a queue, and come back when
their taker is killed. All of them and the manager are killed at random instants. Nobody may fail,
hang or see half a message. Prints kills, messages sent, messages received, answers.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import sys
import time
from typing import Any

import service_loop
from service_loop import HANG_S, Tally, Work, check, value_of

from shmtensor.errors import ServerLostError, WaitTimeoutError
from shmtensor.service import Service

_SENT, _RECEIVED, _ANSWERED = range(3)
TOPICS: dict[str, dict[str, Any]] = {
    "last": {"depth": 4, "history": 2},
    "all": {"overflow": "block"},
}


def publish(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Publish to one topic or the other."""
    topics = [service.Topic(name, **options) for name, options in TOPICS.items()]
    for number in range(10**9):
        topic = rng.choice(topics)
        value = {**value_of(number, rng), "from": os.getpid()}
        with contextlib.suppress(queue.Full):
            topic.publish(value, timeout=0.2)
            tally.add(place, _SENT)
        time.sleep(rng.random() * 0.002)


def subscribe(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Subscribe, receive, go."""
    while True:
        name = rng.choice(list(TOPICS))
        last: dict[int, int] = {}
        topic = service.Topic(name, **TOPICS[name])
        with topic.subscribe(mode=rng.choice(("ro", "rw", "cow"))) as subscription:
            for _ in range(rng.randrange(200)):
                with contextlib.suppress(queue.Empty):
                    value = subscription.get(0.5)
                    check(value)
                    assert value["n"] > last.get(value["from"], -1), "an order is not kept"
                    last[value["from"]] = value["n"]
                tally.add(place, _RECEIVED)
                if rng.random() < 0.01:
                    time.sleep(0.05)


def serve(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Answer one or several requests at once."""
    server = service.Server("double")
    while True:
        with contextlib.suppress(queue.Empty):
            for request in server.take(rng.choice((1, 8)), timeout=0.5):
                check(request.value)
                if rng.random() < 0.01:
                    continue  # let go of it
                request.reply(
                    {**value_of(2 * request.value["n"], rng), "asked": request.value["n"]}
                )
        tally.add(place, _RECEIVED)


def call(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Ask in different ways."""
    client = service.Client("double")
    while True:
        number = rng.randrange(1000)
        value = value_of(number, rng)
        try:
            if rng.random() < 0.2:
                answers = [f.result(HANG_S) for f in [client.submit(value, retry=50)] * 3]
            else:
                answers = [client.call(value, rng.choice((0.05, HANG_S)), rng.choice((0, 50)))]
        except (ServerLostError, WaitTimeoutError):
            tally.add(place, _SENT)
            continue
        for answer in answers:
            check(answer)
            assert answer["n"] == 2 * answer["asked"] == 2 * number, "an answer is another's"
        tally.add(place, _ANSWERED)


def give(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Put jobs, as long as few are there."""
    jobs = service.Queue("jobs", 50)
    while True:
        with contextlib.suppress(queue.Full):
            jobs.put(value_of(rng.randrange(1000), rng), timeout=0.5)
        tally.add(place, _SENT)


def work(service: Service, place: int, tally: Tally, rng: random.Random) -> None:
    """Take jobs, and let go of some."""
    jobs = service.Queue("jobs", 50)
    while True:
        with contextlib.suppress(queue.Empty):
            job = jobs.get(timeout=0.5, ack=True)
            check(job.value)
            if rng.random() < 0.05:
                job.release()
            else:
                job.ack()
        tally.add(place, _RECEIVED)


WORK: tuple[Work, ...] = (
    *(publish,) * 2,
    *(subscribe,) * 3,
    *(serve,) * 2,
    *(call,) * 2,
    give,
    *(work,) * 2,
)


if __name__ == "__main__":
    service_loop.main(sys.argv[1:], WORK)
