"""Adam by the largest gradient."""

from __future__ import annotations

from typing import Any, cast

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.optim._list_optimizer import ListOptimizer
from shmtensor.optim._tools import (
    _add_scaled,
    _as_real,
    _check_adam_options,
    _check_steps,
    _in_one_call,
    _Lists5,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
)
from shmtensor.optim.optimizer import ParamsT

__all__ = ["Adamax", "adamax"]


class Adamax(ListOptimizer):
    """``Adam`` that divides by a decaying maximum of the gradients.

    With decay rates b1, b2 and counting steps t from 1::

        m = b1 * m + (1 - b1) * g
        u = max(b2 * u, abs(g) + eps)
        p = p - lr / (1 - b1**t) * m / u

    Args:
        params: Parameters or groups.
        lr: Step size; a number or a tensor of one element.
        betas: Decay rates of the moment and of the maximum.
        eps: Added to the size of the gradient.
        weight_decay: Factor of the L2 penalty.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.
        differentiable: Record the update in the graph.
        capturable: Refused in ``step``: no device here captures steps.

    Raises:
        ValueError: An option is out of its range.

    Source:
        torch.optim.Adamax; Kingma, Ba, "Adam: a method for stochastic optimization", 2015.
    """

    _entries = ("exp_avg", "exp_inf", "step")
    _no_sparse = "Adamax does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check_adam_options(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _step_on(self, group: dict[str, Any], lists: _Lists5, **common: Any) -> None:
        beta1, beta2 = group["betas"]
        adamax(
            *lists,
            eps=group["eps"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            **common,
        )


def adamax(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_infs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    eps: float,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
) -> None:
    """Do one step of ``Adamax`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        exp_avgs: A moment for each.
        exp_infs: A decaying maximum for each.
        state_steps: A counter of steps for each, a tensor of one element.
        foreach: See ``Adamax``, as for all that is not said here.
        maximize: See there.
        differentiable: See there.
        capturable: See there.
        has_complex: Whether a parameter is complex.
        eps: See there.
        beta1: Decay rate of the moment.
        beta2: Decay rate of the maximum.
        lr: See there.
        weight_decay: See there.

    Raises:
        RuntimeError: A counter is not a tensor.
        AssertionError: *capturable*; *foreach* with *differentiable*.

    Source:
        torch.optim.adamax.adamax.
    """
    _check_steps(state_steps)
    _refuse_capturable(capturable, foreach, params)
    _refuse_foreach_autograd(foreach, differentiable, params)
    if has_complex:
        params, grads, exp_avgs, exp_infs = _as_real(params, grads, exp_avgs, exp_infs)
    if _in_one_call(params, lr, beta1, beta2, weight_decay, eps) and _C._adamax_step_(
        params,
        grads,
        exp_avgs,
        exp_infs,
        state_steps,
        lr=float(lr),
        beta1=beta1,
        beta2=beta2,
        weight_decay=weight_decay,
        eps=eps,
        maximize=maximize,
    ):
        return
    for step_t, param, grad, exp_avg, exp_inf in zip(
        state_steps, params, grads, exp_avgs, exp_infs, strict=True
    ):
        step_t += 1
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = _add_scaled(grad, param, weight_decay)
        exp_avg.lerp_(grad, 1 - beta1)
        size = grad.abs().add_(eps)
        if differentiable:
            exp_inf.copy_(shmtensor.maximum(exp_inf.mul_(beta2).clone(), size))
            step_size = -lr / (1 - beta1 ** step_t.item())
            param.addcdiv_(exp_avg.clone(), exp_inf.clone(), value=cast("float", step_size))
        else:
            shmtensor.maximum(exp_inf.mul_(beta2), size, out=exp_inf)
            param.addcdiv_(exp_avg, exp_inf, value=-_to_scalar(lr) / (1 - beta1 ** step_t.item()))
