"""Schedules of learning rates: their ``step`` sets the ``lr`` of an optimizer's groups.

``optimizer.step()`` comes first, then ``scheduler.step()``. The names, the formulas, the
warnings and the layout of ``state_dict()`` are those of torch.optim.lr_scheduler.
"""

from __future__ import annotations

from shmtensor.optim.lr_scheduler.base import (
    EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING,
)
from shmtensor.optim.lr_scheduler.base import (
    LRScheduler,
)
from shmtensor.optim.lr_scheduler.base import (
    _LRScheduler as _LRScheduler,
)
from shmtensor.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from shmtensor.optim.lr_scheduler.cyclic import CyclicLR, OneCycleLR
from shmtensor.optim.lr_scheduler.decay import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from shmtensor.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "LambdaLR",
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "SequentialLR",
    "CosineAnnealingLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
    "CyclicLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "PolynomialLR",
    "LRScheduler",
]
