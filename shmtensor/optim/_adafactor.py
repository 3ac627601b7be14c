"""Adafactor: adaptive steps with a second moment that needs the memory of a row and a column."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.optim._tools import (
    _check_lr,
    _check_not_negative,
    _check_steps,
    _new_scalar,
    _to_scalar,
)
from shmtensor.optim.optimizer import Optimizer, ParamsT

__all__ = ["Adafactor", "adafactor"]


class Adafactor(Optimizer):
    """Adaptive steps with a second moment of rank one, relative to the parameter's size.

    Counting steps t from 1, with means over the last and the last but one dim::

        k = t**beta2_decay
        R = (1 - k) * R + k * mean(g**2, -1)
        C = (1 - k) * C + k * mean(g**2, -2)
        V = R C / max(mean(R), e1)          (the average of g**2 for vectors)
        u = g / max(sqrt(V), e1)
        a = max(e2, rms(p)) * min(lr, 1 / sqrt(t))
        p = p * (1 - lr * weight_decay) - a * u / max(1, rms(u) / d)

    Args:
        params: Parameters or groups.
        lr: The largest relative step, and the factor of the decay; a number or a tensor of one
            element.
        beta2_decay: Power of the moments' decay; not positive.
        eps: The smallest root (``None``: the dtype's rounding error), and the smallest size that
            a parameter is taken to have.
        d: The largest root mean square of an update.
        weight_decay: Each step multiplies the parameters by ``1 - lr * weight_decay``.
        foreach: Taken for torch's sake; the result does not depend on it.
        maximize: Climb instead.

    Raises:
        ValueError: An option is out of its range.

    Source:
        torch.optim.Adafactor; Shazeer, Stern, "Adafactor: adaptive learning rates with sublinear
        memory cost", 2018.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _check_lr(lr, "Learning rate should be >= 0 but is: {}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None:
            _check_not_negative(eps[0], "epsilon1 should be >= 0 but is: {}")
        _check_not_negative(eps[1], "epsilon2 should be >= 0 but is: {}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        _check_not_negative(weight_decay, "weight_decay should be >= 0 but is: {}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._complete_groups(foreach=None)

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        state = self.state[param]
        if state:
            return
        like = param.detach()
        state["step"] = _new_scalar()
        if param.dim() > 1:
            state["row_var"] = like.new_zeros((*param.shape[:-1], 1))
            state["col_var"] = like.new_zeros((*param.shape[:-2], 1, param.shape[-1]))
        else:
            state["variance"] = shmtensor.zeros_like(like)

    def _init_group(
        self,
        group: dict[str, Any],
        params_with_grad: list[Tensor],
        grads: list[Tensor],
        row_vars: list[Tensor | None],
        col_vars: list[Tensor | None],
        variances: list[Tensor | None],
        state_steps: list[Tensor],
    ) -> bool:
        """Append what a step of *group* works on; nothing of it is complex."""
        if any(p.is_complex() for p in group["params"] if p.grad is not None):
            raise RuntimeError("Adafactor does not support complex parameters")
        self._collect(
            group,
            params_with_grad,
            grads,
            {"step": state_steps},
            "Adafactor does not support sparse gradients",
        )
        for param in params_with_grad:
            state = self.state[param]
            row_vars.append(state.get("row_var"))
            col_vars.append(state.get("col_var"))
            variances.append(state.get("variance"))
        return False

    def step(self, closure: Any = None) -> Any:
        """Change every parameter that has a gradient; see ``Optimizer.step``."""
        loss = self._loss_of(closure)
        with shmtensor.no_grad():
            self._step_groups()
        return loss

    def _step_groups(self) -> None:
        for group in self.param_groups:
            params: list[Tensor] = []
            grads: list[Tensor] = []
            rows: list[Tensor | None] = []
            columns: list[Tensor | None] = []
            variances: list[Tensor | None] = []
            steps: list[Tensor] = []
            eps1, eps2 = group["eps"]
            has_complex = self._init_group(group, params, grads, rows, columns, variances, steps)
            adafactor(
                params,
                grads,
                rows,
                columns,
                variances,
                steps,
                d=group["d"],
                lr=group["lr"],
                beta2_decay=group["beta2_decay"],
                weight_decay=group["weight_decay"],
                eps1=eps1,
                eps2=eps2,
                foreach=group["foreach"],
                maximize=group["maximize"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
                has_complex=has_complex,
            )


def adafactor(
    params: list[Tensor],
    grads: list[Tensor],
    row_vars: list[Tensor | None],
    col_vars: list[Tensor | None],
    variances: list[Tensor | None],
    state_steps: list[Tensor],
    foreach: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    d: float,
    lr: float | Tensor,
    beta2_decay: float,
    weight_decay: float,
    eps1: float | None,
    eps2: float,
    maximize: bool,
) -> None:
    """Do one step of ``Adafactor`` on lists of tensors, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        row_vars: For each parameter of two or more dims, a second moment of its rows.
        col_vars: For each of these, a second moment of its columns.
        variances: For each other parameter, a second moment.
        state_steps: A counter of steps for each, a tensor of one element.
        foreach: See ``Adafactor``, as for all that is not said here.
        grad_scale: Must be ``None``.
        found_inf: Must be ``None``.
        has_complex: Must be false.
        d: See there.
        lr: See there.
        beta2_decay: See there.
        weight_decay: See there.
        eps1: The smallest root.
        eps2: The smallest size that a parameter is taken to have.
        maximize: See there.

    Raises:
        RuntimeError: A counter is not a tensor.

    Source:
        torch.optim.adafactor.
    """
    _check_steps(state_steps)
    if grad_scale is not None or found_inf is not None:
        raise AssertionError("Grad scaling should occur outside of optimizer.step()")
    largest = _to_scalar(lr)
    for param, grad, row_var, col_var, variance, step_t in zip(
        params, grads, row_vars, col_vars, variances, state_steps, strict=True
    ):
        if maximize:
            grad = -grad
        step_t += 1
        step = step_t.item()
        least = shmtensor.finfo(param.dtype).eps if eps1 is None else eps1
        share = step**beta2_decay
        size = max(eps2, param.norm(2).item() / param.numel() ** 0.5)
        size = size * min(largest, 1 / step**0.5)
        if weight_decay != 0:
            param.mul_(1 - largest * weight_decay)
        if row_var is not None and col_var is not None:
            row_var.lerp_(_mean_square(grad, -1), share)
            col_var.lerp_(_mean_square(grad, -2), share)
            estimate = row_var @ col_var
            estimate.div_(row_var.mean(dim=-2, keepdim=True).clamp_(min=least))
        else:
            assert variance is not None
            variance.lerp_(grad.square(), share)
            estimate = variance.clone()
        update = estimate.clamp_(min=least * least).rsqrt_().mul_(grad)
        excess = update.norm(2).item() / (update.numel() ** 0.5 * d)
        param.add_(update, alpha=-size / max(1.0, excess))


def _mean_square(grad: Tensor, dim: int) -> Tensor:
    """The mean of the squares along *dim*, which stays."""
    norm = shmtensor.norm(grad, dim=dim, keepdim=True)
    return norm.square_().div_(grad.size(dim))
