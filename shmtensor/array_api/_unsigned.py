"""Operations on uint16, uint32 and uint64, for which the engine has tensors and few operators.

Three ways lead to the operators of signed integers:

* sums, products, shifts to the left and negation have the same bits with and without a sign;
* order is kept when the highest bit is flipped and the bits are read as a signed integer;
* division and shifts to the right are done in the next wider type, those of uint64 in steps.
"""

from __future__ import annotations

from collections.abc import Callable

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api._dtypes import WIDE_UNSIGNED, Dtype

__all__ = ["as_ordered", "as_signed", "by_bits", "by_order", "from_ordered", "is_wide", "logical"]

_SIGNED_OF: dict[Dtype, Dtype] = {
    engine.uint16: engine.int16,
    engine.uint32: engine.int32,
    engine.uint64: engine.int64,
}
_UNSIGNED_OF = {signed: unsigned for unsigned, signed in _SIGNED_OF.items()}
_WIDER_OF = {engine.uint16: engine.int32, engine.uint32: engine.int64}
_INT64_MAX = 2**63 - 1


def is_wide(x: Tensor) -> bool:
    """Whether *x* needs the functions of this module."""
    return x.dtype in WIDE_UNSIGNED


def as_signed(x: Tensor) -> Tensor:
    """The same bits as signed integers; a view. Other dtypes as they are."""
    return x.view(_SIGNED_OF[x.dtype]) if x.dtype in WIDE_UNSIGNED else x


def by_bits(function: Callable[..., Tensor], *arrays: Tensor) -> Tensor:
    """``function(*arrays)`` where the sign of integers does not change the bits of the result."""
    if not is_wide(arrays[0]):
        return function(*arrays)
    return function(*map(as_signed, arrays)).view(arrays[0].dtype)


def _flip(signed: Tensor) -> Tensor:
    return signed ^ engine.iinfo(signed.dtype).min


def as_ordered(x: Tensor) -> Tensor:
    """Signed integers in the order of *x*. Other dtypes as they are."""
    return _flip(as_signed(x)) if is_wide(x) else x


def from_ordered(ordered: Tensor, dtype: Dtype) -> Tensor:
    """Undo `as_ordered` for values of *dtype*."""
    return _flip(ordered).view(dtype) if dtype in WIDE_UNSIGNED else ordered


def by_order(function: Callable[..., Tensor], *arrays: Tensor) -> Tensor:
    """``function(*arrays)`` that picks elements by their order."""
    if not is_wide(arrays[0]):
        return function(*arrays)
    return from_ordered(function(*map(as_ordered, arrays)), arrays[0].dtype)


def logical(x: Tensor) -> Tensor:
    """Whether each element differs from 0."""
    return x if x.dtype is engine.bool else x != 0


# --- division, remainders, powers, shifts -----------------------------------------------------


def _wider(function: Callable[[Tensor, Tensor], Tensor], x1: Tensor, x2: Tensor) -> Tensor:
    wide = _WIDER_OF[x1.dtype]
    return function(x1.to(wide), x2.to(wide)).to(x1.dtype)


def _shift_right_64(x: Tensor, n: Tensor | int) -> Tensor:
    """Shift the bits of int64 *x* by *n* in 0 ... 63; zeros come in."""
    once = (x >> 1) & _INT64_MAX
    if isinstance(n, int):
        return once >> (n - 1) if n else x
    return engine.where(n == 0, x, once >> engine.clamp(n - 1, min=0))


def _divide_64(x1: Tensor, x2: Tensor) -> Tensor:
    """Quotient of uint64 bits in int64.

    A divisor of 2^63 or more goes in once or never. For others, half of the dividend is divided,
    and twice that is short by one at most.
    """
    large = x2 < 0
    divisor = engine.where(large, 1, x2)
    quotient = engine.floor_divide(_shift_right_64(x1, 1), divisor) << 1
    rest = x1 - quotient * divisor
    quotient = quotient + (_flip(rest) >= _flip(divisor)).to(engine.int64)
    return engine.where(large, (_flip(x1) >= _flip(x2)).to(engine.int64), quotient)


def floor_divide(x1: Tensor, x2: Tensor) -> Tensor:
    """Quotients rounded down."""
    if x1.dtype is not engine.uint64:
        return _wider(engine.floor_divide, x1, x2)
    return _divide_64(as_signed(x1), as_signed(x2)).view(engine.uint64)


def remainder(x1: Tensor, x2: Tensor) -> Tensor:
    """Remainders of `floor_divide`."""
    if x1.dtype is not engine.uint64:
        return _wider(engine.remainder, x1, x2)
    dividend, divisor = as_signed(x1), as_signed(x2)
    return (dividend - _divide_64(dividend, divisor) * divisor).view(engine.uint64)


def power(x1: Tensor, x2: Tensor) -> Tensor:
    """Powers, modulo 2^bits. Exponents of uint64 are below 2^63."""
    if x1.dtype is not engine.uint64:
        return _wider(engine.pow, x1, x2)
    return by_bits(engine.pow, x1, x2)


def shift_right(x1: Tensor, x2: Tensor) -> Tensor:
    """Shift bits to the right, zeros come in; none are left after a shift by all or more."""
    if x1.dtype is not engine.uint64:
        return _wider(lambda a, b: a >> engine.clamp(b, max=8 * a.itemsize - 1), x1, x2)
    n = as_signed(x2)
    shifted = _shift_right_64(as_signed(x1), engine.clamp(n, 0, 63))
    return engine.where((n < 0) | (n > 63), 0, shifted).view(engine.uint64)
