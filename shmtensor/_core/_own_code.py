"""Whose code runs: the package's own modules are known by ``__package__``.

``__name__`` and ``__module__`` don't tell: under ``as_torch`` they are torch's (Note [Names under
torch]).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["is_own_code"]


def is_own_code(names: Mapping[str, Any], package: str = "shmtensor") -> bool:
    """Return whether the globals of a function or frame are those of a module in *package*."""
    home = names.get("__package__")  # not in generated code; None in some programs
    return isinstance(home, str) and (home == package or home.startswith(f"{package}."))
