"""Steps by the root of the mean squared gradient."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._tensor import Tensor
from shmtensor.optim._tools import (
    _add_scaled,
    _as_real,
    _check_lr,
    _check_not_negative,
    _check_steps,
    _in_one_call,
    _new_scalar,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
    _use_grad_for_differentiable,
)
from shmtensor.optim.optimizer import Optimizer, ParamsT

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(Optimizer):
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete_groups(
            momentum=0,
            centered=False,
            foreach=None,
            maximize=False,
            differentiable=False,
            capturable=False,
        )

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        state = self.state[param]
        if state:
            return
        state["step"] = _new_scalar()
        state["square_avg"] = shmtensor.zeros_like(param, requires_grad=False)
        if group["momentum"] > 0:
            state["momentum_buffer"] = shmtensor.zeros_like(param, requires_grad=False)
        if group["centered"]:
            state["grad_avg"] = shmtensor.zeros_like(param, requires_grad=False)

    def _init_group(
        self,
        group: dict[str, Any],
        params_with_grad: list[Tensor],
        grads: list[Tensor],
        square_avgs: list[Tensor],
        momentum_buffer_list: list[Tensor],
        grad_avgs: list[Tensor],
        state_steps: list[Tensor],
    ) -> bool:
        """Append what a step of *group* works on; returns whether a parameter is complex."""
        wanted: dict[str, list[Any]] = {
            "square_avg": square_avgs,
            "step": state_steps,
        }
        if group["momentum"] > 0:
            wanted["momentum_buffer"] = momentum_buffer_list
        if group["centered"]:
            wanted["grad_avg"] = grad_avgs
        return self._collect(
            group, params_with_grad, grads, wanted, "RMSprop does not support sparse gradients"
        )

    @_use_grad_for_differentiable
    def step(self, closure: Any = None) -> Any:
        """Change every parameter that has a gradient; see ``Optimizer.step``."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params: list[Tensor] = []
            grads: list[Tensor] = []
            square_avgs: list[Tensor] = []
            buffers: list[Tensor] = []
            grad_avgs: list[Tensor] = []
            steps: list[Tensor] = []
            has_complex = self._init_group(
                group, params, grads, square_avgs, buffers, grad_avgs, steps
            )
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
                foreach=group["foreach"],
                capturable=group["capturable"],
                differentiable=group["differentiable"],
                maximize=group["maximize"],
                has_complex=has_complex,
            )
        return loss


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
        RuntimeError: A counter is no tensor.
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
    if _in_one_call(lr, alpha, eps, weight_decay, momentum) and _C._rmsprop_step_(
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
