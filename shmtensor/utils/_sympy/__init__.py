"""Sizes that stand for unknown numbers: names to look at, since all sizes are numbers here.

Source:
    torch.utils._sympy.
"""

from __future__ import annotations

__all__: list[str] = []
