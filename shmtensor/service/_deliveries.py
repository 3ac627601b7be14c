"""Messages that a queue takes back when their taker dies or lets go of them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Generic

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import TypeVar

    _T = TypeVar("_T", default=Any)
else:
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = ["Delivery", "delivered"]

_QUIET_S = 1.0

#: What finalizers could not let go of, as another process was stopped in the queue: (ring, id).
_left: list[tuple[Any, int]] = []


class Delivery(Generic[_T]):
    """A message that is the caller's until it is acknowledged.

    If its process ends without `ack`, at any moment and in any way, the message goes back to the
    front of its queue and is delivered again; so it does when this object is released or collected.
    In a ``with`` statement it is acknowledged at the end, and released when an exception leaves it.

    Attributes:
        value: The object that was put.
        deliveries: How often the message was delivered, with this time: 1 at first.
    """

    __slots__ = ("__weakref__", "_id", "_pid", "_ring", "_state", "deliveries", "value")

    value: _T
    deliveries: int

    def __init__(self, ring: Any, value: _T, number: int, deliveries: int) -> None:
        self._id, self._state = 0, ""  # an exception may come at any moment: then nothing is ours
        self._ring, self._pid = ring, os.getpid()
        self.value, self.deliveries = value, deliveries
        self._id = number

    def _check(self) -> None:
        if self._state:
            raise RuntimeError(f"the message was {self._state} before")
        if self._pid != os.getpid():
            raise RuntimeError(
                f"the message was delivered to process {self._pid}, which can acknowledge or "
                f"release it; this is its child {os.getpid()}"
            )

    def ack(self) -> None:
        """Say that the work on the message is done: it is gone, and `join` counts it.

        Raises:
            RuntimeError: It was acknowledged or released before, was delivered to the process that
                this one was forked from, or went back to the queue, as this process had lost its
                place in the service.
            HandleError: A process has written over the queue.
        """
        self._check()
        is_known = self._id == 0 or self._ring.acknowledge(self._id)
        self._state = "acknowledged" if is_known else "given back to its queue"
        if not is_known:
            raise RuntimeError(f"the message was {self._state}; another process may have it")

    def release(self) -> None:
        """Give the message back to the front of the queue, for any consumer.

        Raises:
            RuntimeError: It was acknowledged or released before, or was delivered to the process
                that this one was forked from.
        """
        self._check()
        if self._id:
            self._ring.let_go(self._id, True, None)
        self._state = "released"

    def __enter__(self) -> Delivery[_T]:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._state:
            return
        if kind is None:
            self.ack()
        else:
            self.release()

    def __del__(self) -> None:
        if getattr(self, "_state", "made") or not self._id or self._pid != os.getpid():
            return
        self._state = "released"
        _let_go_quietly(self._ring, self._id)

    def __repr__(self) -> str:
        state = self._state or "not acknowledged"
        return f"<Delivery {self.deliveries}, {state}: {self.value!r}>"


def _let_go_quietly(ring: Any, number: int) -> None:
    try:
        ring.let_go(number, True, _QUIET_S)
    except TimeoutError:
        _left.append((ring, number))
    except Exception:  # the queue is damaged, or its service is gone: so is the message
        pass


def delivered(ring: Any, max_n: int, timeout: float | None) -> list[Delivery[Any]]:
    """Wait for a message, then return it and others that are there: at most *max_n* in all.

    Raises:
        Empty: No message came in time.
        Full: There is no room for more unacknowledged messages.
    """
    for _ in range(len(_left)):
        with contextlib.suppress(IndexError):
            _let_go_quietly(*_left.pop())
    taken: list[tuple[Any, int, int]] = []
    made: list[Delivery[Any]] = []
    try:
        ring.deliver(max_n, timeout, taken)
        for value, number, deliveries in taken:
            made.append(Delivery(ring, value, number, deliveries))
    except BaseException:
        for delivery in made:
            delivery._state = "released"
        # The last one first: each goes to the front. It was not delivered to anybody.
        for _, number, _ in reversed(taken):
            if number:
                with contextlib.suppress(Exception):
                    ring.let_go(number, False, _QUIET_S)
        raise
    return made
