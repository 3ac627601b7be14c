"""How `LinearCrossEntropyLoss` divides its input."""

from __future__ import annotations

from shmtensor.nn.functional.linear_loss import LinearCrossEntropyOptions

__all__ = ["LinearCrossEntropyOptions"]
