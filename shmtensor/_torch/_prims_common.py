"""Small questions about tensors that libraries take from torch's private module of this name.

Source:
    torch._prims_common.
"""

from __future__ import annotations

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = [
    "alert_not_deterministic",
    "is_boolean_dtype",
    "is_complex_dtype",
    "is_contiguous",
    "is_contiguous_or_false",
    "is_float_dtype",
    "is_integer_dtype",
]


def is_contiguous(a: Tensor, false_if_dde: bool = False) -> bool:
    """Return whether the elements lie in the order of the indices, without gaps."""
    return a.is_contiguous()


def is_contiguous_or_false(a: Tensor) -> bool:
    """Return `is_contiguous`."""
    return a.is_contiguous()


def alert_not_deterministic(caller: str) -> None:
    """Warn or raise as `use_deterministic_algorithms` asked for.

    Args:
        caller: What gives results that differ between runs.

    Raises:
        RuntimeError: Such functions are to raise.
    """
    if not shmtensor.are_deterministic_algorithms_enabled():
        return
    text = f"{caller} does not have a deterministic implementation"
    if shmtensor.is_deterministic_algorithms_warn_only_enabled():
        import warnings

        warnings.warn(f"{text}, but 'warn_only=True' was given", stacklevel=2)
    else:
        raise RuntimeError(f"{text}, but 'use_deterministic_algorithms(True)' was called")


def is_boolean_dtype(dtype: shmtensor.dtype) -> bool:
    """Return whether it is bool."""
    return dtype is shmtensor.bool


def is_integer_dtype(dtype: shmtensor.dtype) -> bool:
    """Return whether it holds whole numbers; bool does not."""
    return not (dtype.is_floating_point or dtype.is_complex or is_boolean_dtype(dtype))


def is_float_dtype(dtype: shmtensor.dtype) -> bool:
    """Return whether it is a floating-point dtype."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: shmtensor.dtype) -> bool:
    """Return whether it is a complex dtype."""
    return dtype.is_complex
