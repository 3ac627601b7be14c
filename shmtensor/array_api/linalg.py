"""The extension for linear algebra. Matrices are in the last two axes, axes before are a batch.

Raises (all functions):
    RuntimeError: Shapes or dtypes do not fit.
    shmtensor.linalg.LinAlgError: A matrix is singular or not positive definite.

Source: the array API standard, version 2024.12, and shmtensor.linalg.
"""

from __future__ import annotations

from typing import NamedTuple

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api import _unsigned as wide
from shmtensor.array_api._axes import Axes, axis_indices, reduced
from shmtensor.array_api._dtypes import Dtype, default_integral_sum, pair
from shmtensor.array_api._products import matmul, matrix_transpose, tensordot, vecdot

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

_linalg = engine.linalg


class Eigh(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QR(NamedTuple):
    """What `qr` returns."""

    Q: Tensor
    R: Tensor


class Slogdet(NamedTuple):
    """What `slogdet` returns."""

    sign: Tensor
    logabsdet: Tensor


class SVD(NamedTuple):
    """What `svd` returns."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Return the triangular factors of positive-definite matrices, lower or upper."""
    return _linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return vector products of vectors of length 3 along an axis; other axes broadcast.

    Raises:
        ValueError: A vector has another length.
    """
    a, b = pair(x1, x2)
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError(
            f"cross(): vectors must have 3 elements, got {a.shape[axis]} and {b.shape[axis]}"
        )
    a, b = engine.broadcast_tensors(a, b)
    return wide.by_bits(lambda u, v: _linalg.cross(u, v, dim=axis), a, b)


def det(x: Tensor, /) -> Tensor:
    """Return determinants."""
    return _linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Return a diagonal of each matrix, *offset* above the main one; a view."""
    return engine.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> Eigh:
    """Return ``eigenvalues``, ascending, and ``eigenvectors`` of symmetric matrices."""
    return Eigh(*_linalg.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Return the eigenvalues of symmetric matrices, ascending."""
    return _linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """Return inverse matrices."""
    return _linalg.inv(x)


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: int | float | str | None = "fro"
) -> Tensor:
    """Return norms of matrices.

    Args:
        x: A floating-point array of two axes or more.
        keepdims: Keep both axes, with length 1.
        ord: ``"fro"``, ``"nuc"``, 1, 2, -1, -2 or an infinity; None is ``"fro"``.
    """
    kind = "fro" if ord is None else ord
    return _linalg.matrix_norm(x, kind, (-2, -1), keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Return square matrices to an integer power."""
    return _linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Return how many singular values exceed *rtol* times the largest one.

    Args:
        x: A floating-point array of two axes or more.
        rtol: By default the dtype's eps times the longer axis.
    """
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return all products of the elements of two vectors.

    Raises:
        ValueError: An operand is not a vector.
    """
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer(): expected two vectors, got {x1.ndim} and {x2.ndim} axes")
    a, b = pair(x1, x2)
    return wide.by_bits(engine.multiply, a.unsqueeze(-1), b.unsqueeze(0))


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Return pseudo-inverses; *rtol* as in `matrix_rank`."""
    return _linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> QR:
    """Return ``Q`` with orthonormal columns and upper triangular ``R``, whose product is *x*.

    Args:
        x: A floating-point array of two axes or more.
        mode: ``"reduced"``, or ``"complete"`` for square ``Q``.

    Raises:
        ValueError: *mode* is something else.
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr(): mode must be 'reduced' or 'complete', got {mode!r}")
    return QR(*_linalg.qr(x, mode=mode))


def slogdet(x: Tensor, /) -> Slogdet:
    """Return ``sign`` and ``logabsdet``, the logarithm of the magnitude, of determinants."""
    return Slogdet(*_linalg.slogdet(x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Return what *x1* must be multiplied with to give *x2*.

    Args:
        x1: Square matrices.
        x2: A vector, if it has one axis, and otherwise matrices; the axes before broadcast.
    """
    a, b = pair(x1, x2)
    if b.ndim == 1:
        return solve(a, b.unsqueeze(-1)).squeeze(-1)
    # The engine takes an array of one axis less for a batch of vectors.
    missing = max(a.ndim - b.ndim, 0)
    return _linalg.solve(a, b.reshape((1,) * missing + tuple(b.shape)))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVD:
    """Return ``U``, ``S`` and ``Vh`` with ``U @ diag(S) @ Vh`` equal to *x*.

    Args:
        x: A floating-point array of two axes or more.
        full_matrices: Square ``U`` and ``Vh``, rather than as many columns and rows as ``S`` has.
    """
    return SVD(*_linalg.svd(x, full_matrices=full_matrices))


def svdvals(x: Tensor, /) -> Tensor:
    """Return singular values, descending."""
    return _linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Dtype | None = None) -> Tensor:
    """Return sums of a diagonal of each matrix.

    Args:
        x: A numeric array of two axes or more.
        offset: Which diagonal: 0 is the main one, positive ones are above it.
        dtype: The dtype to sum in; by default int64 or uint64 for integers.
    """
    dtype = default_integral_sum(x.dtype) if dtype is None else dtype
    return engine.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: Axes = None, keepdims: bool = False, ord: int | float = 2
) -> Tensor:
    """Return norms of vectors.

    Args:
        x: A floating-point array.
        axis: The axis of the vectors, or several whose elements make one vector; None is all.
        keepdims: Keep the axes, with length 1.
        ord: The exponent, an infinity, or 0 to count what differs from 0.
    """
    if axis_indices(axis, x.ndim):
        return _linalg.vector_norm(x, ord, axis_indices(axis, x.ndim), keepdim=keepdims)
    return reduced(lambda y, dim: _linalg.vector_norm(y, ord, dim), x, axis, keepdims)
