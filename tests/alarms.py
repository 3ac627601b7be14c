"""A signal whose handler raises an error of every class that somebody catches; who sends it."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any

__all__ = ["Alarm", "Interrupting", "InterruptingLater", "handled", "interrupt"]

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
