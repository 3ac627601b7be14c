"""Stochastic gradient descent that averages."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.optim._list_optimizer import ListOptimizer
from shmtensor.optim._tools import (
    _add_scaled,
    _as_real,
    _check_lr,
    _check_not_negative,
    _check_steps,
    _get_value,
    _in_one_call,
    _Lists6,
    _new_scalar,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
)
from shmtensor.optim.optimizer import ParamsT

__all__ = ["ASGD", "asgd"]


class ASGD(ListOptimizer):
    """Shrinking steps, and an average of where they led.

    With the step size s (lr at first) and counting steps t from 1::

        p = p * (1 - lambd * s) - s * g
        a = a + u * (p - a)
        s = lr / (1 + lambd * lr * t)**alpha
        u = 1 / max(1, t - t0)

    The average a is ``state[parameter]["ax"]``; nothing puts it into the parameter.

    Args:
        params: Parameters or groups.
        lr: The first step size; a number or a tensor of one element.
        lambd: How fast parameters and step size decay.
        alpha: Power of the step size's decay.
        t0: The step from which on an average is taken.
        weight_decay: Factor of the L2 penalty.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.
        differentiable: Record the update in the graph.
        capturable: Refused in ``step``: no device here captures steps.

    Raises:
        ValueError: A negative *lr* or *weight_decay*.

    Source:
        torch.optim.ASGD; Polyak, Juditsky, "Acceleration of stochastic approximation by averaging",
        1992.
    """

    _entries = ("ax", "mu", "eta", "step")
    _no_sparse = "ASGD does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        _check_lr(lr)
        _check_not_negative(weight_decay, "Invalid weight_decay value: {}")
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
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
        state["step"] = _new_scalar()
        state["eta"] = _new_scalar(float(_get_value(group["lr"])))
        state["mu"] = _new_scalar(1.0)
        state["ax"] = shmtensor.zeros_like(param, requires_grad=False)

    def _step_on(self, group: dict[str, Any], lists: _Lists6, **common: Any) -> None:
        asgd(
            *lists,
            lambd=group["lambd"],
            lr=group["lr"],
            t0=group["t0"],
            alpha=group["alpha"],
            weight_decay=group["weight_decay"],
            **common,
        )


def asgd(
    params: list[Tensor],
    grads: list[Tensor],
    axs: list[Tensor],
    mus: list[Tensor],
    etas: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lambd: float,
    lr: float | Tensor,
    t0: float,
    alpha: float,
    weight_decay: float,
) -> None:
    """Do one step of ``ASGD`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        axs: An average for each.
        mus: The weight of the next average for each, a tensor of one element.
        etas: The next step size for each, a tensor of one element.
        state_steps: A counter of steps for each, a tensor of one element.
        foreach: See ``ASGD``, as for all that is not said here.
        maximize: See there.
        differentiable: See there.
        capturable: See there.
        has_complex: Whether a parameter is complex.
        lambd: See there.
        lr: See there.
        t0: See there.
        alpha: See there.
        weight_decay: See there.

    Raises:
        RuntimeError: A counter is not a tensor.
        AssertionError: *capturable*; *foreach* with *differentiable*.

    Source:
        torch.optim.asgd.asgd.
    """
    _check_steps(state_steps)
    _refuse_capturable(capturable, foreach, params, "params, mus, etas, and state_steps")
    _refuse_foreach_autograd(foreach, differentiable, params)
    if has_complex:
        params, grads, axs = _as_real(params, grads, axs)
    if _in_one_call(params, lr, lambd, t0, alpha, weight_decay) and _C._asgd_step_(
        params,
        grads,
        axs,
        mus,
        etas,
        state_steps,
        lr=float(lr),
        lambd=lambd,
        t0=t0,
        alpha=alpha,
        weight_decay=weight_decay,
        maximize=maximize,
    ):
        return
    lr = _to_scalar(lr.detach()) if isinstance(lr, Tensor) else lr
    for step_t, mu, eta, param, grad, ax in zip(
        state_steps, mus, etas, params, grads, axs, strict=True
    ):
        step_t += 1
        step = step_t.item()
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = _add_scaled(grad, param, weight_decay)
        size, share = eta.item(), mu.item()
        param.mul_(1 - lambd * size)
        param.add_(grad, alpha=-size)
        if share == 1:
            ax.copy_(param)
        else:
            ax.add_(param.sub(ax).mul_(share))
        eta.copy_(shmtensor.as_tensor(lr / ((1 + lambd * lr * step) ** alpha)))
        mu.copy_(shmtensor.as_tensor(1 / max(1, step - t0)))
