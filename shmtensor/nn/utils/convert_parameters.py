"""Parameters as one vector. Source: torch.nn.utils."""

from __future__ import annotations

from collections.abc import Iterable

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of *parameters*, one after the other, ``(sum of sizes,)``."""
    return shmtensor.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let the data of *parameters* be slices of *vec*, in the same order.

    Raises:
        TypeError: *vec* is not a tensor.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected shmtensor.Tensor, but got: {type(vec).__name__}")
    begin = 0
    for parameter in parameters:
        end = begin + parameter.numel()
        parameter.data = vec[begin:end].view_as(parameter).data
        begin = end
