"""What modules in parts say when they are asked for."""

from __future__ import annotations

__all__ = ["WHAT"]

WHAT = "process groups do not shard tensors here"
