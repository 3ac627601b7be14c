"""References of linear algebra; of factorizations, what their factors must be.

Factors and eigenvectors are unique up to signs, phases and order only, so that NumPy's need not
be the library's. A property takes the results first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ops.spec.references_reduce import vector_norm
from scipy import linalg

Reference = Callable[..., Any]


def near(got: Any, want: Any, what: str) -> None:
    """Raise unless equal up to the roundings of the dtype of *got*."""
    tolerance = 1e-4 if got.dtype in (np.float32, np.complex64) else 1e-9
    size = max(float(np.max(np.abs(want), initial=0.0)), 1.0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * size, err_msg=what)


def adjoint(a: Any) -> Any:
    """The conjugate of the transpose of matrices."""
    return np.conj(np.swapaxes(a, -1, -2))


def _orthonormal(a: Any, what: str) -> None:
    near(adjoint(a) @ a, np.broadcast_to(np.eye(a.shape[-1]), (adjoint(a) @ a).shape), what)


def _lower(a: Any, what: str) -> None:
    near(a, np.tril(a), f"{what} is lower triangular")


def _upper(a: Any, what: str) -> None:
    near(a, np.triu(a), f"{what} is upper triangular")


def _unit_lower(packed: Any) -> Any:
    n = min(packed.shape[-2:])
    return np.tril(packed[..., :n], -1) + np.eye(packed.shape[-2], n, dtype=packed.dtype)


def permutation(pivots: np.ndarray, rows: int) -> np.ndarray:
    """The matrix P with PLU = A after exchanges of rows, counted from 1."""
    made = np.zeros((*pivots.shape[:-1], rows, rows))
    for place in np.ndindex(pivots.shape[:-1]):
        order = list(range(rows))
        for k, other in enumerate(pivots[place]):
            order[k], order[other - 1] = order[other - 1], order[k]
        made[place] = np.eye(rows)[order].T
    return made


def _unpacked(lu: Any, pivots: Any) -> Any:
    n = min(lu.shape[-2:])
    return (
        permutation(pivots, lu.shape[-2]).astype(lu.dtype),
        _unit_lower(lu),
        np.triu(lu[..., :n, :]),
    )


def _lu_matrix(lu: Any, pivots: Any) -> Any:
    p, lower, upper = _unpacked(lu, pivots)
    return p @ lower @ upper


def _slogdet(a: Any) -> Any:
    return tuple(np.linalg.slogdet(a))


def _logdet(a: Any) -> Any:
    sign, size = np.linalg.slogdet(a)
    return size + np.log(sign)


def _cofactors(a: Any) -> Any:
    return np.linalg.det(a)[..., None, None].conj() * adjoint(np.linalg.inv(a))


def _solve(a: Any, b: Any, *, left: bool = True, **_: Any) -> Any:
    if b.ndim == 1:
        return np.linalg.solve(a, b)
    if not left:
        return np.swapaxes(_solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    return np.linalg.solve(a, b)


def _triangle(a: Any, upper: bool, unit: bool) -> Any:
    part = np.triu(a) if upper else np.tril(a)
    return part - np.diag(np.diag(part)) + np.eye(len(a)) if unit else part


def _solve_triangular(
    a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    return _solve(_triangle(a, upper, unitriangular), b, left=left)


def _triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    matrix = _triangle(a, upper, unitriangular)
    return np.linalg.solve(matrix.T if transpose else matrix, b), a


def _of_factor(factor: Any, upper: bool) -> Any:
    half = np.triu(factor) if upper else np.tril(factor)
    return adjoint(half) @ half if upper else half @ adjoint(half)


def _lu_solve(lu: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    matrix = _lu_matrix(lu, pivots)
    return _solve(np.conj(matrix.T) if adjoint else matrix, b, left=left)


def _ldl_solve(ld: Any, pivots: Any, b: Any, *, hermitian: bool = False) -> Any:
    """Of factors without exchanges, a diagonal D and the lower L."""
    lower = np.tril(ld, -1) + np.eye(len(ld))
    other = adjoint(lower) if hermitian else lower.T
    return np.linalg.solve(lower @ np.diag(np.diag(ld)) @ other, b)


def _householder_product(a: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The product of I - tau v v^H over the columns v of the lower part of *a*."""
    made = np.eye(len(a), dtype=a.dtype)
    for k, factor in enumerate(tau):
        v = np.concatenate([np.eye(k + 1, dtype=a.dtype)[k], a[k + 1 :, k]])
        made = made @ (np.eye(len(a), dtype=a.dtype) - factor * np.outer(v, np.conj(v)))
    return made


def _householder(a: Any, tau: Any) -> Any:
    return _householder_product(a, tau)[:, : a.shape[1]]


def _ormqr(a: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    q = _householder_product(a, tau)
    q = adjoint(q) if transpose else q
    return q @ other if left else other @ q


def _eigvalsh(a: Any, uplo: str = "L", *_: Any) -> Any:
    side: Any = uplo
    return np.linalg.eigvalsh(a, side)


def _svdvals(a: Any, **_: Any) -> Any:
    return np.linalg.svd(a, compute_uv=False)


def _matrix_norm(
    a: Any, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, **_: Any
) -> Any:
    return np.linalg.norm(a, ord, tuple(dim), keepdim)


def _norm(a: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    if isinstance(dim, int) or (ord is None and dim is None):
        return vector_norm(a, 2 if ord is None else ord, dim, keepdim)
    return np.linalg.norm(a, ord, dim, keepdim)


def _cond(a: Any, p: Any = None) -> Any:
    return np.linalg.cond(a, p)


def _rank(a: Any, tol: Any = None, *, atol: Any = None, rtol: Any = None, **_: Any) -> Any:
    return np.linalg.matrix_rank(a, tol if atol is None else atol)


def _pinv(a: Any, *_: Any, **__: Any) -> Any:
    return np.linalg.pinv(a)


def _nuclear(a: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Any:
    return np.linalg.norm(a, "nuc", tuple(dim), keepdim)


def _cutoff(a: Any, largest: Any, atol: Any, rtol: Any) -> Any:
    return np.maximum(atol, rtol * largest)


def _with_info(function: Reference) -> Reference:
    return lambda a, *args, **kwargs: (
        function(a, *args, **kwargs),
        np.zeros(a.shape[:-2], np.int32),
    )


REFERENCES: dict[str, Reference] = {
    **dict.fromkeys(("det", "linalg_det"), np.linalg.det),
    **dict.fromkeys(("slogdet", "linalg_slogdet"), _slogdet),
    "logdet": _logdet,
    "_det_cofactors": _cofactors,
    **dict.fromkeys(("inverse", "linalg_inv"), np.linalg.inv),
    "linalg_inv_ex": _with_info(np.linalg.inv),
    **dict.fromkeys(("matrix_exp", "linalg_matrix_exp"), linalg.expm),
    **dict.fromkeys(("matrix_power", "linalg_matrix_power"), np.linalg.matrix_power),
    "linalg_solve": _solve,
    "linalg_solve_ex": _with_info(_solve),
    "linalg_solve_triangular": _solve_triangular,
    "triangular_solve": _triangular_solve,
    "cholesky_inverse": lambda a, upper=False: np.linalg.inv(_of_factor(a, upper)),
    "cholesky_solve": lambda b, a, upper=False: np.linalg.solve(_of_factor(a, upper), b),
    "linalg_lu_solve": _lu_solve,
    "lu_solve": lambda b, lu, pivots: _lu_solve(lu, pivots, b),
    "lu_unpack": _unpacked,
    "_pivots_to_matrix": lambda pivots, rows, dtype: permutation(pivots, rows),
    "linalg_ldl_solve": _ldl_solve,
    **dict.fromkeys(("orgqr", "linalg_householder_product"), _householder),
    "ormqr": _ormqr,
    "linalg_eigvalsh": _eigvalsh,
    "linalg_svdvals": _svdvals,
    "linalg_cond": _cond,
    "linalg_matrix_norm": _matrix_norm,
    "linalg_norm": _norm,
    "nuclear_norm": _nuclear,
    "linalg_matrix_rank": _rank,
    "linalg_pinv": _pinv,
    "pinverse": _pinv,
    "_linalg_cutoff": _cutoff,
    "_amax_or_amin": lambda a, dim, largest, keepdim: (a.max if largest else a.min)(
        axis=dim, keepdims=keepdim
    ),
    "_inverse_or_infinite": np.linalg.inv,
    "_linalg_is_vector": lambda a, b: b.ndim == 1 or b.shape == a.shape[:-1],
    "linalg_tensorinv": np.linalg.tensorinv,
    "linalg_tensorsolve": np.linalg.tensorsolve,
}


def _check_cholesky(got: list[Any], a: Any, upper: bool = False) -> None:
    factor = got[0]
    (_upper if upper else _lower)(factor, "the factor")
    near(_of_factor(factor, upper), a, "the product of the factor and its adjoint")
    assert not any(np.any(info) for info in got[1:])


def _check_lu(got: list[Any], a: Any) -> None:
    p, lower, upper = got
    _lower(lower, "L")
    _upper(upper, "U")
    near(p @ np.swapaxes(p, -1, -2), np.broadcast_to(np.eye(p.shape[-1]), p.shape), "P")
    near(np.diagonal(lower, axis1=-2, axis2=-1), np.ones(lower.shape[:-1]), "the diagonal of L")
    assert np.all(np.abs(lower) <= 1 + 1e-6), "rows are exchanged for the largest pivot"
    near(p @ lower @ upper, a, "PLU")


def _check_lu_factor(got: list[Any], a: Any) -> None:
    near(_lu_matrix(got[0], got[1]), a, "PLU")
    assert not any(np.any(info) for info in got[2:])


def _check_det(got: list[Any], a: Any) -> None:
    near(got[0], np.linalg.det(a), "the determinant")
    near(_lu_matrix(*got[1:]), a, "PLU")


def _check_slogdet(got: list[Any], a: Any) -> None:
    sign, size = np.linalg.slogdet(a)
    near(got[0], sign, "the sign")
    near(got[1], size, "the logarithm")
    near(_lu_matrix(*got[2:]), a, "PLU")


def _check_ldl(got: list[Any], a: Any, *, hermitian: bool = False) -> None:
    """Of a definite matrix: D is diagonal and there are no exchanges."""
    factor, pivots = got[:2]
    np.testing.assert_array_equal(pivots, np.arange(1, len(factor) + 1))
    lower = _unit_lower(factor)
    symmetric = np.tril(a) + np.tril(a, -1).T
    near(lower @ np.diag(np.diag(factor)) @ lower.T, symmetric, "LDL")


def _check_eigvals(got: list[Any], a: Any) -> None:
    values, want = got[0], np.linalg.eigvals(a)
    near(np.sort_complex(values), np.sort_complex(want).astype(complex), "the eigenvalues")


def _check_eig(got: list[Any], a: Any) -> None:
    values, vectors = got
    _check_eigvals([values], a)
    near(a @ vectors, vectors * values[..., None, :], "the products with the eigenvectors")
    near(np.linalg.norm(vectors, axis=-2), np.ones(values.shape), "the norms of the eigenvectors")


def _check_eigh(got: list[Any], a: Any, uplo: str = "L", *_: Any) -> None:
    values, vectors = got
    near(values, _eigvalsh(a, uplo), "the eigenvalues")
    _orthonormal(vectors, "the eigenvectors are orthonormal")
    near((vectors * values[..., None, :]) @ adjoint(vectors), a, "the product of the factors")


def _check_svd(got: list[Any], a: Any, full: bool = True, *, adjoint_v: bool = True) -> None:
    u, values, v = got
    v = v if adjoint_v else adjoint(v)
    n, m, k = *a.shape[-2:], min(a.shape[-2:])
    assert u.shape[-2:] == (n, n if full else k)
    assert v.shape[-2:] == (m if full else k, m)
    near(values, _svdvals(a), "the singular values")
    _orthonormal(u, "U is orthonormal")
    _orthonormal(adjoint(v), "V is orthonormal")
    near((u[..., :k] * values[..., None, :]) @ v[..., :k, :], a, "USV")


def _check_old_svd(got: list[Any], a: Any, some: bool = True) -> None:
    _check_svd(got, a, not some, adjoint_v=False)


def _check_qr(got: list[Any], a: Any, mode: str = "reduced") -> None:
    q, r = got
    _upper(r, "R")
    if mode == "r":
        assert q.size == 0
        near(adjoint(r) @ r, adjoint(a) @ a, "the product of R with itself")
        return
    assert q.shape[-1] == (a.shape[-2] if mode == "complete" else min(a.shape[-2:]))
    _orthonormal(q, "Q is orthonormal")
    near(q @ r, a, "QR")


def _check_geqrf(got: list[Any], a: Any) -> None:
    packed, tau = got
    q = _householder_product(packed, tau)
    _orthonormal(q, "Q is orthonormal")
    near(q @ np.triu(packed), a, "QR")


def _check_lstsq(got: list[Any], a: Any, b: Any) -> None:
    """Of the driver gelsy, which gives the rank but neither residuals nor singular values."""
    solution, _, rank, _ = np.linalg.lstsq(a, b, rcond=None)
    near(got[0], solution, "the solution")
    assert got[2] == rank
    assert got[1].size == got[3].size == 0


PROPERTIES: dict[str, Reference] = {
    **dict.fromkeys(("cholesky", "linalg_cholesky", "linalg_cholesky_ex"), _check_cholesky),
    "linalg_lu": _check_lu,
    **dict.fromkeys(("linalg_lu_factor", "linalg_lu_factor_ex"), _check_lu_factor),
    "_linalg_det": _check_det,
    "_linalg_slogdet": _check_slogdet,
    **dict.fromkeys(("linalg_ldl_factor", "linalg_ldl_factor_ex"), _check_ldl),
    **dict.fromkeys(("linalg_eigvals", "_linalg_eigvals"), _check_eigvals),
    "linalg_eig": _check_eig,
    **dict.fromkeys(("linalg_eigh", "_linalg_eigh"), _check_eigh),
    **dict.fromkeys(("linalg_svd", "_linalg_svd"), _check_svd),
    "svd": _check_old_svd,
    "linalg_qr": _check_qr,
    "qr": lambda got, a, some=True: _check_qr(got, a, "reduced" if some else "complete"),
    "geqrf": _check_geqrf,
    "linalg_lstsq": _check_lstsq,
}
