"""Queues that unrelated processes find by name."""

from __future__ import annotations

from multiprocessing.synchronize import SEM_VALUE_MAX  # type: ignore[attr-defined]
from queue import Empty
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from shmtensor import _C
from shmtensor.multiprocessing.adoption import adopted
from shmtensor.multiprocessing.queues import JoinableQueue, _readable, is_of_message
from shmtensor.service import _deliveries, _libraries
from shmtensor.service._deliveries import Delivery, delivered
from shmtensor.service._libraries import Library
from shmtensor.service._messages import AS_OURS, show_as

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import TypeVar

    from shmtensor.service._service import Service

    _T = TypeVar("_T", default=Any)
else:
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = ["Delivery", "Queue"]

_MOST_DELIVERIES = 0xFFFFFF


class Queue(JoinableQueue[_T]):
    """A queue that any process of the service's user or group opens by its name.

    The first process that asks for the name makes the queue. It lives, with its messages, as long
    as any process has it open; with *persist* until it is unpublished. Whoever says *maxsize*,
    *max_deliveries* or *persist* first settles it for everybody. Everything else is as in
    `shmtensor.multiprocessing.JoinableQueue`, except for what a message carries: tensors in the
    service's memory (from `Service.empty`, attached with ``"rw"``, or received) go as they are, and
    all others are copied there, as `Service.publish` does. Arrays of NumPy, tensors of torch and
    what other libraries offer by DLPack go as tensors, and arrive as the receiver's *as_* says.

    Between processes of one user, messages are pickled like those of any queue. In a service of a
    group or of another user they are not: messages consist of tensors, numbers, text, bytes, None,
    and lists, tuples and dicts of these.

    A plain ``get`` takes a message for good: if its taker is killed, it is gone. ``get(ack=True)``
    returns a `Delivery`, which goes back to the queue when its taker dies or lets go of it before
    it acknowledges it. So each message is delivered at least once, and may be delivered again after
    its work was done: a taker may be killed just before ``ack``.

    Args:
        service: The service that has the name.
        name: 1 to 127 bytes.
        maxsize: ``put`` waits while the queue has this many messages; 0 leaves it open: there is no
            bound until somebody says one. What goes back to the queue may exceed it.
        max_deliveries: A message that was delivered this often without being acknowledged is
            dropped, and counted in `n_dead_letters`; 0 leaves it open in the same way.
        persist: Keep the queue when no process has it open.
        adopt: As for `shmtensor.multiprocessing.Queue`: arrays and tensors of these libraries
            arrive as what they were, without regard to *as_*.
        as_: Whose tensors arrive here: ``"shmtensor"``, ``"numpy"`` or ``"torch"``.

    Raises:
        ValueError: The name stands for something else, another *maxsize* or *max_deliveries* was
            said before, or one is too large.
        HandleError: A process has written over the queue.
        ManagerError: The service cannot be reached.
    """

    def __init__(
        self,
        service: Service,
        name: str,
        maxsize: int = 0,
        *,
        max_deliveries: int = 0,
        persist: bool = False,
        adopt: str | Iterable[str] | None = None,
        as_: Library = "shmtensor",
    ) -> None:
        bits = adopted(adopt)
        _libraries.check_library(as_)
        service._check_name(name)
        if maxsize > SEM_VALUE_MAX:
            raise ValueError(f"maxsize must be at most {SEM_VALUE_MAX}, got {maxsize}")
        bound = max(maxsize, 0)
        if not 0 <= max_deliveries <= _MOST_DELIVERIES:
            raise ValueError(
                f"max_deliveries must be 0 to {_MOST_DELIVERIES}, got {max_deliveries}"
            )
        self._service, self._name = service, name
        self._ignore_epipe = False
        ring = _C._named_ring(service._handle.address, name, False, bound, max_deliveries, persist)
        show_as(ring, as_)
        self._open(ring, bits or AS_OURS)

    # --- getting ---

    @overload
    def get(
        self, block: bool = ..., timeout: float | None = ..., *, ack: Literal[False] = ...
    ) -> _T: ...
    @overload
    def get(
        self, block: bool = ..., timeout: float | None = ..., *, ack: Literal[True]
    ) -> Delivery[_T]: ...
    def get(self, block: bool = True, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Return the next object; with *ack* a `Delivery` of it.

        Args:
            block: Wait for one.
            timeout: Seconds that the call may take; None waits forever.
            ack: The message goes back to the queue unless it is acknowledged.

        Raises:
            Empty: No message came in time.
            Full: With *ack*: messages that are not acknowledged take all the room that there is for
                them, 1 MiB for a queue; at once if this process has them all.
            ValueError: The queue is closed.
        """
        if self._closed:
            self._check()
        if ack:
            return delivered(self._ring, 1, timeout if block else 0.0)[0]
        return self._ring[timeout if block else 0.0]

    @overload
    def get_many(
        self, max_n: int, timeout: float | None = ..., *, ack: Literal[False] = ...
    ) -> list[_T]: ...
    @overload
    def get_many(
        self, max_n: int, timeout: float | None = ..., *, ack: Literal[True]
    ) -> list[Delivery[_T]]: ...
    def get_many(self, max_n: int, timeout: float | None = None, *, ack: bool = False) -> list[Any]:
        """Wait for one object, then return it and others that are there: at most *max_n* in all.

        With *ack* they are `Delivery` objects. Errors are those of `get`, and `ValueError` if
        *max_n* is less than 1. If the library cannot show one of the objects, the next call returns
        the others.
        """
        self._check()
        if ack:
            return delivered(self._ring, max_n, timeout)
        taken: list[Any] = []
        try:  # here and not in a method of the base, after which an interrupt would lose them
            self._ring.get_many(max_n, timeout, taken)
            return taken
        except BaseException:
            self._ring.give_back(taken)
            raise

    @overload
    async def aget(self, *, ack: Literal[False] = ...) -> _T: ...
    @overload
    async def aget(self, *, ack: Literal[True]) -> Delivery[_T]: ...
    async def aget(self, *, ack: bool = False) -> Any:
        """Return the next object, or a `Delivery`; other asyncio tasks run until there is one."""
        while True:
            self._check()
            try:
                return delivered(self._ring, 1, 0.0)[0] if ack else self._ring[0.0]
            except Empty as error:
                if is_of_message(error, __name__, _deliveries.__name__):
                    raise
            await _readable(self._reader.fileno())

    # --- state ---

    @property
    def n_unacknowledged(self) -> int:
        """Messages that were taken with ``ack=True`` and not acknowledged yet.

        Those of processes that were killed just now may count.
        """
        return int(self._ring.n_unacknowledged)

    @property
    def n_dead_letters(self) -> int:
        """Messages that were dropped, as they were delivered *max_deliveries* times in vain."""
        return int(self._ring.n_dead_letters)

    @property
    def max_deliveries(self) -> int:
        """How often at most a message is delivered; 0: no bound."""
        return int(self._ring.max_deliveries)

    @property
    def name(self) -> str:
        """Its name in the service."""
        return self._name

    def __getstate__(self) -> NoReturn:
        raise TypeError("a named Queue is opened by its name, it cannot be pickled")

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.qsize()} messages"
        return f"<Queue {self._name!r} of {self._service!r}, {state}>"
