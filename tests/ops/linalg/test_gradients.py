"""Derivatives of linear algebra against finite differences; what is differentiable twice, twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import linalg
from shmtensor.autograd.gradcheck import gradcheck, gradgradcheck

DTYPES = ("float64", "complex128")


def random(*shape: int, dtype: str = "float64", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype == "complex128":
        values = values + 1j * rng.standard_normal(shape)
    return st.from_numpy(values).requires_grad_()


def check(function: Callable[..., Any], *inputs: Any, second: bool = True) -> None:
    assert gradcheck(function, inputs)
    if second:
        assert gradgradcheck(function, inputs)


def hermitian(a: Any) -> Any:
    return a + a.mH


def positive(a: Any) -> Any:
    return a @ a.mH + st.eye(a.shape[-1], dtype=a.dtype)


def without_phase(vectors: Any) -> Any:
    """Numbers of eigenvectors or singular vectors that do not depend on their phases."""
    return vectors.abs()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype: str, upper: bool) -> None:
    a = random(2, 3, 3, dtype=dtype)
    check(lambda x: linalg.cholesky(positive(x), upper=upper), a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_solving_with_a_cholesky_factor(dtype: str, upper: bool) -> None:
    b, a = random(3, 2, dtype=dtype), random(3, 3, dtype=dtype, seed=1)

    def factor(x: Any) -> Any:
        return linalg.cholesky(positive(x), upper=upper)

    check(lambda b, x: st.cholesky_solve(b, factor(x), upper), b, a, second=False)
    check(lambda x: st.cholesky_inverse(factor(x), upper), a, second=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
def test_solve(dtype: str, left: bool) -> None:
    a = random(2, 3, 3, dtype=dtype)
    b = random(2, 3, 2, dtype=dtype, seed=1) if left else random(2, 2, 3, dtype=dtype, seed=1)
    check(lambda a, b: linalg.solve(a, b, left=left), a, b)


@pytest.mark.check
def test_solve_with_vectors() -> None:
    check(linalg.solve, random(2, 3, 3), random(2, 3, seed=1))
    check(linalg.solve, random(2, 3, 3), random(3, seed=1), second=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(dtype: str, left: bool, adjoint: bool) -> None:
    a = random(3, 3, dtype=dtype)
    b = random(3, 2, dtype=dtype, seed=1) if left else random(2, 3, dtype=dtype, seed=1)

    def run(a: Any, b: Any) -> Any:
        lu, pivots = linalg.lu_factor(a)
        return linalg.lu_solve(lu, pivots, b, left=left, adjoint=adjoint)

    check(run, a, b, second=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unitriangular", [True, False])
def test_solve_triangular(dtype: str, left: bool, upper: bool, unitriangular: bool) -> None:
    a = random(3, 3, dtype=dtype)
    b = random(3, 2, dtype=dtype, seed=1) if left else random(2, 3, dtype=dtype, seed=1)

    def run(a: Any, b: Any) -> Any:
        a = a.triu() if upper else a.tril()
        return linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unitriangular)

    check(run, a, b, second=left)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["inv", "det", "pinv", "matrix_exp"])
def test_of_square_matrices(dtype: str, name: str) -> None:
    check(getattr(linalg, name), random(2, 3, 3, dtype=dtype), second=name != "pinv")


@pytest.mark.parametrize("rank", [1, 2])
def test_det_of_singular_matrices(rank: int) -> None:
    u, v = random(3, rank), random(rank, 3, seed=1)
    a = (u @ v).detach()
    a[2] = a[0] + a[1]
    a.requires_grad_()
    linalg.det(a).backward()
    cofactors = [
        [
            (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a.detach().numpy(), i, 0), j, 1))
            for j in range(3)
        ]
        for i in range(3)
    ]
    np.testing.assert_allclose(a.grad.numpy(), cofactors, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slogdet(dtype: str) -> None:
    check(lambda x: linalg.slogdet(x)[1], random(2, 3, 3, dtype=dtype))
    if dtype == "complex128":
        check(lambda x: linalg.slogdet(x)[0], random(3, 3, dtype=dtype), second=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_pinv_and_lstsq(dtype: str, shape: tuple[int, int]) -> None:
    a, b = random(*shape, dtype=dtype), random(shape[0], 2, dtype=dtype, seed=1)
    check(linalg.pinv, a, second=False)
    check(lambda a, b: linalg.lstsq(a, b).solution, a, b, second=False)


def test_lstsq_residuals() -> None:
    check(lambda a, b: linalg.lstsq(a, b, driver="gelsd")[:2], random(5, 3), random(5, 2, seed=1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_qr(dtype: str, shape: tuple[int, int]) -> None:
    check(linalg.qr, random(*shape, dtype=dtype))


@pytest.mark.check
def test_qr_of_mode_r_says_why_it_has_no_gradient() -> None:
    a = random(3, 3)
    with pytest.raises(RuntimeError, match="depends on Q"):
        linalg.qr(a, mode="r").R.sum().backward()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4)])
def test_lu(dtype: str, shape: tuple[int, int]) -> None:
    check(lambda a: linalg.lu(a)[1:], random(*shape, dtype=dtype))
    check(lambda a: linalg.lu_factor(a)[0], random(*shape, dtype=dtype), second=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype: str) -> None:
    a = random(2, 3, 3, dtype=dtype)

    def run(x: Any) -> Any:
        values, vectors = linalg.eigh(hermitian(x))
        return values, without_phase(vectors)

    check(run, a)
    check(lambda x: linalg.eigvalsh(hermitian(x)), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eig(dtype: str) -> None:
    a = random(3, 3, dtype=dtype)

    def run(x: Any) -> Any:
        values, vectors = linalg.eig(x)
        return values, without_phase(vectors)

    check(run, a, second=False)
    check(linalg.eigvals, a, second=False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (3, 3)])
def test_svd(dtype: str, shape: tuple[int, int]) -> None:
    a = random(*shape, dtype=dtype)

    def run(x: Any) -> Any:
        u, s, vh = linalg.svd(x, full_matrices=False)
        return without_phase(u), s, without_phase(vh), (u * s) @ vh

    check(run, a, second=shape == (3, 3))
    check(linalg.svdvals, a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_householder_product_and_ormqr(dtype: str) -> None:
    a, tau = random(4, 3, dtype=dtype), random(2, dtype=dtype, seed=1)
    check(linalg.householder_product, a, tau)
    c = random(4, 2, dtype=dtype, seed=2)
    for transpose in (False, True):
        check(
            lambda a, t, c, transpose=transpose: st.ormqr(a, t, c, transpose=transpose),
            *(a, tau, c),
            second=False,
        )


@pytest.mark.parametrize("order", [1, -1, 2, -2, float("inf"), "fro", "nuc"])
def test_matrix_norm_and_cond(order: Any) -> None:
    a = random(2, 3, 3)
    check(lambda x: linalg.matrix_norm(x, order), a, second=False)
    check(lambda x: linalg.cond(x, order), a, second=False)


def test_products() -> None:
    check(lambda a, b: linalg.multi_dot([a, b, a]), random(3, 2), random(2, 3, seed=1))
    check(linalg.cross, random(2, 3), random(2, 3, seed=1))
    check(linalg.vecdot, random(2, 3, dtype="complex128"), random(2, 3, dtype="complex128", seed=1))
    check(lambda a: linalg.matrix_power(a, 3), random(2, 2))
    check(lambda a: linalg.matrix_power(a, -2), random(2, 2))
    check(lambda a: linalg.vander(a, N=3), random(2))
