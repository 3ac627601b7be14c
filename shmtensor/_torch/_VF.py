"""The functions of the package under the name by which layers of torch call them.

Source:
    torch._VF.
"""

from __future__ import annotations

from typing import Any

import shmtensor


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(shmtensor, name)
