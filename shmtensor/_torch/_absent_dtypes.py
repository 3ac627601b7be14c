"""Dtypes of torch that no tensor has here: names to compare with and to look up.

A function that is given one of them raises TypeError, as for anything that is no dtype.

Source:
    torch.float8_e4m3fn, torch.qint8, torch.uint4 and their like.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "bit",
    "bits16",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "float4_e2m1fn_x2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "int1",
    "int2",
    "int3",
    "int4",
    "int5",
    "int6",
    "int7",
    "per_channel_affine",
    "per_channel_affine_float_qparams",
    "per_channel_symmetric",
    "per_tensor_affine",
    "per_tensor_symmetric",
    "qint32",
    "qint8",
    "qscheme",
    "quint2x4",
    "quint4x2",
    "quint8",
    "uint1",
    "uint2",
    "uint3",
    "uint4",
    "uint5",
    "uint6",
    "uint7",
]


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


per_channel_affine = qscheme("per_channel_affine")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_tensor_affine = qscheme("per_tensor_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")

# Name, bytes, whether it would be floating, whether signed.
float8_e4m3fn = AbsentDtype("float8_e4m3fn", 1, True, True)
float8_e4m3fnuz = AbsentDtype("float8_e4m3fnuz", 1, True, True)
float8_e5m2 = AbsentDtype("float8_e5m2", 1, True, True)
float8_e5m2fnuz = AbsentDtype("float8_e5m2fnuz", 1, True, True)
float4_e2m1fn_x2 = AbsentDtype("float4_e2m1fn_x2", 1, True, True)
float8_e8m0fnu = AbsentDtype("float8_e8m0fnu", 1, True, False)
int1 = AbsentDtype("int1", 1, False, True)
int2 = AbsentDtype("int2", 1, False, True)
int3 = AbsentDtype("int3", 1, False, True)
int4 = AbsentDtype("int4", 1, False, True)
int5 = AbsentDtype("int5", 1, False, True)
int6 = AbsentDtype("int6", 1, False, True)
int7 = AbsentDtype("int7", 1, False, True)
uint1 = AbsentDtype("uint1", 1, False, False)
uint2 = AbsentDtype("uint2", 1, False, False)
uint3 = AbsentDtype("uint3", 1, False, False)
uint4 = AbsentDtype("uint4", 1, False, False)
uint5 = AbsentDtype("uint5", 1, False, False)
uint6 = AbsentDtype("uint6", 1, False, False)
uint7 = AbsentDtype("uint7", 1, False, False)
bit = AbsentDtype("bit", 1, False, False)
bits1x8 = AbsentDtype("bits1x8", 1, False, False)
bits2x4 = AbsentDtype("bits2x4", 1, False, False)
bits4x2 = AbsentDtype("bits4x2", 1, False, False)
bits8 = AbsentDtype("bits8", 1, False, False)
bits16 = AbsentDtype("bits16", 2, False, False)
qint8 = AbsentDtype("qint8", 1, False, True)
quint8 = AbsentDtype("quint8", 1, False, False)
quint2x4 = AbsentDtype("quint2x4", 1, False, False)
quint4x2 = AbsentDtype("quint4x2", 1, False, False)
qint32 = AbsentDtype("qint32", 4, False, True)
