"""Resilient backpropagation."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.optim._list_optimizer import ListOptimizer
from shmtensor.optim._tools import (
    _as_real,
    _check_lr,
    _check_steps,
    _in_one_call,
    _Lists5,
    _new_scalar,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
)
from shmtensor.optim.optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


class Rprop(ListOptimizer):
    """A step size for each element, which grows while the gradient keeps its sign.

    For each element, with the last gradient h::

        s = min(s * grow, largest)          (where g * h > 0)
        s = max(s * shrink, smallest)       (where g * h < 0; g counts as 0 then)
        p = p - s * sign(g)

    Args:
        params: Parameters or groups.
        lr: The first step size; a number or a tensor of one element.
        etas: The factors to shrink and to grow by.
        step_sizes: The smallest and the largest step size.
        capturable: Refused in ``step``: no device here captures steps.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.
        differentiable: Record the update in the graph.

    Raises:
        ValueError: A negative *lr*; *etas* that do not shrink and grow.

    Source:
        torch.optim.Rprop; Riedmiller, Braun, "A direct adaptive method for faster backpropagation
        learning: the RPROP algorithm", 1993.
    """

    _entries = ("prev", "step_size", "step")
    _no_sparse = "Rprop does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        state = self.state[param]
        if state:
            return
        lr = _to_scalar(group["lr"])
        state["step"] = _new_scalar()
        state["prev"] = shmtensor.zeros_like(param, requires_grad=False)
        first = complex(lr, lr) if param.is_complex() else lr
        state["step_size"] = shmtensor.full_like(param, first, requires_grad=False)

    def _step_on(self, group: dict[str, Any], lists: _Lists5, **common: Any) -> None:
        etaminus, etaplus = group["etas"]
        step_size_min, step_size_max = group["step_sizes"]
        rprop(
            *lists,
            step_size_min=step_size_min,
            step_size_max=step_size_max,
            etaminus=etaminus,
            etaplus=etaplus,
            **common,
        )


def rprop(
    params: list[Tensor],
    grads: list[Tensor],
    prevs: list[Tensor],
    step_sizes: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    maximize: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    step_size_min: float,
    step_size_max: float,
    etaminus: float,
    etaplus: float,
) -> None:
    """Do one step of ``Rprop`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        prevs: The last gradient for each.
        step_sizes: Step sizes for the elements of each.
        state_steps: A counter of steps for each, a tensor of one element.
        foreach: See ``Rprop``, as for all that is not said here.
        capturable: See there.
        maximize: See there.
        differentiable: See there.
        has_complex: Whether a parameter is complex.
        step_size_min: The smallest step size.
        step_size_max: The largest step size.
        etaminus: The factor to shrink by.
        etaplus: The factor to grow by.

    Raises:
        RuntimeError: A counter is not a tensor.
        AssertionError: *capturable*; *foreach* with *differentiable*.

    Source:
        torch.optim.rprop.rprop.
    """
    _check_steps(state_steps)
    _refuse_capturable(capturable, foreach, params, xla=(True, True))
    _refuse_foreach_autograd(foreach, differentiable, params)
    if has_complex:
        params, grads, prevs, step_sizes = _as_real(params, grads, prevs, step_sizes)
    if _in_one_call(params, step_size_min, step_size_max, etaminus, etaplus) and _C._rprop_step_(
        params,
        grads,
        prevs,
        step_sizes,
        state_steps,
        step_size_min=step_size_min,
        step_size_max=step_size_max,
        etaminus=etaminus,
        etaplus=etaplus,
        maximize=maximize,
    ):
        return
    for step_t, param, grad, prev, step_size in zip(
        state_steps, params, grads, prevs, step_sizes, strict=True
    ):
        step_t += 1
        if maximize:
            grad = -grad
        factor = grad.mul(prev.clone() if differentiable else prev).sign()
        factor[factor.gt(0)] = etaplus
        factor[factor.lt(0)] = etaminus
        factor[factor.eq(0)] = 1
        step_size.mul_(factor).clamp_(step_size_min, step_size_max)
        grad = grad.clone(memory_format=shmtensor.preserve_format)
        grad[factor.eq(etaminus)] = 0
        param.addcmul_(grad.sign(), step_size.clone() if differentiable else step_size, value=-1)
        prev.copy_(grad)
