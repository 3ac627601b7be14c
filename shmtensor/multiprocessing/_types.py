"""The queue classes as type checkers see them in ``multiprocessing``: without a context argument.

At run time, ``multiprocessing.Queue`` and the others are methods of the default context.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, overload

from shmtensor.multiprocessing import context, queues
from shmtensor.multiprocessing.queues import _T

__all__ = ["JoinableQueue", "Queue", "SimpleQueue", "get_context"]


@overload
def get_context(method: None = None) -> context.DefaultContext: ...
@overload
def get_context(method: Literal["fork"]) -> context.ForkContext: ...
@overload
def get_context(method: Literal["spawn"]) -> context.SpawnContext: ...
@overload
def get_context(method: Literal["forkserver"]) -> context.ForkServerContext: ...
@overload
def get_context(method: str) -> context.BaseContext: ...
def get_context(method: str | None = None) -> context.BaseContext:
    """Stand for the method of the default context."""
    return context._default_context.get_context(method)


class SimpleQueue(queues.SimpleQueue[_T]):
    """Made by ``multiprocessing.SimpleQueue()``."""

    def __init__(self, *, adopt: str | Iterable[str] | None = None) -> None: ...


class Queue(queues.Queue[_T]):
    """Made by ``multiprocessing.Queue()``."""

    def __init__(self, maxsize: int = 0, *, adopt: str | Iterable[str] | None = None) -> None: ...


class JoinableQueue(queues.JoinableQueue[_T]):
    """Made by ``multiprocessing.JoinableQueue()``."""

    def __init__(self, maxsize: int = 0, *, adopt: str | Iterable[str] | None = None) -> None: ...
