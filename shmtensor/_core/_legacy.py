"""Typed constructors of the old style: ``FloatTensor([1, 2])``, ``isinstance(t, LongTensor)``."""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._core._type_names import LEGACY_DTYPES

__all__ = [
    "ByteTensor",
    "CharTensor",
    "ShortTensor",
    "IntTensor",
    "LongTensor",
    "HalfTensor",
    "BFloat16Tensor",
    "FloatTensor",
    "DoubleTensor",
    "BoolTensor",
    "ComplexFloatTensor",
    "ComplexDoubleTensor",
]


class tensortype(type):
    """The typed constructors' class: calls make tensors, instances are tensors of the dtype."""

    _legacy_dtype: Any

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> tensortype:
        if bases:
            raise TypeError(f"type 'torch.{bases[0].__name__}' is not an acceptable base type")
        return super().__new__(mcs, name, bases, namespace)

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        made: Tensor = _C._legacy_new(cls._legacy_dtype, *args, **kwargs)
        return made

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls._legacy_dtype

    @property
    def dtype(cls) -> Any:
        """The element type of the tensors it makes."""
        return cls._legacy_dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _make(name: str) -> tensortype:
    doc = f"Make a tensor of dtype {LEGACY_DTYPES[name]} from sizes or data."
    members = {"_legacy_dtype": LEGACY_DTYPES[name], "__doc__": doc, "__module__": "shmtensor"}
    return tensortype(name, (), members)


ByteTensor = _make("ByteTensor")
CharTensor = _make("CharTensor")
ShortTensor = _make("ShortTensor")
IntTensor = _make("IntTensor")
LongTensor = _make("LongTensor")
HalfTensor = _make("HalfTensor")
BFloat16Tensor = _make("BFloat16Tensor")
FloatTensor = _make("FloatTensor")
DoubleTensor = _make("DoubleTensor")
BoolTensor = _make("BoolTensor")
ComplexFloatTensor = _make("ComplexFloatTensor")
ComplexDoubleTensor = _make("ComplexDoubleTensor")
