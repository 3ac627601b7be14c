"""Names that live while any process has open what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shmtensor.errors import HandleError, NotPublishedError

if TYPE_CHECKING:
    from shmtensor._boundary.storage import StorageRef
    from shmtensor.service._service import Service

__all__ = ["storages_of", "with_article"]


def with_article(kind: str) -> str:
    """Return ``"a queue"``, ``"an event"``."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


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
