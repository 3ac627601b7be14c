"""Names that live while any process has open what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shmtensor.errors import HandleError, NotPublishedError

if TYPE_CHECKING:
    from shmtensor._boundary.storage import StorageRef
    from shmtensor.service._service import Service

__all__ = ["open_or_make", "storages_of", "with_article"]

_ATTEMPTS = 100  # a name that comes and goes as often between two looks is an error


def with_article(kind: str) -> str:
    """Return ``"a queue"``, ``"an event"``."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def open_or_make(
    service: Service,
    name: str,
    kind: str,
    *,
    over: Callable[[list[StorageRef]], Any],
    make: Callable[[], tuple[Any, list[int]]],
    persist: bool,
) -> Any:
    """Return what has the name, or give it to what *make* returns.

    Args:
        service: The service that has the name.
        name: 1 to 127 bytes.
        kind: What the name is to stand for.
        over: Makes the object from the name's storages.
        make: Makes a new object; returns it, which keeps its storages, and their addresses.
        persist: Keep the name when no process has the object open.

    Raises:
        ValueError: The name stands for something else.
        HandleError: The storages are none of this kind.
    """
    handle = service._handle
    handle.join(True)
    for _ in range(_ATTEMPTS):
        storages = storages_of(service, name, kind)
        if storages is not None:
            return over(storages)
        made, addresses = make()
        handle.publish_kind(name, kind, addresses, persist)
        del made
    raise HandleError(f"the {kind} {name!r} comes and goes all the time")


def storages_of(service: Service, name: str, kind: str) -> list[StorageRef] | None:
    """Return the storages that the name stands for; None: nobody has it at the moment.

    While they are held, the name stays, unless someone unpublishes it.

    Raises:
        ValueError: The name stands for something else.
        HandleError: It has no storages.
    """
    handle = service._handle
    try:
        snapshot = handle.snapshot(name, "rw")
        found = snapshot.entry.kind
        if found != kind:
            raise ValueError(f"{name!r} is {with_article(found)}, not {with_article(kind)}")
        # From here on we hold it: if the name is still there, it stays.
        if handle.entry(name).version != snapshot.entry.version:
            return None
    except NotPublishedError:
        return None
    if not snapshot.storages:
        raise HandleError(f"{name!r} is {with_article(kind)} without storage")
    return snapshot.storages
