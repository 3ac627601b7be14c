"""Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any, ClassVar

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.optim._list_optimizer import ListOptimizer
from shmtensor.optim._tools import (
    _add_scaled,
    _as_real,
    _check_adam_options,
    _check_not_negative,
    _check_steps,
    _get_value,
    _in_one_call,
    _Lists6,
    _new_scalar,
    _quotient,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
)
from shmtensor.optim.optimizer import ParamsT

__all__ = ["NAdam", "nadam"]


class NAdam(ListOptimizer):
    """``Adam`` that looks ahead, with a momentum that grows towards b1.

    With decay rates b1, b2, a momentum decay d and counting steps t from 1::

        u(t) = b1 * (1 - 0.96**(t * d) / 2)
        U(t) = u(1) * ... * u(t)
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        n = (1 - u(t)) * g / (1 - U(t)) + u(t + 1) * m / (1 - U(t + 1))
        p = p - lr * n / (sqrt(v / (1 - b2**t)) + eps)

    Args:
        params: Parameters or groups.
        lr: Step size; a number or a tensor of one element.
        betas: Decay rates of the moments.
        eps: Added to the root.
        weight_decay: Factor of the L2 penalty, or of the decay.
        momentum_decay: How fast the momentum comes near its limit.
        decoupled_weight_decay: Shrink the parameters by ``lr * weight_decay`` instead of adding
            the penalty to the gradient.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.
        capturable: Refused in ``step``: no device here captures steps.
        differentiable: Record the update in the graph.

    Raises:
        ValueError: An option is out of its range.

    Source:
        torch.optim.NAdam; Dozat, "Incorporating Nesterov momentum into Adam", 2016.
    """

    _entries = ("exp_avg", "exp_avg_sq", "mu_product", "step")
    _later_options: ClassVar[dict[str, Any]] = {"decoupled_weight_decay": False}
    _no_sparse = "NAdam does not support sparse gradients"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        _check_adam_options(lr, betas, eps, weight_decay)
        _check_not_negative(momentum_decay, "Invalid momentum_decay value: {}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for entry in self.state.values():
            if "mu_product" in entry and not isinstance(entry["mu_product"], Tensor):
                entry["mu_product"] = _new_scalar(float(entry["mu_product"]))

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        state = self.state[param]
        if state:
            return
        state["step"] = _new_scalar()
        state["mu_product"] = _new_scalar(1.0)
        state["exp_avg"] = shmtensor.zeros_like(param, requires_grad=False)
        state["exp_avg_sq"] = shmtensor.zeros_like(param, requires_grad=False)

    def _step_on(self, group: dict[str, Any], lists: _Lists6, **common: Any) -> None:
        beta1, beta2 = group["betas"]
        nadam(
            *lists,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            momentum_decay=group["momentum_decay"],
            eps=group["eps"],
            decoupled_weight_decay=group["decoupled_weight_decay"],
            **common,
        )


def nadam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor],
    state_steps: list[Tensor],
    decoupled_weight_decay: bool = False,
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    has_complex: bool = False,
    maximize: bool = False,
    *,
    beta1: float,
    beta2: float,
    lr: float | Tensor,
    weight_decay: float,
    momentum_decay: float,
    eps: float,
) -> None:
    """Do one step of ``NAdam`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        exp_avgs: A first moment for each.
        exp_avg_sqs: A second moment for each.
        mu_products: The product of all momenta so far for each, a tensor of one element.
        state_steps: A counter of steps for each, a tensor of one element.
        decoupled_weight_decay: See ``NAdam``, as for all that is not said here.
        foreach: See there.
        capturable: See there.
        differentiable: See there.
        has_complex: Whether a parameter is complex.
        maximize: See there.
        beta1: Decay rate of the first moment.
        beta2: Decay rate of the second moment.
        lr: See there.
        weight_decay: See there.
        momentum_decay: See there.
        eps: See there.

    Raises:
        RuntimeError: A counter or a product is not a tensor.
        AssertionError: *capturable*; *foreach* with *differentiable*.

    Source:
        torch.optim.nadam.nadam.
    """
    _check_steps(state_steps)
    if not all(isinstance(product, Tensor) for product in mu_products):
        raise RuntimeError(
            "API has changed, `mu_products` argument must contain a list of singleton tensors"
        )
    comma = "," if foreach else ""
    _refuse_capturable(capturable, foreach, params, f"params, mu_products{comma} and state_steps")
    _refuse_foreach_autograd(foreach, differentiable, params)
    if has_complex:
        params, grads, exp_avgs, exp_avg_sqs = _as_real(params, grads, exp_avgs, exp_avg_sqs)
    if _in_one_call(
        params, lr, beta1, beta2, weight_decay, momentum_decay, eps
    ) and _C._nadam_step_(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        mu_products,
        state_steps,
        lr=float(lr),
        beta1=beta1,
        beta2=beta2,
        weight_decay=weight_decay,
        momentum_decay=momentum_decay,
        eps=eps,
        decoupled=decoupled_weight_decay,
        maximize=maximize,
    ):
        return
    lr = _to_scalar(lr)
    for step_t, product, (param, grad, exp_avg, exp_avg_sq) in zip(
        state_steps,
        mu_products,
        zip(params, grads, exp_avgs, exp_avg_sqs, strict=True),
        strict=True,
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
        now, ahead = (
            beta1 * (1.0 - 0.5 * (0.96 ** (t * momentum_decay))) for t in (step, step + 1)
        )
        product *= now
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - _get_value(beta2))
        divisor = (exp_avg_sq / (1 - beta2**step)).sqrt()
        if differentiable:
            divisor = divisor + eps
            param.addcdiv_(grad, divisor / _quotient(-lr * (1.0 - now), 1.0 - product))
            moment = exp_avg.clone()
            param.addcdiv_(moment, divisor / _quotient(-lr * ahead, 1.0 - product * ahead))
        else:
            so_far = product.item()
            divisor.add_(eps)
            param.addcdiv_(grad, divisor, value=-lr * (1.0 - now) / (1.0 - so_far))
            param.addcdiv_(exp_avg, divisor, value=-lr * ahead / (1.0 - so_far * ahead))
