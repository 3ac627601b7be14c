"""Marks for Intel's VTune, which is not connected: `is_available` says so.

Source: torch.profiler.itt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """Whether marks can be made: no."""
    return False


def _fail() -> NoReturn:
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


def range_push(msg: str) -> NoReturn:
    """Begin a range. Raises RuntimeError."""
    _fail()


def range_pop() -> NoReturn:
    """End a range. Raises RuntimeError."""
    _fail()


def mark(msg: str) -> NoReturn:
    """Mark a moment. Raises RuntimeError."""
    _fail()


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A range around the context. Raises RuntimeError."""
    range_push(msg.format(*args, **kwargs))
    yield
