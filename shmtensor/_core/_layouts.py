"""Methods of tensors that are about layouts: strided, coordinate and compressed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from shmtensor import _C
from shmtensor._C import memory_format

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = ["dim_order", "smm", "to_dense", "to_sparse_coo", "to_sparse_csc", "to_sparse_csr"]


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """Return a strided tensor with the same elements; itself where it is strided.

    Args:
        self: Of any layout.
        dtype: Element type of the result; None keeps it.
        masked_grad: Of a sparse tensor: its gradient has entries where it has some (also with
            None), or wherever the gradient of the result is not zero (False).

    Raises:
        RuntimeError: *dtype* is given for a sparse tensor.

    Source:
        torch.Tensor.to_dense.
    """
    if self.layout is not _C.strided:
        return _C._to_dense(self, dtype, masked_grad is not False)
    return self if dtype is None else self.to(dtype)


def to_sparse_coo(self: Tensor) -> Tensor:
    """Return this tensor in coordinate format; see ``to_sparse``."""
    return self.to_sparse()


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Return this matrix in compressed row format.

    Args:
        self: A matrix of any layout.
        dense_dim: 0 or None.

    Raises:
        RuntimeError: This is not a matrix.

    Source:
        torch.Tensor.to_sparse_csr.
    """
    return self.to_sparse(layout=_C.sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """Return this matrix in compressed column format; see `to_sparse_csr`."""
    return self.to_sparse(layout=_C.sparse_csc, dense_dim=dense_dim)


def smm(self: Tensor, mat: Tensor) -> Tensor:
    """Return the product of this sparse matrix with a dense one, as a sparse one."""
    product: Tensor = _C.mm(self, mat)
    return product if product.is_sparse else product.to_sparse()


def dim_of_indices(self: Tensor) -> int:
    """Return the number of sparse dimensions."""
    return self.sparse_dim()


def dim_of_values(self: Tensor) -> int:
    """Return the number of dense dimensions."""
    return self.dense_dim()


def dim_order(
    self: Tensor, *, ambiguity_check: bool | list[memory_format] = False
) -> tuple[int, ...]:
    """Return the dimensions in the order in which they lie in memory, outermost first.

    Args:
        self: Of any layout.
        ambiguity_check: Refuse a tensor of several such orders: one with a dimension of size 1,
            or with two neighbours of one stride. A list of memory formats takes it when it lies
            in exactly one of them.

    Raises:
        RuntimeError: The order is ambiguous.
        TypeError: *ambiguity_check* is neither a bool nor a list of memory formats.

    Source:
        torch.Tensor.dim_order.
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    is_list = formats is ambiguity_check and all(isinstance(f, memory_format) for f in formats)
    if not is_list and not isinstance(ambiguity_check, bool):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    if ambiguity_check is not False:
        strides = self.stride()
        several = 1 in self.shape or any(a == b for a, b in itertools.pairwise(strides))
        if several and sum(self.is_contiguous(memory_format=f) for f in formats) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the "
                f"given memory formats: shape {tuple(self.shape)}, strides {strides}"
            )
    order = sorted(range(self.dim()), key=lambda i: (-self.stride(i), i))
    return tuple(order)
