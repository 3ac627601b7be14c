"""Whether a program is being traced: no.

Source:
    torch._dynamo.external_utils.
"""

from __future__ import annotations

__all__ = ["is_compiling"]


def is_compiling() -> bool:
    """Return whether the program is being traced: False."""
    return False
