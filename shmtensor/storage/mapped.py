"""Remembers which storages are shared mappings of files. These are sent by the path of the file."""

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
    """Forget storages that were freed."""
    for token in [token for token in _paths if kind._expired(token)]:
        del _paths[token]
        kind._free_weak_ref(token)


def remember(storage: UntypedStorage, path: str) -> None:
    """Remember that *storage* is a shared mapping of the file."""
    forget_gone(type(storage))
    _paths[storage._weak_ref()] = os.path.realpath(path)


def path_of(token: int) -> str | None:
    """Return the path for a storage's token; None: it is not a shared mapping of a file."""
    return _paths.get(token)
