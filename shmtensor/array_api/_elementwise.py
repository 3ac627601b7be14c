"""Functions of each element, or of each pair of elements."""

from __future__ import annotations

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api import _unsigned as wide
from shmtensor.array_api._dtypes import Dtype, Operand, is_integral, pair

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

# --- arithmetic -------------------------------------------------------------------------------


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 + x2``."""
    return wide.by_bits(engine.add, *pair(x1, x2))


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 - x2``."""
    return wide.by_bits(engine.subtract, *pair(x1, x2))


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 * x2``."""
    return wide.by_bits(engine.multiply, *pair(x1, x2))


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 / x2``; of integers, in the default dtype."""
    return engine.divide(*pair(x1, x2))


def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 / x2`` rounded down; where one is infinite, ``x1 / x2`` as it is."""
    a, b = pair(x1, x2)
    if wide.is_wide(a):
        return wide.floor_divide(a, b)
    quotient = engine.floor_divide(a, b)
    if not a.dtype.is_floating_point:
        return quotient
    return engine.where(engine.isinf(a) | engine.isinf(b), a / b, quotient)


def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """Return what `floor_divide` leaves; it has the sign of *x2*, also where it is 0."""
    a, b = pair(x1, x2)
    if wide.is_wide(a):
        return wide.remainder(a, b)
    rest = engine.remainder(a, b)
    if not a.dtype.is_floating_point:
        return rest
    return engine.where(rest == 0, engine.copysign(rest, b), rest)


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """Return *x1* to the power of *x2*. Integers have no negative powers."""
    a, b = pair(x1, x2)
    return wide.power(a, b) if wide.is_wide(a) else engine.pow(a, b)


def abs(x: Tensor, /) -> Tensor:
    """Return absolute values; those of complex numbers are real."""
    return engine.clone(x) if wide.is_wide(x) else engine.abs(x)


def negative(x: Tensor, /) -> Tensor:
    """Return ``-x``."""
    return wide.by_bits(engine.negative, x)


def positive(x: Tensor, /) -> Tensor:
    """Return ``+x``, which is *x*."""
    return engine.positive(x)


def reciprocal(x: Tensor, /) -> Tensor:
    """Return ``1 / x``."""
    return engine.reciprocal(x)


def square(x: Tensor, /) -> Tensor:
    """Return ``x * x``."""
    return wide.by_bits(engine.multiply, x, x) if is_integral(x.dtype) else engine.square(x)


def sign(x: Tensor, /) -> Tensor:
    """Return -1, 0 or 1; of complex numbers ``x / abs(x)``, of NaN NaN."""
    if wide.is_wide(x):
        return (x != 0).to(x.dtype)
    if x.dtype.is_complex:
        return engine.sgn(x)
    signs = engine.sign(x)
    # The engine's sign of NaN is 0.
    return engine.where(engine.isnan(x), x, signs) if x.dtype.is_floating_point else signs


# --- bits -------------------------------------------------------------------------------------


def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 & x2``."""
    return wide.by_bits(engine.bitwise_and, *pair(x1, x2))


def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 | x2``."""
    return wide.by_bits(engine.bitwise_or, *pair(x1, x2))


def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 ^ x2``."""
    return wide.by_bits(engine.bitwise_xor, *pair(x1, x2))


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Return ``~x``."""
    return wide.by_bits(engine.bitwise_not, x)


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 << x2``; 0 when all bits are shifted out."""
    return wide.by_bits(engine.bitwise_left_shift, *pair(x1, x2))


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 >> x2``; a negative number stays negative."""
    a, b = pair(x1, x2)
    return wide.shift_right(a, b) if wide.is_wide(a) else engine.bitwise_right_shift(a, b)


# --- comparison and logic ---------------------------------------------------------------------


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 == x2`` element by element."""
    return engine.eq(*pair(x1, x2))


def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 != x2`` element by element."""
    return engine.ne(*pair(x1, x2))


def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 < x2``."""
    return engine.lt(*map(wide.as_ordered, pair(x1, x2)))


def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 <= x2``."""
    return engine.le(*map(wide.as_ordered, pair(x1, x2)))


def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 > x2``."""
    return engine.gt(*map(wide.as_ordered, pair(x1, x2)))


def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``x1 >= x2``."""
    return engine.ge(*map(wide.as_ordered, pair(x1, x2)))


def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether both differ from 0."""
    return engine.logical_and(*map(wide.logical, pair(x1, x2)))


def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether one or both differ from 0."""
    return engine.logical_or(*map(wide.logical, pair(x1, x2)))


def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Return whether exactly one differs from 0."""
    return engine.logical_xor(*map(wide.logical, pair(x1, x2)))


def logical_not(x: Tensor, /) -> Tensor:
    """Return whether elements are 0."""
    return engine.logical_not(wide.logical(x))


def isfinite(x: Tensor, /) -> Tensor:
    """Return whether elements are finite."""
    return engine.isfinite(x)


def isinf(x: Tensor, /) -> Tensor:
    """Return whether elements, or a part of complex ones, are infinite."""
    return engine.isinf(x)


def isnan(x: Tensor, /) -> Tensor:
    """Return whether elements, or a part of complex ones, are NaN."""
    return engine.isnan(x)


def signbit(x: Tensor, /) -> Tensor:
    """Return whether the sign bit is set, as in -0.0."""
    return engine.signbit(x)


# --- choosing and rounding --------------------------------------------------------------------


def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the larger of two; NaN when one is NaN."""
    return wide.by_order(engine.maximum, *pair(x1, x2))


def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the smaller of two; NaN when one is NaN."""
    return wide.by_order(engine.minimum, *pair(x1, x2))


def _bound(x: Tensor, bound: int | float | Tensor | None) -> Tensor | None:
    """A bound in the dtype of *x*; integers beyond its range bound nothing."""
    if bound is None or (isinstance(bound, Tensor) and bound.dtype is x.dtype):
        return bound
    if not isinstance(bound, Tensor):
        if is_integral(x.dtype) and isinstance(bound, int):
            bound = _in_range(bound, x.dtype)
        return engine.tensor(bound, dtype=x.dtype)
    if is_integral(x.dtype) and is_integral(bound.dtype):
        limits = engine.iinfo(x.dtype)
        bound = clip(bound, limits.min, limits.max)
    return bound.to(x.dtype)


def _in_range(n: int, dtype: Dtype) -> int:
    limits = engine.iinfo(dtype)
    return int(limits.min if n < limits.min else limits.max if n > limits.max else n)


def clip(
    x: Tensor,
    /,
    min: int | float | Tensor | None = None,
    max: int | float | Tensor | None = None,
) -> Tensor:
    """Return *x* with what lies outside of *min* and *max* moved to them.

    Args:
        x: A real array.
        min: The lower bound, or arrays of bounds that broadcast with *x*; None for none.
        max: The upper bound likewise. Where it is below *min*, it is the result.

    Returns:
        An array of the dtype of *x*; NaN where *x* or a bound is NaN.
    """
    lower, upper = _bound(x, min), _bound(x, max)
    result = x
    if lower is not None:
        result = wide.by_order(engine.maximum, result, lower)
    if upper is not None:
        result = wide.by_order(engine.minimum, result, upper)
    return engine.clone(x) if result is x else result


def ceil(x: Tensor, /) -> Tensor:
    """Return *x* rounded up."""
    return engine.ceil(x)


def floor(x: Tensor, /) -> Tensor:
    """Return *x* rounded down."""
    return engine.floor(x)


def trunc(x: Tensor, /) -> Tensor:
    """Return *x* rounded towards 0."""
    return engine.trunc(x)


def round(x: Tensor, /) -> Tensor:
    """Return *x* rounded to the nearest integer, halves to the even one; complex parts each."""
    if x.dtype.is_complex:
        return engine.view_as_complex(engine.round(engine.view_as_real(engine.resolve_conj(x))))
    return engine.round(x)


def nextafter(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the number that follows *x1* in the direction of *x2*."""
    return engine.nextafter(*pair(x1, x2))


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the magnitude of *x1* with the sign of *x2*."""
    return engine.copysign(*pair(x1, x2))


# --- complex numbers --------------------------------------------------------------------------


def conj(x: Tensor, /) -> Tensor:
    """Return complex conjugates."""
    return engine.conj(x)


def real(x: Tensor, /) -> Tensor:
    """Return real parts; of a complex array, a view."""
    return engine.real(x)


def imag(x: Tensor, /) -> Tensor:
    """Return imaginary parts, a view; zeros for a real array."""
    return engine.imag(x) if x.dtype.is_complex else engine.zeros_like(x)


# --- exponentials, logarithms, angles ---------------------------------------------------------


def exp(x: Tensor, /) -> Tensor:
    """Return e to the power of *x*."""
    return engine.exp(x)


def expm1(x: Tensor, /) -> Tensor:
    """Return ``exp(x) - 1``, exact for small *x* too. Complex zeros give one with real part +0."""
    result = engine.expm1(x)
    if not x.dtype.is_complex:
        return result
    zero = engine.complex(engine.zeros_like(result.real), engine.imag(x))
    return engine.where(x == 0, zero, result)


def log(x: Tensor, /) -> Tensor:
    """Return natural logarithms."""
    return engine.log(x)


def log1p(x: Tensor, /) -> Tensor:
    """Return ``log(1 + x)``, exact for small *x* too."""
    return engine.log1p(x)


def log2(x: Tensor, /) -> Tensor:
    """Return logarithms to base 2."""
    return engine.log2(x)


def log10(x: Tensor, /) -> Tensor:
    """Return logarithms to base 10."""
    return engine.log10(x)


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``log(exp(x1) + exp(x2))``."""
    return engine.logaddexp(*pair(x1, x2))


def sqrt(x: Tensor, /) -> Tensor:
    """Return square roots."""
    return engine.sqrt(x)


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """Return ``sqrt(x1**2 + x2**2)`` without overflow on the way."""
    return engine.hypot(*pair(x1, x2))


def sin(x: Tensor, /) -> Tensor:
    """Return sines of angles in radians."""
    return engine.sin(x)


def cos(x: Tensor, /) -> Tensor:
    """Return cosines of angles in radians."""
    return engine.cos(x)


def tan(x: Tensor, /) -> Tensor:
    """Return tangents of angles in radians."""
    return engine.tan(x)


def asin(x: Tensor, /) -> Tensor:
    """Return the angles with sine *x*, in radians."""
    return engine.asin(x)


def acos(x: Tensor, /) -> Tensor:
    """Return the angles with cosine *x*, in radians."""
    return engine.acos(x)


def atan(x: Tensor, /) -> Tensor:
    """Return the angles with tangent *x*, in radians."""
    return engine.atan(x)


def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the angles of the points (*x2*, *x1*), in radians."""
    return engine.atan2(*pair(x1, x2))


def sinh(x: Tensor, /) -> Tensor:
    """Return hyperbolic sines."""
    return engine.sinh(x)


def cosh(x: Tensor, /) -> Tensor:
    """Return hyperbolic cosines."""
    return engine.cosh(x)


def tanh(x: Tensor, /) -> Tensor:
    """Return hyperbolic tangents. Where the real part is infinite, the imaginary part is 0 with the
    sign that it has in *x*.
    """
    result = engine.tanh(x)
    if not x.dtype.is_complex:
        return result
    imaginary = engine.imag(x)
    limit = engine.complex(result.real, engine.copysign(engine.zeros_like(imaginary), imaginary))
    at_limit = engine.isinf(engine.real(x)) & engine.isfinite(imaginary)
    return engine.where(at_limit, limit, result)


def asinh(x: Tensor, /) -> Tensor:
    """Return the inverse of `sinh`."""
    return engine.asinh(x)


def acosh(x: Tensor, /) -> Tensor:
    """Return the inverse of `cosh`."""
    return engine.acosh(x)


def atanh(x: Tensor, /) -> Tensor:
    """Return the inverse of `tanh`."""
    return engine.atanh(x)
