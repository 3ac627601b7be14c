"""The bounds of sizes that are left open: classes without objects, since none are.

Source:
    torch.utils._sympy.numbers.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_class

__all__ = ["IntInfinity", "NegativeIntInfinity"]

_WHAT = "sizes are plain numbers here"

IntInfinity = unavailable_class("IntInfinity", __name__, _WHAT)
NegativeIntInfinity = unavailable_class("NegativeIntInfinity", __name__, _WHAT)
