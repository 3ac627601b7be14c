"""Queues that unrelated processes find by name."""

from __future__ import annotations

from multiprocessing.synchronize import SEM_VALUE_MAX  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, NoReturn

from shmtensor import _C
from shmtensor.multiprocessing.adoption import adopted
from shmtensor.multiprocessing.queues import JoinableQueue
from shmtensor.service._names import open_or_make

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import TypeVar

    from shmtensor.service._service import Service

    _T = TypeVar("_T", default=Any)
else:
    from typing import TypeVar

    _T = TypeVar("_T")

__all__ = ["Queue"]


class Queue(JoinableQueue[_T]):
    """A queue that any process of the service's user or group opens by its name.

    The first process that asks for the name makes the queue. It lives, with its messages, as long
    as any process has it open; with *persist* until it is unpublished. Everything else is as in
    `shmtensor.multiprocessing.JoinableQueue`, except for what a message carries: tensors in the
    service's memory (from `Service.empty`, attached with ``"rw"``, or received) go as they are, and
    all others are copied there, as `Service.publish` does.

    Between processes of one user, messages are pickled like those of any queue. In a service of a
    group or of another user they are not: messages consist of tensors, numbers, text, bytes, None,
    and lists, tuples and dicts of these.

    Args:
        service: The service that has the name.
        name: 1 to 127 bytes.
        maxsize: ``put`` waits while the queue has this many messages; 0 leaves it to whoever makes
            the queue, and means no bound there.
        persist: Keep the queue when no process has it open.
        adopt: As for `shmtensor.multiprocessing.Queue`.

    Raises:
        ValueError: The name stands for something else, or for a queue with another *maxsize*.
        HandleError: A process has written over the queue.
        ManagerError: The service cannot be reached.
    """

    def __init__(
        self,
        service: Service,
        name: str,
        maxsize: int = 0,
        *,
        persist: bool = False,
        adopt: str | Iterable[str] | None = None,
    ) -> None:
        bits = adopted(adopt)
        service._check_name(name)
        bound = min(max(maxsize, 0), SEM_VALUE_MAX)
        self._service, self._name = service, name
        self._ignore_epipe = False
        ring = open_or_make(
            service,
            name,
            "queue",
            over=lambda storages: _C._ring_over(storages[0].address),
            make=lambda: _made(service, bound),
            persist=persist,
        )
        if bound not in (0, ring.max_messages):
            raise ValueError(
                f"the queue {name!r} takes {ring.max_messages or 'any number of'} messages, "
                f"not {bound}"
            )
        self._maxsize = ring.max_messages or SEM_VALUE_MAX
        self._open(ring, bits)

    @property
    def name(self) -> str:
        """Its name in the service."""
        return self._name

    def __getstate__(self) -> NoReturn:
        raise TypeError("a named Queue is opened by its name, it cannot be pickled")

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.qsize()} messages"
        return f"<Queue {self._name!r} of {self._service!r}, {state}>"


def _made(service: Service, bound: int) -> tuple[Any, list[int]]:
    ring = _C._new_ring_in(service._handle.address, bound)
    return ring, [ring.storage]
