"""Values in messages between programs: sent as our tensors, received as what the receiver asks for.

A message has tensors of this package and plain values (numbers, text, bytes, None, lists, tuples
and dicts), whoever sends it. So arrays and tensors of other libraries are shown as ours before
they go, without a copy, and what arrives is shown as the library's that the receiver names. Rings
that adopt `AS_OURS` call `as_ours` for what is not plain.
"""

from __future__ import annotations

import functools
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.multiprocessing.adoption import AS_OURS, loaded
from shmtensor.service import _libraries
from shmtensor.service._conversion import PLAIN, Conversion
from shmtensor.service._libraries import Foreign, Importer, Library

__all__ = ["AS_OURS", "as_ours", "received", "show_as"]


def as_ours(value: Any) -> Any:
    """Return *value* with arrays and tensors of other libraries as ours, over the same memory.

    Raises:
        TypeError: It has an array of objects or of a subclass, or a tensor not dense on the CPU.
        RuntimeError: A tensor requires grad and is not a leaf.
    """
    return _AsOurs().of(value)


_C._set_as_ours(as_ours)


class _AsOurs(Conversion):
    """Shows one value as ours."""

    unchanged = PLAIN | {Tensor}

    def __init__(self) -> None:
        super().__init__()
        self._importer = Importer()

    def of_leaf(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return value
        ours = self._importer.tensor(value)
        if isinstance(ours, Foreign):
            return _OfOneLibrary(ours)
        if ours is not None:
            return ours
        if hasattr(value, "__dlpack__") and not isinstance(value, loaded("numpy", "generic")):
            return _C.from_dlpack(value)
        return value


class _OfOneLibrary:
    """What has a dtype that only one library has: it arrives as that library's, whoever asks."""

    def __init__(self, value: Foreign) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _libraries.given, (self._value, self._value.library)


def received(value: Any, library: Library) -> Any:
    """Return what was received with its tensors as those of *library*, over the same memory.

    Raises:
        TypeError: The library has no such dtype.
    """
    if library == "shmtensor":
        return value
    if library == "numpy":
        array = _C._simple_array(value)
        if array is not None:
            return array
    return _libraries.given(value, library)


def show_as(ring: Any, library: Library) -> None:
    """Let what is taken from *ring* arrive as `received` gives it.

    What the library cannot show is gone, as a message is that cannot be unpickled.
    """
    if library != "shmtensor":
        ring.show = functools.partial(received, library=library)
