"""A signal whose handler raises an error of every class that somebody catches; who sends it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = ["Alarm", "Interrupting", "InterruptingLater", "comes", "handled", "interrupt"]

_SIGNAL = signal.SIGUSR1


class Alarm(RuntimeError, ValueError, TypeError, AttributeError):
    """What the handler raises."""


def _raise_alarm(number: int, frame: FrameType | None) -> None:
    raise Alarm("of the program")


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """The handler is there."""
    before = signal.signal(_SIGNAL, _raise_alarm)
    try:
        yield
    finally:
        signal.signal(_SIGNAL, before)


@contextlib.contextmanager
def comes(after: float, error: Exception) -> Iterator[None]:
    """The handler raises *error* when the block has waited for so many seconds."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise error

    before = signal.signal(_SIGNAL, ring)
    timer = threading.Timer(after, os.kill, (os.getpid(), _SIGNAL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        signal.signal(_SIGNAL, before)


def interrupt(*args: Any, **kwargs: Any) -> Any:
    """Send the signal, whatever one is called for."""
    signal.raise_signal(_SIGNAL)


class Interrupting:
    """The signal comes while it is pickled."""

    def __reduce__(self) -> Any:
        return interrupt()


class InterruptingLater:
    """The signal comes while it is unpickled."""

    def __reduce__(self) -> Any:
        return interrupt, ()
