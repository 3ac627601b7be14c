"""Data types of the standard: which there are, how they promote, their kinds and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import shmtensor as engine
from shmtensor._core._tensor import Tensor

__all__ = [
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]

Dtype: TypeAlias = engine.dtype
Scalar: TypeAlias = bool | int | float | complex
#: An array, or a Python number that takes the dtype of the array beside it.
Operand: TypeAlias = Tensor | bool | int | float | complex

SIGNED = (engine.int8, engine.int16, engine.int32, engine.int64)
UNSIGNED = (engine.uint8, engine.uint16, engine.uint32, engine.uint64)
#: Of these the engine has tensors and few operators: see `_unsigned`.
WIDE_UNSIGNED = frozenset(UNSIGNED[1:])
REAL_FLOATING = (engine.float32, engine.float64)
COMPLEX_FLOATING = (engine.complex64, engine.complex128)

#: Kinds of the standard; the halves are extensions of it, and of the kinds their names say.
KINDS: dict[str, tuple[Dtype, ...]] = {
    "bool": (engine.bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": REAL_FLOATING,
    "complex floating": COMPLEX_FLOATING,
    "numeric": SIGNED + UNSIGNED + REAL_FLOATING + COMPLEX_FLOATING,
}
_HALVES = {
    "real floating": (engine.float16, engine.bfloat16),
    "complex floating": (engine.complex32,),
}
_HALVES["numeric"] = _HALVES["real floating"] + _HALVES["complex floating"]

_COMPLEX_OF = {
    engine.float16: engine.complex64,
    engine.bfloat16: engine.complex64,
    engine.float32: engine.complex64,
    engine.float64: engine.complex128,
}


def is_integral(dtype: Dtype) -> bool:
    """Whether *dtype* is an integer type; bool is none."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype is engine.bool)


def default_integral_sum(dtype: Dtype) -> Dtype:
    """The dtype in which sums and products of *dtype* are made when none is asked for."""
    if dtype in UNSIGNED:
        return engine.uint64
    return engine.int64 if is_integral(dtype) or dtype is engine.bool else dtype


# --- promotion --------------------------------------------------------------------------------


def promote(a: Dtype, b: Dtype) -> Dtype:
    """The dtype of a result of operands with dtypes *a* and *b*.

    Raises:
        TypeError: uint64 with a signed integer: no integer type holds both.
    """
    if a is b:
        return a
    if a not in WIDE_UNSIGNED and b not in WIDE_UNSIGNED:
        return engine.promote_types(a, b)
    if not (is_integral(a) and is_integral(b)):
        return a if is_integral(b) or b is engine.bool else b
    if a in UNSIGNED and b in UNSIGNED:
        return a if a.itemsize > b.itemsize else b
    unsigned, signed = (a, b) if a in UNSIGNED else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned is engine.uint64:
        raise TypeError(f"{a} and {b} have no common type")
    return SIGNED[UNSIGNED.index(unsigned) + 1]


def with_scalar(dtype: Dtype, value: Scalar) -> Dtype:
    """The dtype of a result of an array of *dtype* and a Python number.

    Raises:
        TypeError: *value* is not a number.
    """
    if isinstance(value, bool):
        return dtype
    if isinstance(value, int):
        return engine.int64 if dtype is engine.bool else dtype
    if isinstance(value, float):
        return dtype if dtype in _COMPLEX_OF or dtype.is_complex else engine.get_default_dtype()
    if isinstance(value, complex):
        if dtype.is_complex:
            return dtype
        return _COMPLEX_OF[dtype if dtype in _COMPLEX_OF else engine.get_default_dtype()]
    raise TypeError(f"expected an array or a number, got {type(value).__name__}")


def pair(x1: Operand, x2: Operand) -> tuple[Tensor, Tensor]:
    """Both operands as arrays of one dtype. One of them may be a Python number.

    The engine lets arrays without dimensions give way to others; by the standard they do not.

    Raises:
        TypeError: Neither is an array, or the types do not promote.
    """
    if isinstance(x1, Tensor):
        if isinstance(x2, Tensor):
            if x1.dtype is x2.dtype:
                return x1, x2
            dtype = promote(x1.dtype, x2.dtype)
            return x1.to(dtype), x2.to(dtype)
        dtype = with_scalar(x1.dtype, x2)
        return x1.to(dtype), engine.tensor(x2, dtype=dtype)
    if isinstance(x2, Tensor):
        dtype = with_scalar(x2.dtype, x1)
        return engine.tensor(x1, dtype=dtype), x2.to(dtype)
    names = f"{type(x1).__name__} and {type(x2).__name__}"
    raise TypeError(f"one of two operands must be an array, got {names}")


def promoted(arrays: Any) -> list[Tensor]:
    """All *arrays* with their common dtype."""
    arrays = list(arrays)
    if not arrays:
        raise ValueError("expected at least one array")
    dtype = result_type(*arrays)
    return [x.to(dtype) for x in arrays]


def _dtype_of(x: Any) -> Dtype:
    if isinstance(x, Tensor):
        return x.dtype
    if isinstance(x, engine.dtype):
        return x
    raise TypeError(f"expected an array or a dtype, got {type(x).__name__}")


def result_type(*arrays_and_dtypes: Tensor | Dtype | Scalar) -> Dtype:
    """Return the dtype that operands of these dtypes are promoted to.

    Args:
        *arrays_and_dtypes: Arrays, dtypes and Python numbers, at least one of them no number.

    Raises:
        ValueError: There is nothing but numbers.
        TypeError: The dtypes do not promote: uint64 with a signed integer.
    """
    numbers = [x for x in arrays_and_dtypes if isinstance(x, (bool, int, float, complex))]
    dtypes = [
        _dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, (bool, int, float, complex))
    ]
    if not dtypes:
        raise ValueError("result_type(): at least one argument must be an array or a dtype")
    # Widest first: then the result does not depend on the order.
    dtypes.sort(key=lambda d: (d in WIDE_UNSIGNED, not is_integral(d)))
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote(result, dtype)
    for number in numbers:
        result = with_scalar(result, number)
    return result


def can_cast(from_: Dtype | Tensor, to: Dtype, /) -> bool:
    """Return whether promotion turns *from_* (a dtype, or an array's) into *to*."""
    try:
        return promote(_dtype_of(from_), to) is to
    except TypeError:
        return False


def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Return whether *dtype* belongs to a kind.

    Args:
        dtype: The dtype.
        kind: A dtype; ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
            ``"real floating"``, ``"complex floating"`` or ``"numeric"``; or a tuple of those.

    Raises:
        ValueError: There is no such kind.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, engine.dtype):
        return dtype is kind
    if kind not in KINDS:
        raise ValueError(f"isdtype(): unknown kind {kind!r}, expected one of {sorted(KINDS)}")
    return dtype in KINDS[kind] or dtype in _HALVES.get(kind, ())


# --- casts and limits -------------------------------------------------------------------------


def astype(x: Tensor, dtype: Dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return *x* with another dtype.

    Args:
        x: Any array.
        dtype: The dtype of the result.
        copy: Copy even when the dtype is the same.
        device: The device of the result.

    Raises:
        TypeError: *dtype* is none of ours; or a complex array would become real, where `real` and
            `imag` say which part is meant.
    """
    if not isinstance(dtype, engine.dtype):
        raise TypeError(f"astype(): expected a dtype of shmtensor, got {dtype!r}")
    if x.dtype.is_complex and not dtype.is_complex:
        raise TypeError(f"astype(): {x.dtype} cannot become {dtype}, take its real or imag first")
    return x.to(dtype=dtype, device=x.device if device is None else device, copy=copy)


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a floating-point dtype; for a complex dtype, of its parts.

    Attributes:
        bits: Number of bits of one real number.
        eps: Distance from 1.0 to the next larger number.
        max: Largest number.
        min: Smallest number, which is ``-max``.
        smallest_normal: Smallest positive number with full precision.
        dtype: The real dtype.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype


@dataclass(frozen=True)
class IntegerInfo:
    """Limits of an integer dtype.

    Attributes:
        bits: Number of bits.
        max: Largest number.
        min: Smallest number.
        dtype: The dtype.
    """

    bits: int
    max: int
    min: int
    dtype: Dtype


def finfo(type: Dtype | Tensor, /) -> FloatInfo:
    """Return the limits of a floating-point dtype, or of an array's."""
    dtype = _dtype_of(type)
    info = engine.finfo(dtype)
    real = dtype.to_real() if dtype.is_complex else dtype
    return FloatInfo(
        info.bits,
        float(info.eps),
        float(info.max),
        float(info.min),
        float(info.smallest_normal),
        real,
    )


def iinfo(type: Dtype | Tensor, /) -> IntegerInfo:
    """Return the limits of an integer dtype, or of an array's."""
    dtype = _dtype_of(type)
    info = engine.iinfo(dtype)
    return IntegerInfo(info.bits, int(info.max), int(info.min), dtype)
