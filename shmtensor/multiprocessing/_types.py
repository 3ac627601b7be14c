"""The queue classes as type checkers see them in ``multiprocessing``: without a context argument.

At run time, ``multiprocessing.Queue`` and the others are methods of the default context.
"""

from __future__ import annotations

from collections.abc import Iterable

from shmtensor.multiprocessing import queues

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]


class SimpleQueue(queues.SimpleQueue):
    """Made by ``multiprocessing.SimpleQueue()``."""

    def __init__(self, *, adopt: str | Iterable[str] | None = None) -> None: ...


class Queue(queues.Queue):
    """Made by ``multiprocessing.Queue()``."""

    def __init__(self, maxsize: int = 0, *, adopt: str | Iterable[str] | None = None) -> None: ...


class JoinableQueue(queues.JoinableQueue):
    """Made by ``multiprocessing.JoinableQueue()``."""

    def __init__(self, maxsize: int = 0, *, adopt: str | Iterable[str] | None = None) -> None: ...
