"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.optim._tools import (
    _add_scaled,
    _check_fused_option,
    _check_lr,
    _check_scaling,
    _device_dtype_check_for_fused,
    _get_value,
    _in_one_call,
    _use_grad_for_differentiable,
)
from shmtensor.optim.optimizer import Optimizer, ParamsT

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    """Go against the gradient, with momentum if asked.

    With momentum m, dampening d and weight decay w::

        g = grad + w * p                (grad negated first when maximizing)
        v = m * v + (1 - d) * g         (v = g in the first step)
        p = p - lr * v                  (or p - lr * (g + m * v) for Nesterov)

    Args:
        params: Parameters or groups.
        lr: Step size; a number or a tensor of one element.
        momentum: How much of the last direction is kept.
        dampening: How much of the gradient is left out of the direction.
        weight_decay: Factor of the L2 penalty.
        nesterov: Look ahead; needs momentum and no dampening.
        maximize: Climb instead.
        foreach: Taken for torch's sake; the result does not depend on it.
        differentiable: Record the update in the graph.
        fused: Do a step of a group of float parameters in one call in any case, halves
            included; their steps then compute in float32 throughout.

    Raises:
        ValueError: A negative *lr*, *momentum* or *weight_decay*; Nesterov without momentum.
        RuntimeError: *fused* with *foreach* or *differentiable*.

    Source:
        torch.optim.SGD; Sutskever et al., "On the importance of initialization and momentum in
        deep learning", 2013.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _check_lr(lr, nan=True)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        _check_fused_option(self, fused, foreach, differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete_groups(
            nesterov=False, maximize=False, foreach=None, differentiable=False, fused=False
        )

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        """Make a buffer of zeros, where one step would make it of the gradient."""
        if group["momentum"] != 0 and self.state[param].get("momentum_buffer") is None:
            self.state[param]["momentum_buffer"] = shmtensor.zeros_like(param.detach())

    def _init_group(
        self,
        group: dict[str, Any],
        params: list[Tensor],
        grads: list[Tensor],
        momentum_buffer_list: list[Tensor | None],
    ) -> bool:
        """Append what a step of *group* works on; returns whether a gradient is sparse."""
        has_sparse_grad = False
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if group["fused"]:
                _device_dtype_check_for_fused(param)
            params.append(param)
            grads.append(grad)
            has_sparse_grad = has_sparse_grad or grad.is_sparse
            if group["momentum"] != 0:
                momentum_buffer_list.append(self.state[param].get("momentum_buffer"))
        return has_sparse_grad

    @_use_grad_for_differentiable
    def step(self, closure: Any = None) -> Any:
        """Change every parameter that has a gradient; see ``Optimizer.step``."""
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params: list[Tensor] = []
            grads: list[Tensor] = []
            buffers: list[Tensor | None] = []
            has_sparse_grad = self._init_group(group, params, grads, buffers)
            sgd(
                params,
                grads,
                buffers,
                has_sparse_grad=has_sparse_grad,
                foreach=group["foreach"],
                fused=group["fused"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                maximize=group["maximize"],
            )
            if group["momentum"] != 0:
                for param, buffer in zip(params, buffers, strict=True):
                    self.state[param]["momentum_buffer"] = buffer
        return loss


def sgd(
    params: list[Tensor],
    d_p_list: list[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float | Tensor,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """Do one step of ``SGD`` on lists of tensors, in place.

    Args:
        params: What is changed.
        d_p_list: A gradient for each.
        momentum_buffer_list: A direction for each, or ``None``, which becomes one; looked at
            with *momentum* only.
        has_sparse_grad: Whether a gradient is sparse.
        foreach: Taken for torch's sake.
        fused: See ``SGD``.
        grad_scale: With *fused*, what the gradients are divided by, in place.
        found_inf: With *fused*, a step is left out where this is 1.
        weight_decay: See ``SGD``, as all that follow.
        momentum: See there.
        lr: See there.
        dampening: See there.
        nesterov: See there.
        maximize: See there.

    Source:
        torch.optim.sgd.sgd.
    """
    _check_scaling(fused, grad_scale, found_inf)
    if has_sparse_grad and fused:
        raise RuntimeError("`_fused_sgd` does not support sparse gradients")
    may_fuse = fused or (not has_sparse_grad and _in_one_call(params, lr, weight_decay))
    if may_fuse and _in_one_step(
        params,
        d_p_list,
        momentum_buffer_list,
        fused,
        grad_scale,
        found_inf,
        weight_decay=_get_value(weight_decay),
        momentum=momentum,
        lr=lr,
        dampening=dampening,
        nesterov=nesterov,
        maximize=maximize,
    ):
        return
    for i, param in enumerate(params):
        grad = -d_p_list[i] if maximize else d_p_list[i]
        if isinstance(weight_decay, Tensor) or weight_decay != 0:
            grad = _add_scaled(grad, param, weight_decay)
        if momentum != 0:
            buffer = momentum_buffer_list[i]
            if buffer is None:
                buffer = momentum_buffer_list[i] = grad.clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
            grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
        if isinstance(lr, Tensor) and lr.requires_grad:
            param.addcmul_(grad.clone(), lr, value=-1)  # a buffer changes
        else:
            param.add_(grad, alpha=-float(lr))


def _in_one_step(
    params: list[Tensor],
    grads: list[Tensor],
    buffers: list[Tensor | None],
    fused: bool | None,
    grad_scale: Tensor | None,
    found_inf: Tensor | None,
    **options: Any,
) -> bool:
    """Do the step in a call for all tensors, or two where some have no buffer yet.

    Returns:
        Whether it is done: tensors that do not suit are left to others.
    """
    if found_inf is not None and found_inf.item() == 1:
        return True

    def do(lists: list[list[Any]], is_first: bool) -> bool:
        if not fused:
            return _C._sgd_step_(*lists, is_first_step=is_first, **options)
        _C._fused_sgd_(
            *lists, is_first_step=is_first, grad_scale=grad_scale, found_inf=found_inf, **options
        )
        return True

    if options["momentum"] == 0:
        return do([params, grads, []], False)
    new = [i for i, buffer in enumerate(buffers) if buffer is None]
    if not new:
        return do([params, grads, buffers], False)
    made = [shmtensor.empty_like(params[i], requires_grad=False) for i in new]
    if not do([[params[i] for i in new], [grads[i] for i in new], made], True):
        return False
    old = [i for i, buffer in enumerate(buffers) if buffer is not None]
    lists = [[tensors[i] for i in old] for tensors in (params, grads, buffers)]
    if old and not do(lists, False):
        return False
    for i, buffer in zip(new, made, strict=True):
        buffers[i] = buffer
    return True
