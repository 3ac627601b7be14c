"""The fused path of attention layers in evaluation: a flag that keeps its value.

Source:
    torch.backends.mha.
"""

from __future__ import annotations

_is_fastpath_enabled = True


def get_fastpath_enabled() -> bool:
    """Return what `set_fastpath_enabled` was last told, True at first."""
    return _is_fastpath_enabled


def set_fastpath_enabled(value: bool) -> None:
    """Allow the fused path; layers here compute the same either way."""
    global _is_fastpath_enabled
    _is_fastpath_enabled = value
