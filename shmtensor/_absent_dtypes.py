"""Dtypes of torch that no tensor has here: names to compare with and to look up.

A function that is given one of them raises TypeError, as for anything that is no dtype.

Source:
    torch.float8_e4m3fn, torch.qint8, torch.uint4 and their like.
"""

from __future__ import annotations

from typing import NamedTuple

__all__: list[str] = []


class Limits(NamedTuple):
    """What `finfo` says of a floating-point dtype."""

    max: float
    min: float
    eps: float
    smallest_normal: float


class AbsentDtype:
    """A dtype that no tensor has.

    Attributes:
        itemsize: Bytes of an element.
        is_floating_point: Whether it would be a floating-point dtype.
        is_complex: Whether it would be a complex dtype.
        is_signed: Whether it would have negative values.
        limits: What `finfo` says of it, if anything.
    """

    is_complex = False

    def __init__(self, name: str, itemsize: int, is_floating_point: bool, is_signed: bool) -> None:
        self._name = name
        self.limits = _LIMITS.get(name)
        self.itemsize = itemsize
        self.is_floating_point = is_floating_point
        self.is_signed = is_signed

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


_LIMITS = {
    "float8_e4m3fn": Limits(448.0, -448.0, 2.0**-3, 2.0**-6),
    "float8_e4m3fnuz": Limits(240.0, -240.0, 2.0**-3, 2.0**-7),
    "float8_e5m2": Limits(57344.0, -57344.0, 2.0**-2, 2.0**-14),
    "float8_e5m2fnuz": Limits(57344.0, -57344.0, 2.0**-3, 2.0**-15),
    "float8_e8m0fnu": Limits(2.0**127, 2.0**-127, 1.0, 2.0**-127),
}


class qscheme:
    """How numbers become the integers of a quantised tensor: a name, there is no such tensor."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


__all__.append("qscheme")
for _name in (
    "per_channel_affine",
    "per_channel_affine_float_qparams",
    "per_channel_symmetric",
    "per_tensor_affine",
    "per_tensor_symmetric",
):
    globals()[_name] = qscheme(_name)
    __all__.append(_name)


def _add(names: str, itemsize: int, is_floating_point: bool, is_signed: bool) -> None:
    for name in names.split():
        globals()[name] = AbsentDtype(name, itemsize, is_floating_point, is_signed)
        __all__.append(name)


_add("float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float4_e2m1fn_x2", 1, True, True)
_add("float8_e8m0fnu", 1, True, False)
_add("int1 int2 int3 int4 int5 int6 int7", 1, False, True)
_add("uint1 uint2 uint3 uint4 uint5 uint6 uint7", 1, False, False)
_add("bit bits1x8 bits2x4 bits4x2 bits8", 1, False, False)
_add("bits16", 2, False, False)
_add("qint8", 1, False, True)
_add("quint8 quint2x4 quint4x2", 1, False, False)
_add("qint32", 4, False, True)
