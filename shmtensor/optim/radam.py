"""Adam with a rectified step while the second moment is uncertain."""

from __future__ import annotations

from typing import Any, ClassVar

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.optim._list_optimizer import ListOptimizer
from shmtensor.optim._tools import (
    _add_scaled,
    _as_real,
    _check_adam_options,
    _check_steps,
    _get_value,
    _in_one_call,
    _Lists5,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
)
from shmtensor.optim.optimizer import ParamsT

__all__ = ["RAdam", "radam"]


class RAdam(ListOptimizer):
    """``Adam`` that does not trust the second moment in its first steps.

    With decay rates b1, b2, counting steps t from 1, and R = 2 / (1 - b2) - 1::

        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        n = m / (1 - b1**t)
        r = R - 2 * t * b2**t / (1 - b2**t)
        p = p - lr * n                                            (while r <= 5)
        p = p - lr * n * rectifier(r) * sqrt(1 - b2**t) / (sqrt(v) + eps)    (then)
        rectifier(r) = sqrt((r - 4) * (r - 2) * R / ((R - 4) * (R - 2) * r))

    Args:
        params: Parameters or groups.
        lr: Step size; a number or a tensor of one element.
        betas: Decay rates of the moments.
        eps: Added to the root.
        weight_decay: Factor of the L2 penalty, or of the decay.
        decoupled_weight_decay: Shrink the parameters by ``lr * weight_decay`` instead of adding
            the penalty to the gradient.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.
        capturable: Refused in ``step``: no device here captures steps.
        differentiable: Record the update in the graph.

    Raises:
        ValueError: An option is out of its range.

    Source:
        torch.optim.RAdam; Liu et al., "On the variance of the adaptive learning rate and
        beyond", 2020.
    """

    _entries = ("exp_avg", "exp_avg_sq", "step")
    _later_options: ClassVar[dict[str, Any]] = {"decoupled_weight_decay": False}
    _no_sparse = "RAdam does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_adam_options(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _step_on(self, group: dict[str, Any], lists: _Lists5, **common: Any) -> None:
        beta1, beta2 = group["betas"]
        radam(
            *lists,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
            **common,
        )


def radam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
) -> None:
    """Do one step of ``RAdam`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        exp_avgs: A first moment for each.
        exp_avg_sqs: A second moment for each.
        state_steps: A counter of steps for each, a tensor of one element.
        decoupled_weight_decay: See ``RAdam``, as for all that is not said here.
        foreach: See there.
        differentiable: See there.
        capturable: See there.
        has_complex: Whether a parameter is complex.
        maximize: See there.
        beta1: Decay rate of the first moment.
        beta2: Decay rate of the second moment.
        lr: See there.
        weight_decay: See there.
        eps: See there.

    Raises:
        RuntimeError: A counter is not a tensor.
        AssertionError: *capturable*; *foreach* with *differentiable*.

    Source:
        torch.optim.radam.radam.
    """
    _check_steps(state_steps)
    _refuse_capturable(capturable, foreach, params)
    _refuse_foreach_autograd(foreach, differentiable, params)
    if has_complex:
        params, grads, exp_avgs, exp_avg_sqs = _as_real(params, grads, exp_avgs, exp_avg_sqs)
    if _in_one_call(params, lr, beta1, beta2, weight_decay, eps) and _C._radam_step_(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        state_steps,
        lr=float(lr),
        beta1=beta1,
        beta2=beta2,
        weight_decay=weight_decay,
        eps=eps,
        decoupled=decoupled_weight_decay,
        maximize=maximize,
    ):
        return
    lr = _to_scalar(lr)
    for step_t, param, grad, exp_avg, exp_avg_sq in zip(
        state_steps, params, grads, exp_avgs, exp_avg_sqs, strict=True
    ):
        step_t += 1
        step = step_t.item()
        if maximize:
            grad = -grad
        if weight_decay != 0:
            if decoupled_weight_decay:
                param.mul_(1 - lr * weight_decay)
            else:
                grad = _add_scaled(grad, param, weight_decay)
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - _get_value(beta2))
        update = exp_avg / (1 - beta1**step) * lr
        rectifier = _rectifier(step, beta2)
        if rectifier is not None:
            root = exp_avg_sq.sqrt()
            root = root.add(eps) if differentiable else root.add_(eps)
            update = update * ((1 - beta2**step) ** 0.5 / root) * rectifier
        param.add_(update, alpha=-1.0)


def _rectifier(step: float, beta2: float) -> float | None:
    """The factor of the adaptive step; ``None`` while the second moment is not trusted."""
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * step * (beta2**step) / (1 - beta2**step)
    if length <= 5.0:
        return None
    ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
    return float(ratio**0.5)
