"""Steps by the sum of all squared gradients."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.optim._sparse_step import Rows
from shmtensor.optim._tools import (
    _add_scaled,
    _as_real,
    _check_fused_option,
    _check_lr,
    _check_not_negative,
    _check_scaling,
    _check_steps,
    _device_dtype_check_for_fused,
    _in_one_call,
    _Lists4,
    _new_scalar,
    _refuse_foreach_autograd,
    _to_scalar,
    _use_grad_for_differentiable,
)
from shmtensor.optim.optimizer import Optimizer, ParamsT

__all__ = ["Adagrad", "adagrad"]


class Adagrad(Optimizer):
    """Gradients over the root of the sum of their squares.

    Counting steps t from 1::

        s = s + g**2
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    Args:
        params: Parameters or groups.
        lr: Step size; a number or a tensor of one element.
        lr_decay: How fast the step size decays.
        weight_decay: Factor of the L2 penalty.
        initial_accumulator_value: What the sums begin with.
        eps: Added to the root.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.
        differentiable: Record the update in the graph.
        fused: Do a step of a group of float parameters in one call in any case, halves included,
            their steps then compute in float32 throughout.

    Raises:
        ValueError: An option is out of its range.
        RuntimeError: *fused* with *foreach* or *differentiable*.

    Source:
        torch.optim.Adagrad; Duchi et al., "Adaptive subgradient methods for online learning and
        stochastic optimization", 2011.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check_lr(lr)
        _check_not_negative(lr_decay, "Invalid lr_decay value: {}")
        _check_not_negative(weight_decay, "Invalid weight_decay value: {}")
        _check_not_negative(
            initial_accumulator_value, "Invalid initial_accumulator_value value: {}"
        )
        _check_not_negative(eps, "Invalid epsilon value: {}")
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        _check_fused_option(self, fused, foreach, differentiable)
        for group in self.param_groups:
            for param in group["params"]:
                self._init_state(group, param)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete_groups(foreach=None, maximize=False, differentiable=False, fused=None)

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        state = self.state[param]
        if state:
            return
        first = group["initial_accumulator_value"]
        if param.is_complex():
            first = complex(first, first)
        state["step"] = _new_scalar(is_fused=group["fused"])
        state["sum"] = shmtensor.full_like(param, first, requires_grad=False)

    def _init_group(
        self,
        group: dict[str, Any],
        params_with_grad: list[Tensor],
        grads: list[Tensor],
        state_sums: list[Tensor],
        state_steps: list[Tensor],
    ) -> bool:
        """Append what a step of *group* works on; returns whether a parameter is complex."""
        if group["fused"]:
            for param in group["params"]:
                if param.grad is not None:
                    _device_dtype_check_for_fused(param)
        wanted: dict[str, list[Any]] = {
            "sum": state_sums,
            "step": state_steps,
        }
        return self._collect(group, params_with_grad, grads, wanted, None)

    @_use_grad_for_differentiable
    def step(self, closure: Any = None) -> Any:
        """Change every parameter that has a gradient; see ``Optimizer.step``."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            lists: _Lists4 = [], [], [], []
            has_complex = self._init_group(group, *lists)
            adagrad(
                *lists,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                lr_decay=group["lr_decay"],
                eps=group["eps"],
                foreach=group["foreach"],
                maximize=group["maximize"],
                differentiable=group["differentiable"],
                fused=group["fused"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
                has_sparse_grad=any(grad.is_sparse for grad in lists[1]),
                has_complex=has_complex,
            )
        return loss


def adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    differentiable: bool = False,
    has_complex: bool = False,
    *,
    lr: float | Tensor,
    weight_decay: float,
    lr_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """Do one step of ``Adagrad`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        state_sums: A sum of squared gradients for each.
        state_steps: A counter of steps for each, a tensor of one element.
        fused: See ``Adagrad``, as for all that is not said here.
        grad_scale: With *fused*, what the gradients are divided by, in place.
        found_inf: With *fused*, a step is left out where this is 1.
        has_sparse_grad: Whether a gradient is sparse.
        foreach: See there.
        differentiable: See there.
        has_complex: Whether a parameter is complex.
        lr: See there.
        weight_decay: See there.
        lr_decay: See there.
        eps: See there.
        maximize: See there.

    Raises:
        RuntimeError: A counter is not a tensor.
        AssertionError: *foreach* with *differentiable*; *grad_scale* or *found_inf* without
            *fused*.

    Source:
        torch.optim.adagrad.adagrad.
    """
    _check_steps(state_steps)
    _check_scaling(fused, grad_scale, found_inf)
    _refuse_foreach_autograd(foreach, differentiable, params)
    if fused:
        if has_sparse_grad:
            raise RuntimeError("`fused` does not support sparse grad")
        if found_inf is not None and found_inf.item() == 1:
            return
        for step_t in state_steps:
            step_t += 1
        _C._fused_adagrad_(
            params,
            grads,
            state_sums,
            state_steps,
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            eps=eps,
            maximize=maximize,
            grad_scale=grad_scale,
            found_inf=found_inf,
        )
        return
    if has_complex and not has_sparse_grad:
        params, grads, state_sums = _as_real(params, grads, state_sums)
    if (
        not has_sparse_grad
        and _in_one_call(params, lr, lr_decay, weight_decay, eps)
        and _C._adagrad_step_(
            params,
            grads,
            state_sums,
            state_steps,
            lr=float(lr),
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            eps=eps,
            maximize=maximize,
        )
    ):
        return
    for step_t, param, grad, state_sum in zip(state_steps, params, grads, state_sums, strict=True):
        step_t += 1
        if maximize:
            grad = -grad
        if weight_decay != 0:
            if grad.is_sparse:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            grad = _add_scaled(grad, param, weight_decay)
        size = _to_scalar(lr) / (1 + (step_t.item() - 1) * lr_decay)
        if grad.is_sparse:
            rows = Rows(grad)
            rows.add_to(state_sum, rows.values.pow(2))
            rows.add_to(param, rows.values / rows.of(state_sum).sqrt_().add_(eps), -size)
            continue
        state_sum.addcmul_(grad, grad, value=1)
        root = state_sum.sqrt()
        root = root + eps if differentiable else root.add_(eps)
        param.addcdiv_(grad, root, value=-size)
