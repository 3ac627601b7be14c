"""Messages of a topic, as commands look at them: what a message raises ends no command.

Opening a message runs code of whoever published it, and so does looking at its value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from queue import Empty
from typing import Any, TypeVar

from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor.errors import ShmTensorError
from shmtensor.multiprocessing._user_errors import text_of
from shmtensor.multiprocessing.queues import is_of_message
from shmtensor.service import Subscription

__all__ = ["Unreadable", "look_at_next"]

_T = TypeVar("_T")


class Unreadable(Exception):
    """A message that this process cannot look at; the text says why."""


def look_at_next(
    messages: Subscription[Any], look: Callable[[Any], _T], timeout: float | None = None
) -> _T:
    """Wait for a message, and return what *look* makes of its value.

    Raises:
        Unreadable: The message, or its value, has raised something.
        queue.Empty: Nothing came in time.
        ShmTensorError: The subscription cannot be used.
        MemoryError: There is not enough room.
    """
    try:
        return look(_opened(messages, timeout))
    except KeyboardInterrupt:  # of whoever looks
        raise
    except BaseException as error:
        raise_of_handler(error)
        is_known = isinstance(error, (Empty, ShmTensorError, MemoryError))
        if is_known and not is_of_message(error, Subscription.__module__):
            raise
        raise Unreadable(text_of(error)) from None


def _opened(messages: Subscription[Any], timeout: float | None) -> Any:
    try:
        return messages.get(timeout)
    except BaseException as error:
        is_doubtful = isinstance(error, MemoryError) or not isinstance(error, Exception)
        if isinstance(error, KeyboardInterrupt) or not is_doubtful:
            raise
        raise_of_handler(error)
        # It may not be the message's fault. Then the message comes once more:
        # Note [Interrupted calls] in csrc/python/ipc/ring_object.h.
        with contextlib.suppress(Empty):
            return messages.get(0.0)
        raise
