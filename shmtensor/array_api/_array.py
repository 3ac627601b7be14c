"""The arrays that the namespace makes: tensors whose operators follow the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api import _elementwise as functions
from shmtensor.array_api._dtypes import WIDE_UNSIGNED, Dtype, promote, with_scalar
from shmtensor.array_api._products import matmul

__all__ = ["Array", "as_array"]

_Function = Callable[..., Tensor]


def _is_operand(x: Any) -> bool:
    return isinstance(x, (Tensor, bool, int, float, complex))


def _binary(name: str, function: _Function) -> tuple[Any, Any]:
    """The methods for ``self + other`` and ``other + self``; the engine's for NumPy's scalars."""
    engines = getattr(Tensor, f"__{name}__")
    engines_reflected = getattr(Tensor, f"__r{name}__", None)

    def method(self: Tensor, other: Any) -> Any:
        return function(self, other) if _is_operand(other) else engines(self, other)

    def reflected(self: Tensor, other: Any) -> Any:
        if _is_operand(other) or engines_reflected is None:
            return function(other, self)
        return engines_reflected(self, other)

    return method, reflected


def _in_place(name: str, function: _Function) -> Any:
    """The method for ``self += other``; the engine's where that does the same for one dtype."""
    engines = getattr(Tensor, f"__i{name}__")

    def is_engines(dtype: Dtype) -> bool:
        if name == "truediv":
            return dtype.is_floating_point or dtype.is_complex
        return name not in ("floordiv", "mod") and dtype not in WIDE_UNSIGNED

    def method(self: Tensor, other: Any) -> Any:
        if not _is_operand(other):
            return engines(self, other)
        is_array = isinstance(other, Tensor)
        dtype = promote(self.dtype, other.dtype) if is_array else with_scalar(self.dtype, other)
        if dtype is self.dtype and is_engines(dtype):
            return engines(self, other.to(dtype) if is_array else other)
        result = function(self, other)
        if result.dtype is not self.dtype:
            raise TypeError(f"the result is {result.dtype}, the array is {self.dtype}")
        return self.copy_(result)

    return method


def _forwards(key: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], list[int]] | None:
    """A key without negative steps, and the axes of the result to reverse.

    None: it has none, or has arrays, for which the engine gives the answer.
    """
    entries = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(e, slice) and isinstance(e.step, int) and e.step < 0 for e in entries):
        return None
    if any(isinstance(e, bool) for e in entries):  # a mask, though Python calls it an integer
        return None
    if not all(e is None or e is ... or isinstance(e, (int, slice)) for e in entries):
        return None
    n_skipped = len(shape) - sum(isinstance(e, (int, slice)) for e in entries)
    plain: list[Any] = []
    reverse = []
    axis = out = 0
    for entry in entries:
        if isinstance(entry, slice):
            indices = range(*entry.indices(shape[axis]))
            if indices.step < 0:
                reverse.append(out)
                indices = indices[::-1]
                entry = slice(indices.start, indices.stop, indices.step) if indices else slice(0)
        plain.append(entry)
        axis += n_skipped if entry is ... else entry is not None
        out += n_skipped if entry is ... else not isinstance(entry, int)
    return tuple(plain), reverse


def _selects_nothing(mask: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether *mask* is one without elements, which may have 0 in place of any length."""
    return (
        mask.dtype is engine.bool
        and 0 in mask.shape
        and mask.ndim <= len(shape)
        and all(m in (n, 0) for m, n in zip(mask.shape, shape, strict=False))
    )


class Array(Tensor):
    """A tensor whose operators follow the array API standard.

    `asarray` and the other functions that make arrays return these, and functions return them for
    them. Memory, gradients, shared storages and methods are those of any tensor; ``as_subclass``
    turns one into the other.

    * Arrays without dimensions count in promotion; uint16, uint32 and uint64 calculate.
    * ``//`` and ``%`` are `floor_divide` and `remainder` of the namespace.
    * Slices may have negative steps; the result is then a copy.
    * Operators in place never change the dtype.
    """

    __add__, __radd__ = _binary("add", functions.add)
    __sub__, __rsub__ = _binary("sub", functions.subtract)
    __mul__, __rmul__ = _binary("mul", functions.multiply)
    __truediv__, __rtruediv__ = _binary("truediv", functions.divide)
    __floordiv__, __rfloordiv__ = _binary("floordiv", functions.floor_divide)
    __mod__, __rmod__ = _binary("mod", functions.remainder)
    __pow__, __rpow__ = _binary("pow", functions.pow)
    __and__, __rand__ = _binary("and", functions.bitwise_and)
    __or__, __ror__ = _binary("or", functions.bitwise_or)
    __xor__, __rxor__ = _binary("xor", functions.bitwise_xor)
    __lshift__, __rlshift__ = _binary("lshift", functions.bitwise_left_shift)
    __rshift__, __rrshift__ = _binary("rshift", functions.bitwise_right_shift)
    __eq__, _ = _binary("eq", functions.equal)
    __ne__, _ = _binary("ne", functions.not_equal)
    __lt__, _ = _binary("lt", functions.less)
    __le__, _ = _binary("le", functions.less_equal)
    __gt__, _ = _binary("gt", functions.greater)
    __ge__, _ = _binary("ge", functions.greater_equal)
    del _
    __hash__ = Tensor.__hash__

    __iadd__ = _in_place("add", functions.add)
    __isub__ = _in_place("sub", functions.subtract)
    __imul__ = _in_place("mul", functions.multiply)
    __itruediv__ = _in_place("truediv", functions.divide)
    __ifloordiv__ = _in_place("floordiv", functions.floor_divide)
    __imod__ = _in_place("mod", functions.remainder)
    __ipow__ = _in_place("pow", functions.pow)
    __iand__ = _in_place("and", functions.bitwise_and)
    __ior__ = _in_place("or", functions.bitwise_or)
    __ixor__ = _in_place("xor", functions.bitwise_xor)
    __ilshift__ = _in_place("lshift", functions.bitwise_left_shift)
    __irshift__ = _in_place("rshift", functions.bitwise_right_shift)

    def __matmul__(self, other: Any) -> Any:
        return matmul(self, other) if isinstance(other, Tensor) else NotImplemented

    def __rmatmul__(self, other: Any) -> Any:
        return matmul(other, self) if isinstance(other, Tensor) else NotImplemented

    def __imatmul__(self, other: Any) -> Any:
        return self.copy_(matmul(self, other)) if isinstance(other, Tensor) else NotImplemented

    def __neg__(self) -> Tensor:
        return functions.negative(self)

    def __abs__(self) -> Tensor:
        return functions.abs(self)

    def __invert__(self) -> Tensor:
        return functions.bitwise_invert(self)

    def __getitem__(self, index: Any) -> Tensor:
        if isinstance(index, Tensor) and _selects_nothing(index, self.shape):
            return self.new_empty((0, *self.shape[index.ndim :]))
        forwards = _forwards(index, self.shape)
        if forwards is None:
            return super().__getitem__(index)
        key, reverse = forwards
        return engine.flip(super().__getitem__(key), reverse)

    def __setitem__(self, index: Any, value: Any) -> None:
        forwards = _forwards(index, self.shape)
        if forwards is None:
            super().__setitem__(index, value)
            return
        key, reverse = forwards
        if isinstance(value, Tensor) and value.ndim:
            shape = super().__getitem__(key).shape
            value = engine.flip(engine.broadcast_to(value, shape), reverse)
        super().__setitem__(key, value)


def as_array(x: Tensor) -> Array:
    """*x* as an array of the namespace, over the same memory; itself if it is one."""
    return x if isinstance(x, Array) else x.as_subclass(Array)
