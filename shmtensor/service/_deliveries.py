"""Messages that a queue takes back when their taker dies or lets go of them."""

from __future__ import annotations

import os
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Generic, NoReturn

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import TypeVar

    _T = TypeVar("_T", default=Any)
else:
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = ["Delivery", "delivered"]

_AT_ONCE = 256  # MOST_AT_ONCE in csrc/python/ipc/named/deliveries.c


class Delivery(Generic[_T]):
    """A message that is the caller's until it is acknowledged.

    If its process ends without `ack`, at any moment and in any way, the message goes back to the
    front of its queue and is delivered again; so it does when this object is released or collected.
    In a ``with`` statement it is acknowledged at the end, and released when an exception leaves it.

    Attributes:
        value: The object that was put.
        deliveries: How often the message was delivered, with this time: 1 at first.
    """

    __slots__ = ("__weakref__", "_claim", "_pid", "_state", "deliveries", "value")

    value: _T
    deliveries: int

    def __init__(self, value: _T, claim: Any, deliveries: int) -> None:
        self.value, self.deliveries = value, deliveries
        self._state, self._pid = "", os.getpid()
        self._claim = claim  # gives the message back when it is freed; None: there is none

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
        # An interrupt may come before the state is set: then the claim gives its answer once more.
        is_known = self._claim is None or self._claim.acknowledge()
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
        self._state = self._let_go()
        if self._state == "acknowledged":
            self._check()

    def _let_go(self) -> str:
        """Give it back, unless an `ack` that was interrupted has acknowledged it."""
        claim = self._claim
        is_done = claim is not None and not claim.let_go() and claim.acknowledge()
        return "acknowledged" if is_done else "released"

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
            self._check()
            self._state = self._let_go()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Delivery is of one process, it cannot be copied or pickled")

    def __repr__(self) -> str:
        state = self._state or "not acknowledged"
        return f"<Delivery {self.deliveries}, {state}: {self.value!r}>"


def delivered(ring: Any, max_n: int, timeout: float | None) -> list[Delivery[Any]]:
    """Wait for a message, then return it and others that are there: at most *max_n* in all.

    Raises:
        Empty: No message came in time.
        Full: There is no room for more unacknowledged messages.
    """
    taken: list[tuple[Any, Any, int]] = []
    made: list[Delivery[Any]] = []
    claim = None
    try:
        ring.deliver(max_n, timeout, taken)
        n = 0
        while n + _AT_ONCE <= len(taken) < max_n:
            n = len(taken)
            try:
                ring.deliver(max_n - n, 0.0, taken)
            except (Empty, Full):  # what was taken before is the answer
                break
        made += [Delivery(*entry) for entry in taken]
        for _, claim, _ in taken:
            if claim is not None:
                claim.counts = True
    except BaseException:
        # A traceback keeps the variables. Lists drop the last one first: each goes to the front.
        claim = None
        made.clear()
        taken.clear()
        raise
    return made
