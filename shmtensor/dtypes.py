"""Element types: their names, limits and the rules that mix them."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from shmtensor import _C
from shmtensor._C import can_cast, dtype, get_default_dtype, promote_types, result_type

__all__ = [
    "bfloat16",
    "bool",
    "can_cast",
    "cdouble",
    "cfloat",
    "chalf",
    "complex32",
    "complex64",
    "complex128",
    "double",
    "dtype",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "half",
    "iinfo",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "promote_types",
    "result_type",
    "set_default_dtype",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bfloat16 = _C.bfloat16
complex32 = chalf = _C.complex32
complex64 = cfloat = _C.complex64
complex128 = cdouble = _C.complex128
float16 = half = _C.float16
float32 = _C.float32
float64 = double = _C.float64
int8 = _C.int8
int16 = short = _C.int16
int32 = _C.int32
int64 = long = _C.int64
uint8 = _C.uint8
uint16 = _C.uint16
uint32 = _C.uint32
uint64 = _C.uint64

_py_int = builtins.int
_py_float = builtins.float
_Dtype = dtype


class _Format(NamedTuple):
    """A binary floating-point format."""

    bits: _py_int
    mantissa: _py_int  # explicit bits
    exponent: _py_int  # the largest, unbiased
    digits: _py_int  # decimal digits that survive


_FORMATS = {
    float16: _Format(16, 10, 15, 3),
    bfloat16: _Format(16, 7, 127, 2),
    float32: _Format(32, 23, 127, 6),
    float64: _Format(64, 52, 1023, 15),
}
_REAL_OF = {complex32: float16, complex64: float32, complex128: float64}


class finfo:
    """Limits of a floating-point dtype; complex dtypes give those of their parts.

    Args:
        type: The dtype; the default dtype when left out.

    Raises:
        TypeError: *type* is not a floating-point or complex dtype.

    Source:
        torch.finfo.
    """

    bits: _py_int
    max: _py_float
    min: _py_float
    eps: _py_float
    tiny: _py_float
    smallest_normal: _py_float
    resolution: _py_float
    dtype: str  # its name

    def __init__(self, type: _Dtype | None = None) -> None:
        wanted = get_default_dtype() if type is None else type
        if not isinstance(wanted, dtype):
            limits = getattr(wanted, "limits", None)  # of `_absent_dtypes`
            if limits is not None:
                self.bits = wanted.itemsize * 8
                self.max, self.min, self.eps, self.tiny = limits
                self.smallest_normal = self.tiny
                self.resolution = 1.0
                self.dtype = str(wanted).removeprefix("torch.")
                return
            raise TypeError(
                "finfo(): argument 'type' (position 1) must be torch.dtype, not "
                f"{wanted.__class__.__name__}"
            )
        real = _REAL_OF.get(wanted, wanted)
        if real not in _FORMATS:
            raise TypeError(
                f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                f"'{str(wanted).removeprefix('torch.')}'"
            )
        form = _FORMATS[real]
        self.bits = form.bits
        self.eps = math.ldexp(1.0, -form.mantissa)
        self.max = math.ldexp(2.0 - self.eps, form.exponent)
        self.min = -self.max
        self.tiny = math.ldexp(1.0, 1 - form.exponent)
        self.smallest_normal = self.tiny
        self.resolution = 10.0**-form.digits
        self.dtype = str(real).removeprefix("torch.")

    def __eq__(self, other: object) -> _py_bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> _py_int:
        return hash((finfo, self.dtype))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype.

    Args:
        type: The dtype.

    Raises:
        TypeError: *type* is not an integer dtype.

    Source:
        torch.iinfo.
    """

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype):
            raise TypeError(
                "iinfo(): argument 'type' (position 1) must be torch.dtype, not "
                f"{type.__class__.__name__}"
            )
        name = str(type).removeprefix("torch.")
        if type is bool or type.is_floating_point or type.is_complex:
            raise TypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{name}'"
            )
        self.bits = type.itemsize * 8
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if type.is_signed else 2**self.bits - 1
        self.dtype = name

    def __eq__(self, other: object) -> _py_bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> _py_int:
        return hash((iinfo, self.dtype))

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


#: Called with each new default dtype: what stands above this module and depends on it.
default_followers: list[Callable[[Any], None]] = []


def set_default_dtype(d: Any) -> None:
    """Set the dtype that Python floats become, and with it what `Storage` makes.

    Args:
        d: A floating-point dtype.

    Raises:
        TypeError: *d* is no floating-point dtype.

    Source:
        torch.set_default_dtype.
    """
    _C._set_default_dtype(d)
    for follow in default_followers:
        follow(d)


_py_bool = builtins.bool
# Last, since these hide the built-ins from here on.
bool = _C.bool
int = _C.int32
float = _C.float32
