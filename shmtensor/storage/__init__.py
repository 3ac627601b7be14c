"""Storages: the bytes behind tensors, shared or private.

An `UntypedStorage` is a sequence of bytes. A `TypedStorage` shows the same bytes as elements of one
dtype. A tensor shows a part of a storage; several tensors, and several processes, can show one
storage. While a C storage has an `UntypedStorage` object, there is only one in a process. So two
objects are identical if and only if they are the same memory. The old-style classes such as
``FloatStorage`` make typed storages.
"""

from __future__ import annotations

from typing import Any

from shmtensor import _C
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
Storage = FloatStorage  # `set_default_dtype` changes it in the package

_CONVERSIONS = {
    "bfloat16": "bfloat16",
    "bool": "bool",
    "byte": "uint8",
    "char": "int8",
    "complex_double": "complex128",
    "complex_float": "complex64",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
}


def is_storage(obj: object) -> bool:
    """Return whether *obj* is a typed or untyped storage."""
    return isinstance(obj, UntypedStorage | TypedStorage)


def _add_conversion(name: str, dtype: Any) -> None:
    """Add the method *name* to both classes, which converts the elements to another dtype."""

    def convert(self: Any) -> Any:
        return self._to(dtype)

    convert.__name__ = name
    convert.__doc__ = f"Return the elements as a new storage of {dtype}."
    setattr(UntypedStorage, name, convert)
    setattr(TypedStorage, name, convert)


for _name, _dtype in _CONVERSIONS.items():
    _add_conversion(_name, getattr(_C, _dtype))
