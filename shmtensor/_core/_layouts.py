"""Methods of tensors that are about layouts: strided, coordinate and compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor import _C

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = ["smm", "to_dense", "to_sparse_coo", "to_sparse_csc", "to_sparse_csr"]


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
