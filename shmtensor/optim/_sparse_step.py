"""Steps for sparse gradients: only the rows that have a gradient are read and changed."""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = ["Rows"]


class Rows:
    """The entries of a gradient, each place once, and the same places of dense tensors.

    Args:
        grad: A sparse tensor in coordinate format.
    """

    def __init__(self, grad: Tensor) -> None:
        self.grad = grad.coalesce()
        self.values = self.grad._values()

    def of(self, dense: Tensor) -> Tensor:
        """Return the elements of *dense* where the gradient has entries, as a copy."""
        return dense.sparse_mask(self.grad)._values()

    def add_to(self, dense: Tensor, values: Tensor, alpha: float = 1.0) -> None:
        """Add ``alpha * values`` to *dense* where the gradient has entries."""
        entries: Any = _C._nn._sparse_coo_tensor_checked(
            self.grad._indices(), values, self.grad.shape, False, True
        )
        dense.add_(entries, alpha=alpha)
