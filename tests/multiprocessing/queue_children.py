"""What the child processes of the queues' tests run; importable under every start method."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.connection import wait
from typing import Any

import shmtensor as st


def put_numbers(queue: Any, n: int, nbytes: int) -> None:
    """Put many messages, more than fit, and return."""
    for i in range(n):
        queue.put((i, b"x" * nbytes))


def put_and_cancel(queue: Any, n: int, nbytes: int) -> None:
    """The same, not caring for their arrival."""
    put_numbers(queue, n, nbytes)
    queue.cancel_join_thread()


def echo_until_alone(inbox: Any, outbox: Any) -> None:
    """Send everything back until nobody is left who could put more."""
    inbox._writer.close()
    outbox._reader.close()
    while True:
        try:
            item = inbox.get()
        except EOFError:
            return
        outbox.put(item)


def echo_when_readable(inbox: Any, outbox: Any) -> None:
    """Send everything back, waiting for each message by descriptor."""
    while True:
        wait([inbox._reader])
        if not inbox.empty():
            outbox.put(inbox.get())


def put_for_ever(queue: Any) -> None:
    """Put one message after the other."""
    while True:
        queue.put((1, 2, 3))


def forward(queue: Any, report: Any) -> None:
    """Pass everything on until killed."""
    while True:
        report.put(queue.get())


def put_and_be_killed(queue: Any, n: int) -> None:
    """Put tensors, then die without a word."""
    for i in range(n):
        queue.put((i, st.full((100,), float(i))))
    os.kill(os.getpid(), signal.SIGKILL)


def put_large_and_be_killed(queue: Any, n: int) -> None:
    """Put more than fits, then die while some of it waits for room."""
    for i in range(n):
        queue.put((i, b"x" * 30_000))
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_holding(queue: Any) -> None:
    """Keep the queue and do nothing until killed."""
    assert queue is not None
    while True:
        time.sleep(10)


def answer_all(pairs: Any) -> None:
    """Send back what comes in any of many queues; ends when each has had None."""
    inboxes = {inbox.fileno(): (inbox, outbox) for inbox, outbox in pairs}
    while inboxes:
        for fd in wait(list(inboxes)):
            inbox, outbox = inboxes[fd]
            item = inbox.get()
            if item is None:
                del inboxes[fd]
            else:
                outbox.put(item)
