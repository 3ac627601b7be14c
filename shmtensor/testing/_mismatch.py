"""What differs between two numbers or tensors, as a text that says by how much."""

from __future__ import annotations

import cmath
import math

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = ["mismatch_of_numbers", "mismatch_of_tensors"]


def _head(what: str, rtol: float, atol: float) -> str:
    return f"{what} are not {'equal' if rtol == atol == 0 else 'close'}!\n\n"


def _line(
    name: str, value: object, allowed: float, is_exact: bool, place: tuple[int, ...] | None
) -> str:
    at = "" if place is None else f" at index {place}"
    up_to = "" if is_exact else f" (up to {allowed} allowed)"
    return f"{name} difference: {value}{at}{up_to}"


def _are_close(
    actual: complex, expected: complex, rtol: float, atol: float, equal_nan: bool
) -> bool:
    if actual == expected:
        return True
    if cmath.isnan(actual) or cmath.isnan(expected):
        return equal_nan and cmath.isnan(actual) and cmath.isnan(expected)
    if cmath.isinf(actual) or cmath.isinf(expected):
        return False
    return abs(actual - expected) <= atol + rtol * abs(expected)


def mismatch_of_numbers(
    actual: complex, expected: complex, rtol: float, atol: float, *, equal_nan: bool
) -> str | None:
    """Return None when ``|actual - expected| <= atol + rtol * |expected|``, else what differs."""
    if _are_close(actual, expected, rtol, atol, equal_nan):
        return None
    is_exact = rtol == atol == 0
    difference = abs(actual - expected)
    relative = math.inf if expected == 0 else difference / abs(expected)
    lines = (
        f"{_head('Scalars', rtol, atol)}Expected {expected} but got {actual}.",
        _line("Absolute", difference, atol, is_exact, None),
        _line("Relative", relative, rtol, is_exact, None),
    )
    return "\n".join(lines)


def _place(flat: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element from its number."""
    index = []
    for size in reversed(sizes):
        flat, at = divmod(flat, size)
        index.append(at)
    return tuple(reversed(index))


def _greatest(values: Tensor, close: Tensor) -> tuple[object, int]:
    """The greatest value where the elements are not close, and its number."""
    values = values.flatten().masked_fill(close.flatten(), 0)
    number = int(values.argmax().item())
    return values[number].item(), number


def _promoted(tensor: Tensor) -> Tensor:
    """Integers with room for differences; bools as integers."""
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor
    return tensor.to(_C.int64)


def mismatch_of_tensors(
    actual: Tensor,
    expected: Tensor,
    rtol: float,
    atol: float,
    *,
    equal_nan: bool,
    what: str = "",
) -> str | None:
    """Return None when all elements are close, else how many are not, and by how much at most.

    Args:
        actual: The computed one.
        expected: Of the same shape and dtype.
        rtol: The relative tolerance.
        atol: The absolute tolerance.
        equal_nan: NaN is close to NaN.
        what: How the text begins; without it, with "Scalars" for tensors without dims and
            "Tensor-likes" for others.
    """
    close = _C.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(close.all()):
        return None
    if actual.dim() == 0 and not what:
        return mismatch_of_numbers(actual.item(), expected.item(), rtol, atol, equal_nan=equal_nan)
    return _describe(actual.detach(), expected.detach(), close, rtol, atol, what or "Tensor-likes")


def _describe(
    actual: Tensor, expected: Tensor, close: Tensor, rtol: float, atol: float, what: str
) -> str:
    sizes, is_exact = tuple(actual.shape), rtol == atol == 0
    n, n_apart = close.numel(), int((~close).sum().item())
    actual, expected = _promoted(actual), _promoted(expected)
    difference = (actual - expected).abs()
    relative = difference / expected.abs()
    greatest, at = _greatest(difference, close)
    greatest_relative, at_relative = _greatest(relative, close)
    lines = (
        f"{_head(what, rtol, atol)}Mismatched elements: {n_apart} / {n} ({n_apart / n:.1%})",
        _line("Greatest absolute", greatest, atol, is_exact, _place(at, sizes)),
        _line("Greatest relative", greatest_relative, rtol, is_exact, _place(at_relative, sizes)),
    )
    return "\n".join(lines)
