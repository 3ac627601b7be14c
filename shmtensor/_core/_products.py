"""Sums of products and low-rank factors: torch's argument forms over the operators.

Source: torch.functional and torch._lowrank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._overridable import Handed, overridable
from shmtensor._core._tensor import Tensor
from shmtensor._core._warnings import warn_once

__all__ = ["cdist", "einsum", "lu", "norm", "pca_lowrank", "svd_lowrank", "tensordot"]

_nn = _C._nn

_CDIST_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@overridable
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = _CDIST_MODES[0]) -> Tensor:
    """Give the distances between all pairs of rows in the p-norm.

    Args:
        x1: ``(..., P, M)``, floating point.
        x2: ``(..., R, M)``; batch dimensions broadcast.
        p: From 0 (number of elements that differ) to infinity (largest difference).
        compute_mode: torch's names of ways to compute; the differences are always taken exactly.

    Returns:
        ``(..., P, R)``.

    Raises:
        ValueError: *compute_mode* is no such name.
        RuntimeError: Shapes do not fit; *p* is negative.

    Source:
        torch.cdist.
    """
    if compute_mode not in _CDIST_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _nn.cdist(x1, x2, p, _CDIST_MODES.index(compute_mode))


def _letter(label: int) -> str:
    """The letter of a number of einsum's sublist form."""
    if 0 <= label < 26:
        return chr(ord("A") + label)
    if 26 <= label < 52:
        return chr(ord("a") + label - 26)
    raise ValueError(f"einsum(): subscript {label} is not within the valid range [0, 52)")


def _subscripts(labels: Sequence[Any]) -> str:
    return "".join("..." if label is Ellipsis else _letter(label) for label in labels)


def _equation_and_operands(args: tuple[Any, ...]) -> tuple[str, Sequence[Tensor]]:
    """Return what `einsum` got in the first of its two forms."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(args[0], Tensor):
        operands: Sequence[Tensor] = args[0 : len(args) - len(args) % 2 : 2]
        equation = ",".join(_subscripts(labels) for labels in args[1::2])
        if len(args) % 2 == 1:
            equation += "->" + _subscripts(args[-1])
    else:
        equation, operands = args[0], args[1:]
        if len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = operands[0]
    return equation, operands


def _hand_einsum_over(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Handed:
    equation, operands = _equation_and_operands(args)
    return operands, (equation, *operands), kwargs


@overridable(hand_over=_hand_einsum_over)
def einsum(*args: Any) -> Tensor:
    """Sum products of elements over dimensions named by letters.

    Args:
        *args: ``(equation, operand, ...)`` with an equation such as ``'bij,bjk->bik'`` (the
            operands may be one list), or ``(operand, sublist, ..., [output sublist])`` with lists
            of ints below 52 and Ellipsis.

    Returns:
        The dimensions after ``->`` in that order; without ``->``, those whose letter occurs once,
        in alphabetical order, after those of the ellipsis.

    Raises:
        ValueError: There is no operand.
        RuntimeError: The equation is malformed, or sizes of one letter differ.

    Source:
        torch.einsum.
    """
    if len(args) > 2 and isinstance(args[0], str):
        return _nn.einsum(args[0], args[1:])
    equation, operands = _equation_and_operands(args)
    return _nn.einsum(equation, operands)


@overridable
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sum products over pairs of dimensions.

    Args:
        a: Any shape.
        b: Any shape, same dtype.
        dims: How many (the last of *a* with the first of *b*), or two lists of dimensions.
        out: Receives the result.

    Returns:
        The other dimensions of *a*, then those of *b*.

    Raises:
        RuntimeError: *dims* is negative or larger than a tensor has dimensions; sizes differ.

    Source:
        torch.tensordot.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(-dims, 0)), list(range(dims))
    else:
        first, second = (
            [int(d) for d in each] if isinstance(each, list | tuple) else [int(each)]
            for each in dims
        )
    if out is None:
        return _nn.tensordot(a, b, first, second)
    return _nn.tensordot(a, b, first, second, out=out)


@overridable
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    """Give the norm of vectors, or by name that of matrices.

    Args:
        input: Any shape, floating point or complex.
        p: The exponent of the vector norm, ``'fro'`` (2) or ``'nuc'`` (sum of singular values).
        dim: Dimensions of the vector, or the two of the matrix; all if absent.
        keepdim: Keep them, with size 1.
        out: Receives the result.
        dtype: Type to compute in.

    Raises:
        RuntimeError: *p* is another name; integral input.
        ValueError: *dtype* is given for the nuclear norm.

    Source:
        torch.norm.
    """
    dims = [dim] if isinstance(dim, int) else None if dim is None else list(dim)
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    if p == "nuc":
        if dtype is not None:
            raise ValueError("dtype argument is not supported in nuclear norm")
        axes = list(range(input.dim())) if dims is None else dims
        if out is None:
            return _nn.linalg_matrix_norm(input, "nuc", axes, keepdim)
        return _nn.linalg_matrix_norm(input, "nuc", axes, keepdim, out=out)
    if p == "fro" and dims is not None and len(dims) > 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dims}")
    order = 2.0 if p is None or p == "fro" else p
    options: dict[str, Any] = {"dtype": dtype} if out is None else {"dtype": dtype, "out": out}
    return _nn.linalg_vector_norm(input, order, dims or None, keepdim, **options)


@overridable
def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None
) -> tuple[Tensor, ...]:
    """Give the LU factors in one matrix, and the pivots.

    Args:
        A: ``(..., M, N)``.
        pivot: Must be true.
        get_infos: Also give the position of a zero on the diagonal of U, or 0.
        out: A tuple of tensors that receive the results.

    Returns:
        ``(LU, pivots)`` or ``(LU, pivots, infos)``.

    Source:
        torch.lu.
    """
    warn_once(
        "lu() is deprecated in favor of linalg.lu_factor(A, pivot=pivot), and with get_infos=True "
        "of linalg.lu_factor_ex()"
    )
    results: tuple[Tensor, ...] = tuple(_nn.linalg_lu_factor_ex(A, pivot=pivot))
    results = results if get_infos else results[:2]
    if out is not None:
        for target, result in zip(out, results, strict=True):
            target.resize_(result.shape).copy_(result)
        return tuple(out)
    return results


def _basis(A: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns that nearly span those of *A*.

    Source: Halko, Martinsson and Tropp, "Finding structure with randomness", 2011, algorithm 4.4.
    """
    start = shmtensor.randn(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = _nn.linalg_qr(A @ start).Q
    for _ in range(niter):
        basis = _nn.linalg_qr(A.mH @ basis).Q
        basis = _nn.linalg_qr(A @ basis).Q
    return basis


@overridable
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Approximate the *q* largest singular values and their vectors.

    Args:
        A: ``(..., m, n)``.
        q: How many, somewhat above the rank that is looked for; at most m or n are found.
        niter: Rounds of refinement.
        M: What is subtracted from *A* first; broadcasts.

    Returns:
        U ``(..., m, k)``, S ``(..., k)`` and V ``(..., n, k)`` with k = min(q, m, n).

    Raises:
        RuntimeError: *q* is negative.

    Source:
        torch.svd_lowrank.
    """
    m, n = A.shape[-2:]
    q = 6 if q is None else q
    if q < 0:
        raise RuntimeError(f"svd_lowrank(): q must not be negative, got {q}")
    q = min(q, m, n)
    if M is not None:
        A = A - M.broadcast_to(A.shape)
    if m < n:
        A = A.mH
    basis = _basis(A, q, 2 if niter is None else niter)
    u, s, vh = _nn.linalg_svd(basis.mH @ A, full_matrices=False)
    u, v = basis @ u, vh.mH
    return (v, s, u) if m < n else (u, s, v)


@overridable
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Approximate the principal components of rows.

    Args:
        A: ``(..., m, n)``, floating point.
        q: How many; the smaller of 6, m and n if absent.
        center: Subtract the mean of every column first.
        niter: Rounds of refinement.

    Returns:
        U, S and V as of `svd_lowrank`; the components are the columns of V.

    Raises:
        ValueError: *q* or *niter* is out of range; integral *A*.

    Source:
        torch.pca_lowrank.
    """
    if not (A.dtype.is_floating_point or A.dtype.is_complex):
        raise ValueError(f"input must be floating point, got {A.dtype}")
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return svd_lowrank(A, q, niter=niter)
    return svd_lowrank(A - A.mean(-2, keepdim=True), q, niter=niter)
