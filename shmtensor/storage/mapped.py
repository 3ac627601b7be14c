"""Which storages are shared maps of files, so that they can be sent by the files' paths."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shmtensor.storage.untyped import UntypedStorage

__all__ = ["forget_gone", "path_of", "remember"]

#: Tokens of `UntypedStorage._weak_ref` -> path. Those of storages that are gone leave when another
#: file is mapped.
_paths: dict[int, str] = {}


def forget_gone(kind: type[UntypedStorage]) -> None:
    """Drop what is known of storages that are gone."""
    for token in [token for token in _paths if kind._expired(token)]:
        del _paths[token]
        kind._free_weak_ref(token)


def remember(storage: UntypedStorage, path: str) -> None:
    """Note that *storage* is a shared map of the file."""
    forget_gone(type(storage))
    _paths[storage._weak_ref()] = os.path.realpath(path)


def path_of(token: int) -> str | None:
    """Return the path of the storage of a token, if it is a shared map of a file."""
    return _paths.get(token)
