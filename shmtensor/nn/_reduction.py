"""Reductions of losses as numbers, and as the old pair of flags.

Source:
    torch.nn._reduction.
"""

from __future__ import annotations

import warnings

__all__ = ["get_enum", "legacy_get_enum", "legacy_get_string"]

_CODES = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return the number of ``"none"``, ``"mean"`` or ``"sum"``.

    Raises:
        ValueError: It is something else.
    """
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.",
            stacklevel=2,
        )
        return 1
    if reduction not in _CODES:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _CODES[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """Return the reduction that the two old flags mean, with a warning."""
    if reduce is False:
        found = "none"
    elif size_average is False:
        found = "sum"
    else:
        found = "mean"
    if emit_warning:
        warnings.warn(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{found}' instead.",
            stacklevel=2,
        )
    return found


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """Return the number of the reduction that the two old flags mean, with a warning."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
