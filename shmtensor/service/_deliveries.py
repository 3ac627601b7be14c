"""Messages that a queue takes back when their taker dies or lets go of them."""

from __future__ import annotations

import os
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from shmtensor.service._messages import is_of_value

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import TypeVar

    _T = TypeVar("_T", default=Any)
else:
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = ["Delivery", "delivered", "take_back"]

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
        if self._claim is not None:
            self._claim.let_go()
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


def take_back(ring: Any, made: list[Delivery[Any]], n_shown: int, error: BaseException) -> None:
    """Let what was delivered go back, as *error* came when so many were shown as a library's.

    The one that cannot be shown is dropped, or counts as delivered in vain, as a message is that
    cannot be unpickled; it would come for ever.
    """
    bad = made[n_shown] if is_of_value(error) else None
    for delivery in made:
        if delivery._claim is not None:
            delivery._claim.counts = delivery is bad
    if bad is not None and ring.max_deliveries == 0:
        bad.ack()
    ring.give_back([d.value for d in made if d._claim is None and d is not bad])
    for delivery in reversed(made):  # the last one first, as each goes to the front
        delivery._claim = None  # and not `release`, after which all would count
        delivery._state = delivery._state or "released"
