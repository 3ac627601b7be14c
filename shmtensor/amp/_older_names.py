"""What the older names of mixed precision, ``cuda.amp`` and ``cpu.amp``, have in common."""

from __future__ import annotations

import warnings
from typing import ClassVar

from shmtensor.amp.grad_scaler import GradScaler

__all__ = ["OlderGradScaler"]


class OlderGradScaler(GradScaler):
    """`amp.GradScaler` for one type of device, with a warning that the name is an older one."""

    _kind: ClassVar[str]

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn(
            f"`torch.{self._kind}.amp.GradScaler(args...)` is deprecated. Please use "
            f"`torch.amp.GradScaler('{self._kind}', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(
            self._kind,
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )
