"""An optimizer that averages parameters over the ranks after some of its steps.

Source:
    torch.distributed.optim.post_localSGD_optimizer.
"""

from __future__ import annotations

import warnings
from typing import Any

from shmtensor.distributed.algorithms.model_averaging.averagers import ModelAverager
from shmtensor.optim.optimizer import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps by another optimizer, then lets an averager have the parameters.

    Args:
        optim: The optimizer.
        averager: Averages its parameters, or does not, after each step.

    Example:
        >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
        >>> optimizer = PostLocalSGDOptimizer(optim.SGD(model.parameters(), lr=0.01), averager)

    Source:
        torch.distributed.optim.PostLocalSGDOptimizer.
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim = optim
        self.param_groups = optim.param_groups
        self.averager = averager

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the optimizer."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state, with the averager's count as ``step``."""
        found = self.optim.state_dict()
        found["step"] = self.averager.step
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state; without ``step`` in it the averager begins anew, with a warning."""
        self.optim.load_state_dict(state_dict)
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step "
                "counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self) -> None:  # type: ignore[override]
        """Step, and average if it is the averager's turn."""
        self.optim.step()
        self.averager.average_parameters(self.param_groups)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters to the optimizer."""
        self.optim.add_param_group(param_group)
