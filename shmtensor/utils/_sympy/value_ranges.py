"""What a size that is left open may be: a class without objects, since none is.

Source:
    torch.utils._sympy.value_ranges.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_class

__all__ = ["ValueRangeError", "ValueRanges"]


class ValueRangeError(RuntimeError):
    """No number fits. Nothing raises it here."""


ValueRanges = unavailable_class("ValueRanges", __name__, "sizes are plain numbers here")
