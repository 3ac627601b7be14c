"""A gradient scaler whose ranks agree on which steps they leave out.

Source:
    torch.distributed.fsdp.sharded_grad_scaler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.amp.grad_scaler import GradScaler
from shmtensor.distributed._collectives import all_reduce
from shmtensor.distributed._group import ProcessGroup

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """Scales losses as `shmtensor.amp.GradScaler` does, for the ranks of a group together.

    A step is left out on all ranks when a gradient on one of them holds an infinity or NaN, so
    they keep one scale. Losses stay of their dtype, and gradients may be of float16.

    Args:
        device: Where the losses are: ``"cpu"``. ``"cuda"`` is not here, and switches it off.
        init_scale: The scale at first.
        backoff_factor: What it is multiplied by after an infinity; less than 1.
        growth_factor: What the scale is multiplied by when it grows; more than 1.
        growth_interval: Steps without an infinity after which it grows.
        enabled: False makes `scale` return what it is given and `step` step.
        process_group: The ranks; None: the default group.

    Raises:
        AssertionError: A factor is out of its range.

    Source:
        torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        if self._enabled:
            self.process_group = process_group

    def scale(self, outputs: Any) -> Any:
        """Multiply by the scale; see `GradScaler.scale`. Results have the dtypes of *outputs*."""
        scaled = super().scale(outputs)
        if self._enabled and isinstance(outputs, Tensor):
            return scaled.to(outputs.dtype)
        return scaled  # of an iterable: each was scaled by this method

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[Any, Tensor]:
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, True)
        if not found:  # the others wait for this rank, whatever gradients it has
            found[found_inf.device] = found_inf.clone()
        _agree(found.values(), self.process_group)
        return found


def _agree(found: Iterable[Tensor], group: ProcessGroup | None) -> None:
    """Make what a rank has found known to all: positive where one has an infinity."""
    for each in found:
        all_reduce(each, group=group)
