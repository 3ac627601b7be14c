"""Limiting gradients before a step. Source: torch.nn.utils."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType

import shmtensor
from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]

Tensors = Tensor | Iterable[Tensor]


def _grads(parameters: Tensors) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in parameters if p.grad is not None]


def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of *tensors* together.

    Args:
        tensors: Any number of tensors.
        norm_type: Exponent p.
        error_if_nonfinite: Raise if the norm is infinite or not a number.
        foreach: Has no effect.

    Raises:
        RuntimeError: See *error_if_nonfinite*.
    """
    items = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not items:
        return shmtensor.tensor(0.0)
    norms = [_C._nn.linalg_vector_norm(t, float(norm_type)) for t in items]
    total = _C._nn.linalg_vector_norm(shmtensor.stack(norms), float(norm_type))
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients of *parameters* by min(1, max_norm / total_norm), in place."""
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    with shmtensor.no_grad():
        for grad in _grads(parameters):
            grad.mul_(factor)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients in place so that their norm together is at most *max_norm*.

    Args:
        parameters: Whose gradients.
        max_norm: The limit.
        norm_type: Exponent p.
        error_if_nonfinite: Raise if the norm is infinite or not a number.
        foreach: Has no effect.

    Returns:
        The norm before.
    """
    items = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not items and isinstance(parameters, GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
        )
    with shmtensor.no_grad():
        total = get_total_norm(_grads(items), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(items, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        "`shmtensor.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`shmtensor.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limit every element of the gradients to [-clip_value, clip_value], in place."""
    with shmtensor.no_grad():
        for grad in _grads(parameters):
            grad.clamp_(-float(clip_value), float(clip_value))
