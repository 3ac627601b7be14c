"""Graphs: there are none."""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class

from ._what import WHAT

__all__ = ["CodeGen", "Graph", "PythonCode"]

CodeGen: Any = unavailable_class("CodeGen", __name__, WHAT)
Graph: Any = unavailable_class("Graph", __name__, WHAT)
PythonCode: Any = unavailable_class("PythonCode", __name__, WHAT)
