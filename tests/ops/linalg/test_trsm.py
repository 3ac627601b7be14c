"""Solving with triangular matrices: all layouts and sides, blocks, and what must not be read."""

from __future__ import annotations

import numpy as np
import pytest
from levels import LEVELS, found_at
from ops.linalg import triangular_solves as triangles
from peak import peak

import shmtensor

DTYPES = ["float32", "float64", "complex64", "complex128"]
FEW = ["float32", "complex128"]
#: Rows: of parts of a block, of blocks, and of several that are joined by products.
ROWS = [3, 46, 256, 530]


def normal(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


def square(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    """Return matrices whose triangles are well conditioned."""
    n = shape[-1]
    a = normal(dtype, *shape, n, seed=seed) / np.asarray(2 * np.sqrt(n), dtype)
    return a + np.asarray(2 * np.eye(n), dtype)


def triangle_of(a: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    t = np.triu(a) if upper else np.tril(a)
    if unit:
        i = np.arange(a.shape[-1])
        t[..., i, i] = 1
    return t


def check(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """A small change of *a*, of n units of rounding, makes *x* the solution of ax = b."""
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    rest = np.abs(a.astype(wide) @ x.astype(wide) - b.astype(wide))
    # Products of complex numbers round several times.
    units = (4 if np.iscomplexobj(a) else 1) * (a.shape[-1] + 1)
    assert (rest <= units * np.finfo(a.dtype).eps * (np.abs(a) @ np.abs(x))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_residual_is_as_small_as_rounding(
    threads: int, dtype: str, n: int, upper: bool, left: bool, unit: bool
) -> None:
    a = square(dtype, n)
    if unit:
        a /= 2
    for columns in (1, 37):
        b = normal(dtype, n, columns, seed=1)
        x = shmtensor.linalg.solve_triangular(
            shmtensor.from_numpy(a),
            shmtensor.from_numpy(b if left else b.T.copy()),
            upper=upper,
            left=left,
            unitriangular=unit,
        ).numpy()
        t = triangle_of(a, upper, unit)
        check(x if left else x.T, t if left else t.T, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [7, 40, 300])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_layouts(dtype: str, n: int, upper: bool, left: bool) -> None:
    b = normal(dtype, n, 21, seed=1) if left else normal(dtype, 21, n, seed=1)
    a = square(dtype, n)
    wanted = shmtensor.linalg.solve_triangular(
        shmtensor.from_numpy(a), shmtensor.from_numpy(b), upper=upper, left=left
    )

    def spread(x: np.ndarray) -> shmtensor.Tensor:
        wide = shmtensor.full((2 * x.shape[0], 3 * x.shape[1]), float("nan"), dtype=wanted.dtype)
        wide[1::2, 2::3] = shmtensor.from_numpy(x)
        return wide[1::2, 2::3]

    def layouts(x: np.ndarray) -> list[shmtensor.Tensor]:
        columns = shmtensor.from_numpy(x.T.copy())
        return [columns.T, spread(x), spread(x.T).T, shmtensor.from_numpy(x.conj()).conj()]

    for triangle in layouts(a):
        for right in layouts(b):
            found = shmtensor.linalg.solve_triangular(triangle, right, upper=upper, left=left)
            assert found.stride() == wanted.stride()
            largest = wanted.abs().max().item()
            assert (found - wanted).abs().max() <= n * np.finfo(dtype).eps * largest


@pytest.mark.parametrize("dtype", FEW)
@pytest.mark.parametrize(
    "sizes", [((4,), (4,)), ((), (3, 2)), ((3, 2), ()), ((3, 1), (2,)), ((1,), (5,))]
)
@pytest.mark.parametrize("n", [5, 40])
def test_batches_are_spread(
    threads: int, dtype: str, sizes: tuple[tuple[int, ...], tuple[int, ...]], n: int
) -> None:
    a, b = square(dtype, *sizes[0], n), normal(dtype, *sizes[1], n, 9, seed=1)
    ours, right = shmtensor.from_numpy(a), shmtensor.from_numpy(b)
    x = shmtensor.linalg.solve_triangular(ours, right, upper=True)
    check(x.numpy(), np.triu(a), b)
    check(shmtensor.linalg.solve(ours, right).numpy(), a, b)


@pytest.mark.check
def test_one_matrix_many_times_over() -> None:
    a, b = square("float32", 9), normal("float32", 2, 3, 9, 4, seed=1)
    many = shmtensor.from_numpy(a).expand(2, 3, 9, 9)
    x = shmtensor.linalg.solve_triangular(many, shmtensor.from_numpy(b), upper=False)
    check(x.numpy(), np.tril(a), b)
    x = shmtensor.linalg.solve_triangular(many, shmtensor.from_numpy(b[0, 0]), upper=True)
    check(x.numpy(), np.triu(a), np.broadcast_to(b[0, 0], b.shape))


@pytest.mark.parametrize("dtype", FEW)
@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_other_elements_are_not_looked_at(dtype: str, n: int, upper: bool, unit: bool) -> None:
    a = square(dtype, n) / 2
    b = normal(dtype, n, 3, seed=1)
    hidden = np.where(triangle_of(np.ones_like(a), upper, False) == 0, np.nan, a).astype(dtype)
    if unit:
        np.fill_diagonal(hidden, np.nan)
    x = shmtensor.linalg.solve_triangular(
        shmtensor.from_numpy(hidden), shmtensor.from_numpy(b), upper=upper, unitriangular=unit
    )
    check(x.numpy(), triangle_of(a, upper, unit), b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_badly_conditioned_triangular_matrices_have_small_residuals(dtype: str) -> None:
    n = 300
    a = np.tril(normal(dtype, n, n)) * np.asarray(np.logspace(0, -6, n)[:, None], dtype)
    a[np.arange(n), np.arange(n)] = np.asarray(np.logspace(0, -6, n), dtype)
    b = (a @ np.ones((n, 5), dtype)).astype(dtype)
    a /= np.asarray(np.maximum(1, np.abs(a).sum(1, keepdims=True)), dtype)
    x = shmtensor.linalg.solve_triangular(
        shmtensor.from_numpy(a), shmtensor.from_numpy(b), upper=False
    ).numpy()
    assert np.isfinite(x).all()
    check(x, a, b)


def test_quotients_are_rounded_once() -> None:
    b = shmtensor.arange(1.0, 200.0)[:, None]
    a = shmtensor.arange(1.0, 200.0).diag()
    assert (shmtensor.linalg.solve_triangular(a, b * 3, upper=False) == 3).all()
    small = shmtensor.tensor([[1e-41]])  # its reciprocal is infinite
    assert shmtensor.linalg.solve_triangular(small, small, upper=False).item() == 1


@pytest.mark.check
def test_zero_on_the_diagonal_makes_infinities() -> None:
    a = shmtensor.tensor([[2.0, 0], [1, 0]])
    x = shmtensor.linalg.solve_triangular(a, shmtensor.ones(2, 1), upper=False)
    assert x.flatten().tolist() == [0.5, float("inf")]


@pytest.mark.parametrize("shape", [(0, 0, 3), (4, 4, 0), (0, 5, 2)])
def test_nothing_to_solve(shape: tuple[int, int, int]) -> None:
    if shape[0] == shape[1]:
        a, b = shmtensor.ones(shape[0], shape[0]), shmtensor.ones(shape[1], shape[2])
    else:
        a, b = shmtensor.ones(0, 5, 5), shmtensor.ones(shape)
    assert shmtensor.linalg.solve_triangular(a, b, upper=True).shape == b.shape


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [12, 300])
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_solve(threads: int, dtype: str, n: int, upper: bool) -> None:
    a, b = square(dtype, n), normal(dtype, n, 45, seed=1)
    factor = triangle_of(a, upper, False)
    other = triangle_of(a, not upper, False)
    x = shmtensor.cholesky_solve(
        shmtensor.from_numpy(b),
        shmtensor.from_numpy(factor + other - a * np.eye(n, dtype=dtype)),
        upper,
    ).numpy()
    product = factor.conj().T @ factor if upper else factor @ factor.conj().T
    wanted = np.linalg.solve(product, b)
    np.testing.assert_allclose(
        x, wanted, rtol=0, atol=20 * n * np.finfo(dtype).eps * np.abs(wanted).max()
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [12, 300])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve(threads: int, dtype: str, n: int, left: bool, adjoint: bool) -> None:
    a = normal(dtype, n, n)
    b = normal(dtype, n, 35, seed=1) if left else normal(dtype, 35, n, seed=1)
    factors = shmtensor.linalg.lu_factor(shmtensor.from_numpy(a))
    x = shmtensor.linalg.lu_solve(
        *factors, shmtensor.from_numpy(b), left=left, adjoint=adjoint
    ).resolve_conj()
    op = a.conj().T if adjoint else a
    wanted = np.linalg.solve(op, b) if left else np.linalg.solve(op.T, b.T).T
    bound = 10 * np.linalg.cond(a) * np.finfo(dtype).eps * np.abs(wanted).max()
    np.testing.assert_allclose(x.numpy(), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (9,), (33,), (300,), (70, 6), (2, 3, 20), (530,)])
def test_inverse(threads: int, dtype: str, shape: tuple[int, ...]) -> None:
    a = normal(dtype, *shape, shape[-1])
    found = shmtensor.linalg.inv(shmtensor.from_numpy(a)).numpy()
    wanted = np.linalg.inv(a.astype(np.complex128 if dtype.startswith("c") else np.float64))
    conditions = np.linalg.cond(a)[..., None, None]
    largest = np.abs(wanted).max((-1, -2), keepdims=True)
    assert (np.abs(found - wanted) <= 10 * conditions * np.finfo(dtype).eps * largest).all()


def test_memory_is_that_of_the_result() -> None:
    n = 250
    a, b = shmtensor.eye(n), shmtensor.ones(4, n, n)
    most = 4 * n * n * b.element_size() * 9 // 8
    upper = {"upper": True}
    assert peak(lambda: shmtensor.linalg.solve_triangular(a, b, **upper)) <= most
    assert peak(lambda: shmtensor.linalg.solve_triangular(a.T, b.mT, **upper)) <= most
    assert peak(lambda: shmtensor.cholesky_solve(b, a)) <= most


@pytest.mark.parametrize("level", LEVELS)
def test_every_level(level: str) -> None:
    for dtype, largest in found_at(level, triangles).items():
        assert largest <= (4 if dtype.startswith("c") else 1)


@pytest.mark.parametrize("transpose", [False, True])
def test_triangular_solve_makes_its_results_and_no_more(transpose):
    a = shmtensor.randn(200, 200, dtype=shmtensor.float64) + 20 * shmtensor.eye(200)
    b = shmtensor.randn(200, 200, dtype=shmtensor.float64)
    for given in (a, a.mT.contiguous().mT):
        call = lambda t=given: shmtensor.triangular_solve(b, t, transpose=transpose)  # noqa: E731
        assert peak(call) <= 2 * 200 * 200 * 8 * 9 // 8
        x, copy = call()
        matrix = given.triu().mT if transpose else given.triu()
        assert (matrix @ x - b).abs().max() <= 1e-10
        assert copy.equal(given)
        assert copy.stride() == (1, 200)
        assert copy.data_ptr() != given.data_ptr()
