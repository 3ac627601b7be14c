"""What the child processes of the queues' tests run; importable under every start method."""

from __future__ import annotations

from multiprocessing.connection import wait
from typing import Any


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
