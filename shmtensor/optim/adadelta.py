"""Steps in units of the parameters."""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.optim._list_optimizer import ListOptimizer
from shmtensor.optim._tools import (
    _add_scaled,
    _as_real,
    _check_lr,
    _check_not_negative,
    _check_steps,
    _in_one_call,
    _Lists5,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
)
from shmtensor.optim.optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]


class Adadelta(ListOptimizer):
    """Steps as long as the last steps were, over as large as the last gradients were.

    With a decay rate r::

        v = r * v + (1 - r) * g**2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = r * u + (1 - r) * d**2
        p = p - lr * d

    Args:
        params: Parameters or groups.
        lr: What the step is multiplied by; a number or a tensor of one element.
        rho: Decay rate of both averages.
        eps: Added to both averages.
        weight_decay: Factor of the L2 penalty.
        foreach: Taken for torch's sake; the result does not depend on it.
        capturable: Refused in ``step``: no device here captures steps.
        maximize: Climb instead.
        differentiable: Record the update in the graph.

    Raises:
        ValueError: An option is out of its range.

    Source:
        torch.optim.Adadelta; Zeiler, "ADADELTA: an adaptive learning rate method", 2012.
    """

    _entries = ("square_avg", "acc_delta", "step")
    _no_sparse = "Adadelta does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _check_not_negative(eps, "Invalid epsilon value: {}")
        _check_not_negative(weight_decay, "Invalid weight_decay value: {}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _step_on(self, group: dict[str, Any], lists: _Lists5, **common: Any) -> None:
        adadelta(
            *lists,
            lr=group["lr"],
            rho=group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            **common,
        )


def adadelta(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    acc_deltas: list[Tensor],
    state_steps: list[Tensor],
    capturable: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Do one step of ``Adadelta`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        square_avgs: An average of squared gradients for each.
        acc_deltas: An average of squared steps for each.
        state_steps: A counter of steps for each, a tensor of one element.
        capturable: See ``Adadelta``, as for all that is not said here.
        foreach: See there.
        differentiable: See there.
        has_complex: Whether a parameter is complex.
        lr: See there.
        rho: See there.
        eps: See there.
        weight_decay: See there.
        maximize: See there.

    Raises:
        RuntimeError: A counter is not a tensor.
        AssertionError: *capturable*; *foreach* with *differentiable*.

    Source:
        torch.optim.adadelta.adadelta.
    """
    _check_steps(state_steps)
    _refuse_capturable(capturable, foreach, params, xla=(False, False))
    _refuse_foreach_autograd(foreach, differentiable, params)
    if has_complex:
        params, grads, square_avgs, acc_deltas = _as_real(params, grads, square_avgs, acc_deltas)
    if _in_one_call(params, lr, rho, eps, weight_decay) and _C._adadelta_step_(
        params,
        grads,
        square_avgs,
        acc_deltas,
        state_steps,
        lr=float(lr),
        rho=rho,
        eps=eps,
        weight_decay=weight_decay,
        maximize=maximize,
    ):
        return
    for step_t, param, grad, square_avg, acc_delta in zip(
        state_steps, params, grads, square_avgs, acc_deltas, strict=True
    ):
        step_t += 1
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = _add_scaled(grad, param, weight_decay)
        square_avg.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        divisor = square_avg.add(eps).sqrt_()
        delta = acc_delta.add(eps).sqrt_()
        delta = delta / divisor * grad if differentiable else delta.div_(divisor).mul_(grad)
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-_to_scalar(lr))
