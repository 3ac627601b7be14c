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
from shmtensor.service._libraries import Foreign, Importer, Library

__all__ = ["AS_OURS", "as_ours", "received", "show_as"]

_PLAIN = frozenset({Tensor, int, float, str, bytes, bool, type(None), complex})


def as_ours(value: Any) -> Any:
    """Return *value* with arrays and tensors of other libraries as ours, over the same memory.

    Raises:
        TypeError: It has an array of objects or of a subclass, or a tensor not dense on the CPU.
        RuntimeError: A tensor requires grad and is not a leaf.
    """
    return _Shower().shown(value)


_C._set_as_ours(as_ours)


class _Shower:
    """Shows one value as ours; what is in it several times is one object in the result, too."""

    def __init__(self) -> None:
        self._importer = Importer()
        self._made: dict[int, tuple[Any, Any]] = {}  # by id: what is shown, and as what

    def shown(self, value: Any) -> Any:
        if type(value) in _PLAIN or isinstance(value, Tensor):
            return value
        before = self._made.get(id(value))
        if before is not None:
            return before[1]
        made = self._make(value)
        self._made[id(value)] = value, made
        return made

    def _make(self, value: Any) -> Any:
        kind = type(value)
        if kind is tuple:
            return tuple(self.shown(item) for item in value)
        if kind is list or kind is dict:
            made: Any = kind()
            self._made[id(value)] = value, made  # it may be in itself
            if kind is list:
                made.extend(self.shown(item) for item in value)
            else:
                made.update((key, self.shown(item)) for key, item in value.items())
            return made
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
