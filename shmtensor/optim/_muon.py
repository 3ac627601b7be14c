"""Muon: momentum, made orthogonal, for matrices."""

from __future__ import annotations

import math
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.optim._tools import _check_lr, _check_not_negative, _get_value
from shmtensor.optim.optimizer import Optimizer, ParamsT

__all__ = ["Muon"]


class Muon(Optimizer):
    """Steps along the orthogonal matrix that is nearest to the momentum.

    With momentum m, for a matrix of A rows and B columns::

        b = m * b + (1 - m) * g
        u = orthogonal((1 - m) * g + m * b)            (of b without nesterov)
        p = p * (1 - lr * weight_decay) - f * lr * u

    The factor f is ``sqrt(max(1, A / B))``, or ``0.2 * sqrt(max(A, B))`` for "match_rms_adamw".
    The orthogonal matrix is approached by *ns_steps* steps of a Newton-Schulz iteration with a
    polynomial of degree five, in bfloat16.

    Args:
        params: Matrices or groups of such; biases and embeddings are better off with ``AdamW``.
        lr: Step size; a number or a tensor of one element.
        weight_decay: Each step multiplies the parameters by ``1 - lr * weight_decay``.
        momentum: How much of the last direction is kept.
        nesterov: Look ahead.
        ns_coefficients: The polynomial's three coefficients, lowest degree first.
        eps: The smallest norm that a matrix is divided by.
        ns_steps: Steps of the iteration, less than 100.
        adjust_lr_fn: "original" (as ``None``) or "match_rms_adamw", whose steps are about as
            long as those of ``AdamW``.

    Raises:
        ValueError: An option is out of its range; a parameter is not a matrix.

    Source:
        torch.optim.Muon; Jordan et al., "Muon: an optimizer for hidden layers in neural
        networks", 2024; Liu et al., "Muon is scalable for LLM training", 2025.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        _check_lr(lr, "Learning rate should be >= 0 but is: {}")
        _check_not_negative(momentum, "momentum should be >= 0 but is: {}")
        _check_not_negative(weight_decay, "weight decay should be >= 0 but is: {}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with "
                        f"size: {param.size()}"
                    )

    def _init_state(self, group: dict[str, Any], param: Tensor) -> None:
        state = self.state[param]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = shmtensor.zeros_like(param, requires_grad=False)

    def _init_group(
        self,
        group: dict[str, Any],
        params_with_grad: list[Tensor],
        grads: list[Tensor],
        muon_momentum_bufs: list[Tensor],
    ) -> bool:
        """Append what a step of *group* works on; nothing of it is complex."""
        if any(p.is_complex() for p in group["params"] if p.grad is not None):
            raise RuntimeError("Muon does not support complex parameters")
        return self._collect(
            group,
            params_with_grad,
            grads,
            {"momentum_buffer": muon_momentum_bufs},
            "Muon does not support sparse gradients",
        )

    def step(self, closure: Any = None) -> Any:
        """Change every parameter that has a gradient; see ``Optimizer.step``."""
        loss = self._loss_of(closure)
        with shmtensor.no_grad():
            self._step_groups()
        return loss

    def _step_groups(self) -> None:
        for group in self.param_groups:
            lists: tuple[list[Tensor], list[Tensor], list[Tensor]] = [], [], []
            has_complex = self._init_group(group, *lists)
            muon(
                *lists,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                nesterov=group["nesterov"],
                ns_coefficients=group["ns_coefficients"],
                eps=group["eps"],
                ns_steps=group["ns_steps"],
                adjust_lr_fn=group["adjust_lr_fn"],
                has_complex=has_complex,
            )


def muon(
    params: list[Tensor],
    grads: list[Tensor],
    muon_momentum_bufs: list[Tensor],
    *,
    foreach: bool | None = None,
    lr: float,
    weight_decay: float,
    momentum: float,
    nesterov: bool,
    ns_coefficients: tuple[float, float, float],
    ns_steps: int,
    eps: float,
    adjust_lr_fn: str | None,
    has_complex: bool,
) -> None:
    """Do one step of ``Muon`` on lists of matrices, in place.

    Args:
        params: What is changed.
        grads: A gradient for each.
        muon_momentum_bufs: A direction for each.
        foreach: Must not be true.
        lr: See ``Muon``, as for all that follow.
        weight_decay: See there.
        momentum: See there.
        nesterov: See there.
        ns_coefficients: See there.
        ns_steps: See there.
        eps: See there.
        adjust_lr_fn: See there.
        has_complex: Must be false.

    Raises:
        RuntimeError: *foreach*.
        ValueError: Not three coefficients; 100 steps or more.

    Source:
        torch.optim.Muon.
    """
    if foreach:
        raise RuntimeError("Foreach is not supported for Muon yet")
    lr = _get_value(lr)
    for param, grad, buffer in zip(params, grads, muon_momentum_bufs, strict=True):
        buffer.lerp_(grad, 1 - momentum)
        update = grad.lerp(buffer, momentum) if nesterov else buffer
        update = _zeropower_via_newtonschulz(update, ns_coefficients, ns_steps, eps)
        param.mul_(1 - lr * weight_decay)
        param.add_(update, alpha=-_adjust_lr(lr, adjust_lr_fn, param.shape))


def _zeropower_via_newtonschulz(
    grad: Tensor, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> Tensor:
    """A matrix with the singular vectors of *grad*, and singular values near 1, in bfloat16."""
    if ns_steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(grad.shape) != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(ns_coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = ns_coefficients
    x = grad.bfloat16()
    tall = grad.size(0) > grad.size(1)
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(ns_steps):
        gram = x @ x.T
        x = shmtensor.addmm(x, shmtensor.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _adjust_lr(lr: float, adjust_lr_fn: str | None, param_shape: shmtensor.Size) -> float:
    """The step size for a matrix of *param_shape*."""
    rows, columns = param_shape[:2]
    if adjust_lr_fn in (None, "original"):
        return lr * math.sqrt(max(1, rows / columns))
    if adjust_lr_fn == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(rows, columns))
    return lr
