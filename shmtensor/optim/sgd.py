"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import shmtensor
from shmtensor._tensor import Tensor
from shmtensor.optim.optimizer import Optimizer

__all__ = ["SGD"]


class SGD(Optimizer):
    """p -= lr * g, with momentum if asked.

    With momentum m, dampening d and weight decay w::

        g = grad + w * p                (grad negated first when maximizing)
        v = m * v + (1 - d) * g         (v = g in the first step)
        p = p - lr * v                  (or p - lr * (g + m * v) for Nesterov)

    Args:
        params: Parameters or groups.
        lr: Step size.
        momentum: How much of the last direction is kept.
        dampening: How much of the gradient is left out.
        weight_decay: Factor of the L2 penalty.
        nesterov: Look ahead; needs momentum and no dampening.
        maximize: Climb instead.
        foreach: Taken for torch's sake; the result does not depend on it.
        differentiable: Record the update in the graph.
        fused: Taken for torch's sake; the result does not depend on it.

    Raises:
        ValueError: A negative *lr*, *momentum* or *weight_decay*; Nesterov without momentum.

    Source:
        torch.optim.SGD; Sutskever et al., "On the importance of initialization and momentum in
        deep learning", 2013.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if float(lr) < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if float(weight_decay) < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        if group["momentum"] != 0 and self.state[param].get("momentum_buffer") is None:
            self.state[param]["momentum_buffer"] = shmtensor.zeros_like(param.detach())

    def _update(self, group: dict[str, Any], params: list[Tensor]) -> None:
        lr = float(group["lr"])
        momentum = group["momentum"]
        weight_decay = float(group["weight_decay"])
        for param in params:
            grad: Any = param.grad
            if group["maximize"]:
                grad = -grad
            if weight_decay != 0:
                grad = grad.add(param, alpha=weight_decay)
            if momentum != 0:
                state = self.state[param]
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = grad.clone() if group["differentiable"] else grad.detach().clone()
                    state["momentum_buffer"] = buffer
                else:
                    buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
                grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
            param.add_(grad, alpha=-lr)
