"""Steps by the root of the mean squared gradient."""

from __future__ import annotations

from typing import Any, ClassVar

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
    _Lists6,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
)
from shmtensor.optim.optimizer import ParamsT

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(ListOptimizer):
    """Gradients over the root of the average of their squares.

    With a decay rate a and momentum m::

        v = a * v + (1 - a) * g**2
        c = a * c + (1 - a) * g             (with centered; the root is then of v - c**2)
        b = m * b + g / (sqrt(v) + eps)     (b is the second term where m is 0)
        p = p - lr * b

    Args:
        params: Parameters or groups.
        lr: Step size; a number or a tensor of one element.
        alpha: Decay rate of the averages.
        eps: Added to the root.
        weight_decay: Factor of the L2 penalty.
        momentum: How much of the last direction is kept.
        centered: Divide by an estimate of the gradient's variance.
        capturable: Refused in ``step``: no device here captures steps.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.
        differentiable: Record the update in the graph.

    Raises:
        ValueError: An option is out of its range.

    Source:
        torch.optim.RMSprop; Hinton, "Neural networks for machine learning", lecture 6, 2012;
        Graves, "Generating sequences with recurrent neural networks", 2013 (centered).
    """

    _entries = ("square_avg", "momentum_buffer", "grad_avg", "step")
    _entry_options: ClassVar[dict[str, str]] = {
        "momentum_buffer": "momentum",
        "grad_avg": "centered",
    }
    _later_options: ClassVar[dict[str, Any]] = {"momentum": 0, "centered": False}
    _no_sparse = "RMSprop does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_lr(lr)
        _check_not_negative(eps, "Invalid epsilon value: {}")
        _check_not_negative(momentum, "Invalid momentum value: {}")
        _check_not_negative(weight_decay, "Invalid weight_decay value: {}")
        _check_not_negative(alpha, "Invalid alpha value: {}")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _step_on(self, group: dict[str, Any], lists: _Lists6, **common: Any) -> None:
        params, grads, square_avgs, buffers, grad_avgs, steps = lists
        rmsprop(
            params,
            grads,
            square_avgs,
            grad_avgs,
            buffers,
            steps,
            lr=group["lr"],
            alpha=group["alpha"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            centered=group["centered"],
            **common,
        )


def rmsprop(
    params: list[Tensor],
    grads: list[Tensor],
    square_avgs: list[Tensor],
    grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
) -> None:
    """Do one step of ``RMSprop`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        square_avgs: An average of squared gradients for each.
        grad_avgs: An average of gradients for each; looked at with *centered* only.
        momentum_buffer_list: A direction for each; looked at with *momentum* only.
        state_steps: A counter of steps for each, a tensor of one element.
        foreach: See ``RMSprop``, as for all that is not said here.
        maximize: See there.
        differentiable: See there.
        capturable: See there.
        has_complex: Whether a parameter is complex.
        lr: See there.
        alpha: See there.
        eps: See there.
        weight_decay: See there.
        momentum: See there.
        centered: See there.

    Raises:
        RuntimeError: A counter is not a tensor.
        AssertionError: *capturable*; *foreach* with *differentiable*.

    Source:
        torch.optim.rmsprop.rmsprop.
    """
    _check_steps(state_steps)
    _refuse_capturable(capturable, foreach, params, xla=(True, True))
    _refuse_foreach_autograd(foreach, differentiable, params)
    means = grad_avgs if centered else []
    buffers = momentum_buffer_list if momentum > 0 else []
    if has_complex:
        params, grads, square_avgs, means, buffers = _as_real(
            params, grads, square_avgs, means, buffers
        )
    if _in_one_call(params, lr, alpha, eps, weight_decay, momentum) and _C._rmsprop_step_(
        params,
        grads,
        square_avgs,
        means,
        buffers,
        state_steps,
        lr=float(lr),
        alpha=alpha,
        eps=eps,
        weight_decay=weight_decay,
        momentum=momentum,
        centered=centered,
        maximize=maximize,
    ):
        return
    lists = [params, grads, square_avgs, *(tensors for tensors in (means, buffers) if tensors)]
    for step_t, param, grad, square_avg, *others in zip(state_steps, *lists, strict=True):
        step_t += 1
        if maximize:
            grad = -grad
        if weight_decay != 0:
            grad = _add_scaled(grad, param, weight_decay)
        square_avg.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if centered:
            grad_avg = others[0].lerp_(grad, 1 - alpha)
            if differentiable:
                grad_avg = grad_avg.clone()
            root = square_avg.addcmul(grad_avg, grad_avg, value=-1).sqrt_()
        else:
            root = square_avg.sqrt()
        root = root.add(eps) if differentiable else root.add_(eps)
        if momentum > 0:
            buffer = others[-1].mul_(momentum).addcdiv_(grad, root)
            param.add_(buffer, alpha=-_to_scalar(lr))
        else:
            param.addcdiv_(grad, root, value=-_to_scalar(lr))
