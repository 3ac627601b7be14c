"""Products, sums and softmax of sparse tensors.

Source: torch.sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor.sparse._construct import sparse_coo_tensor

__all__ = [
    "addmm",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "smm",
    "softmax",
    "spdiags",
    "spmm",
    "sum",
]

_nn = _C._nn


def mm(sparse: Tensor, dense: Tensor, reduce: str | None = None) -> Tensor:
    """Multiply two matrices; one or both may be sparse.

    The gradient of a sparse factor has entries where the factor has.

    Args:
        sparse: ``(M, K)``.
        dense: ``(K, N)``.
        reduce: How the terms of an element are combined: ``"sum"``, ``"mean"``, ``"amax"``
            (also ``"max"``) or ``"amin"`` (``"min"``), of a *sparse* in compressed row format and
            a dense *dense*. Only entries are terms; a row without any gives 0.

    Returns:
        ``(M, N)``: sparse where both are, else dense.

    Raises:
        NotImplementedError: *reduce* with other layouts.
        RuntimeError: *reduce* is another one; sizes or dtypes do not fit.

    Source:
        torch.sparse.mm.
    """
    if reduce is None:
        return _C.mm(sparse, dense)
    return _reduced_mm(sparse, dense, reduce)


#: What callers write -> what `scatter_reduce` calls it.
_REDUCTIONS = {
    "sum": "sum",
    "prod": "prod",
    "mean": "mean",
    "amax": "amax",
    "max": "amax",
    "amin": "amin",
    "min": "amin",
}


def _reduced_mm(sparse: Tensor, dense: Tensor, reduce: str) -> Tensor:
    """Combine the products of a row's entries; a row without any is 0."""
    if reduce not in _REDUCTIONS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if reduce == "prod":
        raise RuntimeError("sparse_mm_reduce: reduce type of prod has not been enabled.")
    if sparse.layout is not _C.sparse_csr or dense.layout is not _C.strided:
        raise NotImplementedError(
            "sparse.mm(): with a reduction, the first matrix is in compressed row format and the "
            f"second dense, but got {sparse.layout} and {dense.layout}"
        )
    if reduce == "sum":
        return _C.mm(sparse, dense)
    if sparse.dim() != 2 or dense.dim() != 2 or sparse.size(1) != dense.size(0):
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({'x'.join(map(str, sparse.shape))} and {'x'.join(map(str, dense.shape))})"
        )
    columns = sparse.col_indices().to(_C.int64)
    rows = _C.arange(sparse.size(0)).repeat_interleave(sparse.crow_indices().diff())
    terms = sparse.values().unsqueeze(1) * dense.index_select(0, columns)
    result: Tensor = terms.new_zeros((sparse.size(0), dense.size(1))).scatter_reduce(
        0, rows.unsqueeze(1).expand_as(terms), terms, _REDUCTIONS[reduce], include_self=False
    )
    return result


@overridable(as_given=True)
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Multiply two matrices; the name that old programs use for a sparse *input*.

    Source:
        torch.spmm.
    """
    return _C.mm(input, mat2)


@overridable(as_given=True)
def smm(input: Tensor, mat: Tensor) -> Tensor:
    """Multiply a sparse and a dense matrix into a sparse one.

    Source:
        torch.smm.
    """
    return input.smm(mat)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Compute ``beta * mat + alpha * (mat1 @ mat2)`` with a sparse *mat1*.

    Args:
        mat: What is added.
        mat1: ``(M, K)``, sparse.
        mat2: ``(K, N)``.
        beta: Its factor.
        alpha: That of the product.

    Source:
        torch.sparse.addmm.
    """
    return _C.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> Tensor:
    """Compute ``beta * input + alpha * (mat1 @ mat2)`` where *input* has entries, and only there.

    Args:
        input: ``(M, N)``, in compressed row format.
        mat1: ``(M, K)``.
        mat2: ``(K, N)``.
        beta: Factor of *input*.
        alpha: Factor of the product.

    Returns:
        In compressed row format, with the entries of *input*.

    Raises:
        RuntimeError: *input* has another layout; sizes or dtypes do not fit.

    Source:
        torch.sparse.sampled_addmm.
    """
    if input.layout is not _C.sparse_csr:
        raise RuntimeError(
            f"sampled_addmm: Expected self to have layout SparseCsr, but got {input.layout}"
        )
    product = _nn._sparse_sampled_mm(mat1, mat2.mT, input.detach())
    return input * beta + product * alpha


def sum(input: Tensor, dim: int | Sequence[int] | None = None, dtype: Any = None) -> Tensor:
    """Add the elements of a sparse tensor, all or along some dimensions.

    Args:
        input: In coordinate format.
        dim: What is added over; None for all.
        dtype: Element type of the sum.

    Returns:
        Sparse as long as a sparse dimension is left, else dense.

    Source:
        torch.sparse.sum.
    """
    if dim is None:
        return input.sum() if dtype is None else input.sum(dtype=dtype)
    dims = [dim] if isinstance(dim, int) else list(dim)
    return _nn._sparse_sum_dims(input, dims, dtype=dtype)


def _softmax(input: Tensor, dim: int, dtype: Any, is_log: bool) -> Tensor:
    if dtype is not None:
        input = input.to(dtype)
    return _nn._sparse_softmax(input, dim, is_log)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Apply softmax along *dim* to the entries of a sparse tensor.

    Elements without an entry count as minus infinity, and have none in the result.

    Args:
        input: In coordinate format, floating point.
        dim: The dimension along which entries add up to 1.
        dtype: Element type that *input* is cast to first.

    Source:
        torch.sparse.softmax.
    """
    return _softmax(input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Apply the logarithm of `softmax` along *dim* to the entries of a sparse tensor.

    Args:
        input: In coordinate format, floating point.
        dim: The dimension.
        dtype: Element type that *input* is cast to first.

    Source:
        torch.sparse.log_softmax.
    """
    return _softmax(input, dim, dtype, True)


def spdiags(
    diagonals: Tensor, offsets: Tensor, shape: tuple[int, int], layout: Any = None
) -> Tensor:
    """Make a sparse matrix of the rows of *diagonals*.

    Element ``(i, j)`` of a diagonal with offset k is element j of its row.

    Args:
        diagonals: ``(D, L)``, or ``(L,)`` for one.
        offsets: ``(D,)``: 0 the main diagonal, positive above it.
        shape: Rows and columns of the matrix.
        layout: ``sparse_coo`` (also None), ``sparse_csr`` or ``sparse_csc``.

    Raises:
        RuntimeError: Shapes do not fit, or an offset comes twice.

    Source:
        torch.sparse.spdiags.
    """
    rows = diagonals.unsqueeze(0) if diagonals.dim() == 1 else diagonals
    starts = offsets.reshape(-1)
    if rows.dim() != 2 or rows.size(0) != starts.numel():
        raise RuntimeError(
            f"Number of diagonals ({rows.size(0)}) does not match the number of offsets "
            f"({starts.numel()})"
        )
    chosen = [int(k) for k in starts.tolist()]
    if len(set(chosen)) != len(chosen):
        raise RuntimeError("Offset tensor contains duplicate values")
    at_rows, at_columns, taken = [], [], []
    for k, row in zip(chosen, range(len(chosen)), strict=True):
        first = max(k, 0)
        last = min(rows.size(1), shape[1], shape[0] + k)
        columns: Any = _C.arange(first, max(first, last))
        at_columns.append(columns)
        at_rows.append(columns - k)
        taken.append(rows[row].index_select(0, columns))
    made = sparse_coo_tensor(_C.stack([_C.cat(at_rows), _C.cat(at_columns)]), _C.cat(taken), shape)
    return made if layout in (None, _C.sparse_coo) else made.to_sparse(layout=layout)
