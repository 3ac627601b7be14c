"""Processes for test_adoption.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def echo(source: Any, target: Any) -> None:
    """Put what comes, until None comes."""
    while (value := source.get()) is not None:
        target.put(value)


def doubled(array: Any) -> Any:
    """Double a shared array in place, and return a part of it with a new one."""
    array *= 2
    return array[1:], array + 1


@contextmanager
def echoing(context: Any, kind: str, adopt: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a queue to a process that sends everything back, and the queue from it."""
    out, back = (getattr(context, kind)(adopt=adopt) for _ in range(2))
    process = context.Process(target=echo, args=(out, back), daemon=True)
    process.start()
    try:
        yield out, back
    finally:
        out.put(None)
        process.join()
