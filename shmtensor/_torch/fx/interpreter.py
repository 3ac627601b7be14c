"""What runs a graph: there are none."""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class

from ._what import WHAT

__all__ = ["Interpreter", "Transformer"]

Interpreter: Any = unavailable_class("Interpreter", __name__, WHAT)
Transformer: Any = unavailable_class("Transformer", __name__, WHAT, (Interpreter,))
