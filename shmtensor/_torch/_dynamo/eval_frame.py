"""What a compiled module would be; none is made."""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class
from shmtensor.nn import Module

__all__ = ["OptimizedModule"]

OptimizedModule: Any = unavailable_class(
    "OptimizedModule", __name__, "modules are not compiled here, they run as they are", (Module,)
)
