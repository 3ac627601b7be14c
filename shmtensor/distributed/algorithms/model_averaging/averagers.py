"""Objects that average the parameters of the ranks now and then.

Source:
    torch.distributed.algorithms.model_averaging.averagers.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from shmtensor._core._tensor import Tensor
from shmtensor.distributed._group import _default_group
from shmtensor.distributed.algorithms.model_averaging import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """What averages parameters.

    Args:
        process_group: The ranks; None: the default group.

    Attributes:
        step: How often it was called.

    Raises:
        ValueError: There is no default group.

    Source:
        torch.distributed.algorithms.model_averaging.averagers.ModelAverager.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = process_group if process_group is not None else _default_group()
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Tensor | dict[str, Any]]) -> None:
        """Average parameters, or those of an optimizer's groups."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters at one call in so many.

    Args:
        period: At one call in how many.
        warmup_steps: How many calls do nothing before.
        process_group: The ranks; None: the default group.

    Raises:
        ValueError: *warmup_steps* is negative, *period* is less than 1, or there is no default
            group.

    Source:
        torch.distributed.algorithms.model_averaging.averagers.PeriodicModelAverager.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError(
                f"Arg ``warmup_steps`` must be a non-negative number, got {warmup_steps}."
            )
        if period < 1:
            raise ValueError(f"Arg ``period`` must be a positive value, got {period}.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost "
                "of all-reducing parameters will be no less than the cost of all-reducing "
                "gradients by DistributedDataParallel in the backward pass.",
                stacklevel=2,
            )
        self.period = period
        self.warmup_steps = warmup_steps

    def average_parameters(self, params: Iterable[Tensor | dict[str, Any]]) -> None:
        """Count a call, and average if it is one of those that do.

        Args:
            params: The parameters of a module, or the groups of an optimizer; those with gradients
                are averaged.
        """
        past = self.step - self.warmup_steps
        if past >= 0 and past % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
