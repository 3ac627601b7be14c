"""Storages: the bytes behind tensors, shared or private.

An `UntypedStorage` is a sequence of bytes. A `TypedStorage` shows the same bytes as elements of one
dtype. A tensor shows a part of a storage; several tensors, and several processes, can show one
storage. While a C storage has an `UntypedStorage` object, there is only one in a process. So two
objects are identical if and only if they are the same memory. The old-style classes such as
``FloatStorage`` make typed storages.
"""

from __future__ import annotations

import sys
from typing import Any

from shmtensor.dtypes import default_followers
from shmtensor.storage.typed import LEGACY_CLASSES, TypedStorage
from shmtensor.storage.untyped import UntypedStorage

__all__ = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
    "Storage",
    "TypedStorage",
    "UntypedStorage",
    "is_storage",
]

BFloat16Storage = LEGACY_CLASSES["BFloat16Storage"]
BoolStorage = LEGACY_CLASSES["BoolStorage"]
ByteStorage = LEGACY_CLASSES["ByteStorage"]
CharStorage = LEGACY_CLASSES["CharStorage"]
ComplexDoubleStorage = LEGACY_CLASSES["ComplexDoubleStorage"]
ComplexFloatStorage = LEGACY_CLASSES["ComplexFloatStorage"]
DoubleStorage = LEGACY_CLASSES["DoubleStorage"]
FloatStorage = LEGACY_CLASSES["FloatStorage"]
HalfStorage = LEGACY_CLASSES["HalfStorage"]
IntStorage = LEGACY_CLASSES["IntStorage"]
LongStorage = LEGACY_CLASSES["LongStorage"]
ShortStorage = LEGACY_CLASSES["ShortStorage"]
Storage = FloatStorage


def _load_from_bytes(b: bytes) -> Any:
    """Return the storage in a file's bytes: plain pickles of torch's storages call this.

    As any pickle, it may run what it likes.
    """
    import io

    from shmtensor.serialization import load

    return load(io.BytesIO(b), weights_only=False)


def _change_storage(dtype: Any) -> None:
    """Let the package's `Storage` be that of the default dtype."""
    package: Any = sys.modules[__package__.partition(".")[0]]
    package.Storage = next(c for c in LEGACY_CLASSES.values() if c.dtype is dtype)


default_followers.append(_change_storage)


def is_storage(obj: object) -> bool:
    """Return whether *obj* is a typed or untyped storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)
