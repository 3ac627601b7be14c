"""Optimizers."""

from __future__ import annotations

from shmtensor.optim.optimizer import Optimizer
from shmtensor.optim.sgd import SGD

__all__ = ["Optimizer", "SGD"]
