"""What modules and optimizers do to the gradients of their parameters."""

from __future__ import annotations

from shmtensor._core._tensor import Tensor

__all__ = ["set_to_zero"]


def set_to_zero(parameter: Tensor) -> None:
    """Set a gradient to zero in place, cut off from its history."""
    grad = parameter.grad
    if grad is None:
        return
    if grad.grad_fn is not None:
        grad = grad.detach()
        parameter.grad = grad
    else:
        grad.requires_grad_(False)
    grad.zero_()
