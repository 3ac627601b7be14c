"""Adam, with the L2 penalty or with decoupled weight decay, and AMSGrad."""

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
    _check_fused_option,
    _check_scaling,
    _check_steps,
    _device_dtype_check_for_fused,
    _get_value,
    _in_one_call,
    _Lists6,
    _quotient,
    _refuse_capturable,
    _refuse_foreach_autograd,
    _to_scalar,
)
from shmtensor.optim.optimizer import ParamsT

__all__ = ["Adam", "adam"]


class Adam(ListOptimizer):
    """Steps of a size that follows from the first two moments of the gradient.

    With decay rates b1, b2 and counting steps t from 1::

        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2         (the largest v so far, with amsgrad)
        p = p - lr * (m / (1 - b1**t)) / (sqrt(v / (1 - b2**t)) + eps)

    Args:
        params: Parameters or groups.
        lr: Step size; a number or a tensor of one element.
        betas: Decay rates of the moments; both numbers or both tensors of one element.
        eps: Added to the root.
        weight_decay: Factor of the L2 penalty, or of the decay.
        amsgrad: Divide by the largest second moment so far.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.
        capturable: Refused in ``step``: no device here captures steps.
        differentiable: Record the update in the graph.
        fused: Do a step of a group of float parameters in one call in any case, halves
            included; their steps then compute in float32 throughout.
        decoupled_weight_decay: Shrink the parameters by ``lr * weight_decay`` instead of adding
            the penalty to the gradient, as ``AdamW`` does.

    Raises:
        ValueError: An option is out of its range; a tensor *lr* or tensor *betas* with *foreach*.
        RuntimeError: *fused* with *foreach* or *differentiable*.

    Source:
        torch.optim.Adam; Kingma, Ba, "Adam: a method for stochastic optimization", 2015; Reddi
        et al., "On the convergence of Adam and beyond", 2018.
    """

    _entries = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")
    _entry_options: ClassVar[dict[str, str]] = {"max_exp_avg_sq": "amsgrad"}
    _later_options: ClassVar[dict[str, Any]] = {
        "amsgrad": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }
    _no_sparse = "Adam does not support sparse gradients, please consider SparseAdam instead"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        refused = bool(foreach) and not capturable
        if isinstance(lr, Tensor) and refused and lr.numel() == 1:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        _check_adam_options(lr, betas, eps, weight_decay)
        kinds = [isinstance(beta, Tensor) for beta in (betas[0], betas[1])]
        if kinds[0] != kinds[1]:
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate((betas[0], betas[1])):
            if not isinstance(beta, Tensor):
                continue
            if refused:
                raise ValueError(
                    f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                )
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")
        defaults = {
            "lr": lr,
            "betas": tuple(map(_to_scalar, betas)),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        _check_fused_option(self, fused, foreach, differentiable)

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        if group["fused"]:
            _device_dtype_check_for_fused(param)
        super()._init_state(group, param)

    def _init_group(
        self,
        group: dict[str, Any],
        params_with_grad: list[Tensor],
        grads: list[Tensor],
        *lists: list[Any],
    ) -> bool:
        """Append what a step of *group* works on; returns whether a parameter is complex."""
        has_complex = super()._init_group(group, params_with_grad, grads, *lists)
        lr, steps = group["lr"], lists[-1]
        if group["differentiable"] and any(step.requires_grad for step in steps):
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable mode")
        if group["foreach"] and isinstance(lr, Tensor) and not group["capturable"]:
            raise RuntimeError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        return has_complex

    def _step_on(self, group: dict[str, Any], lists: _Lists6, **common: Any) -> None:
        beta1, beta2 = group["betas"]
        adam(
            *lists,
            fused=group["fused"],
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
            decoupled_weight_decay=group["decoupled_weight_decay"],
            amsgrad=group["amsgrad"],
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            **common,
        )


def adam(
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Do one step of ``Adam`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        exp_avgs: A first moment for each.
        exp_avg_sqs: A second moment for each.
        max_exp_avg_sqs: The largest second moment for each; looked at with *amsgrad* only.
        state_steps: A counter of steps for each, a tensor of one element.
        foreach: See ``Adam``, as for all that is not said here.
        capturable: See there.
        differentiable: See there.
        fused: See there.
        grad_scale: With *fused*, what the gradients are divided by, in place.
        found_inf: With *fused*, a step is left out where this is 1.
        has_complex: Whether a parameter is complex.
        decoupled_weight_decay: See there.
        amsgrad: See there.
        beta1: Decay rate of the first moment.
        beta2: Decay rate of the second moment.
        lr: See there.
        weight_decay: See there.
        eps: See there.
        maximize: See there.

    Raises:
        RuntimeError: A counter is not a tensor.
        AssertionError: *capturable*; *foreach* with *differentiable*; *grad_scale* or *found_inf*
            without *fused*.

    Source:
        torch.optim.adam.adam.
    """
    _check_steps(state_steps)
    _check_scaling(fused, grad_scale, found_inf)
    _refuse_capturable(capturable, foreach, params)
    _refuse_foreach_autograd(foreach, differentiable, params)
    largest = max_exp_avg_sqs if amsgrad else []
    if fused:
        if found_inf is not None and found_inf.item() == 1:
            return
        for step in state_steps:
            step += 1
        (_C._fused_adamw_ if decoupled_weight_decay else _C._fused_adam_)(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            largest,
            state_steps,
            lr=lr,
            beta1=_get_value(beta1),
            beta2=_get_value(beta2),
            weight_decay=_get_value(weight_decay),
            eps=eps,
            amsgrad=amsgrad,
            maximize=maximize,
            grad_scale=grad_scale,
            found_inf=found_inf,
        )
        return
    if has_complex:
        params, grads, exp_avgs, exp_avg_sqs, largest = _as_real(
            params, grads, exp_avgs, exp_avg_sqs, largest
        )
    if _in_one_call(params, lr, beta1, beta2, weight_decay, eps) and _C._adam_step_(
        params,
        grads,
        exp_avgs,
        exp_avg_sqs,
        largest,
        state_steps,
        lr=float(lr),
        beta1=float(beta1),
        beta2=float(beta2),
        weight_decay=weight_decay,
        eps=eps,
        amsgrad=amsgrad,
        decoupled=decoupled_weight_decay,
        maximize=maximize,
    ):
        return
    lr, beta1, beta2 = _to_scalar(lr), _to_scalar(beta1), _to_scalar(beta2)
    lists = [params, grads, exp_avgs, exp_avg_sqs, *([largest] if largest else [])]
    for step, *tensors in zip(state_steps, *lists, strict=True):
        step += 1
        _update(
            step.clone() if differentiable else step.item(),
            *tensors,
            lr=lr,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            weight_decay=weight_decay,
            decoupled=decoupled_weight_decay,
            maximize=maximize,
        )


def _update(
    step: Any,
    param: Tensor,
    grad: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    max_exp_avg_sq: Tensor | None = None,
    *,
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: float,
    weight_decay: Any,
    decoupled: bool,
    maximize: bool,
) -> None:
    """Change one parameter; *step* is a tensor if autograd should record all of it."""
    recorded = isinstance(step, Tensor)
    if maximize:
        grad = -grad
    if isinstance(weight_decay, Tensor) or weight_decay != 0:
        if decoupled:
            param.mul_(1 - lr * weight_decay)
        else:
            grad = _add_scaled(grad, param, weight_decay)
    exp_avg.lerp_(grad, 1 - beta1)
    if recorded and isinstance(beta2, Tensor) and beta2.requires_grad:
        exp_avg_sq.lerp_(grad.square(), 1 - beta2)
    else:
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - _get_value(beta2))
    second = exp_avg_sq
    if max_exp_avg_sq is not None:
        if recorded:
            largest = shmtensor.maximum(max_exp_avg_sq.clone(), exp_avg_sq.clone())
            second = max_exp_avg_sq.copy_(largest).clone()
        else:
            second = shmtensor.maximum(max_exp_avg_sq, exp_avg_sq, out=max_exp_avg_sq)
    step_size = _quotient(lr, 1 - beta1**step)
    root = 1 - beta2**step
    root = root.sqrt() if isinstance(root, Tensor) else root**0.5
    if recorded:
        # The step size goes into the divisor, where a tensor may stand that requires a gradient.
        divisor = second.sqrt() / (root * -step_size) + _quotient(eps, -step_size)
        param.addcdiv_(exp_avg.clone(), divisor)
    else:
        param.addcdiv_(exp_avg, (second.sqrt() / root).add_(eps), value=-_get_value(step_size))
