"""The methods of storages that copy the elements into another dtype: ``storage.double()``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor import _C

if TYPE_CHECKING:
    from shmtensor.storage.typed import TypedStorage

__all__ = ["Conversions"]


class Conversions:
    """What typed and untyped storages inherit; those give ``_to(dtype)``."""

    __slots__ = ()

    def _to(self, dtype: Any) -> TypedStorage:
        raise NotImplementedError

    def bfloat16(self) -> TypedStorage:
        """Return the elements as a new storage of bfloat16."""
        return self._to(_C.bfloat16)

    def bool(self) -> TypedStorage:
        """Return the elements as a new storage of bool."""
        return self._to(_C.bool)

    def byte(self) -> TypedStorage:
        """Return the elements as a new storage of uint8."""
        return self._to(_C.uint8)

    def char(self) -> TypedStorage:
        """Return the elements as a new storage of int8."""
        return self._to(_C.int8)

    def complex_double(self) -> TypedStorage:
        """Return the elements as a new storage of complex128."""
        return self._to(_C.complex128)

    def complex_float(self) -> TypedStorage:
        """Return the elements as a new storage of complex64."""
        return self._to(_C.complex64)

    def double(self) -> TypedStorage:
        """Return the elements as a new storage of float64."""
        return self._to(_C.float64)

    def float(self) -> TypedStorage:
        """Return the elements as a new storage of float32."""
        return self._to(_C.float32)

    def half(self) -> TypedStorage:
        """Return the elements as a new storage of float16."""
        return self._to(_C.float16)

    def int(self) -> TypedStorage:
        """Return the elements as a new storage of int32."""
        return self._to(_C.int32)

    def long(self) -> TypedStorage:
        """Return the elements as a new storage of int64."""
        return self._to(_C.int64)

    def short(self) -> TypedStorage:
        """Return the elements as a new storage of int16."""
        return self._to(_C.int16)
