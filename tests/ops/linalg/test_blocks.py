"""Factors and solutions of matrices that are large enough for block algorithms and threads."""

from __future__ import annotations

import numpy as np
import pytest
from peak import peak

import shmtensor

DTYPES = ["float32", "float64", "complex64", "complex128"]
FEW = ["float32", "complex128"]
SHAPES = [(90, 90), (257, 129), (130, 200)]


def normal(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.startswith("c") else x).astype(dtype)


def near(found: shmtensor.Tensor, wanted: np.ndarray, dtype: str, least: int = 1) -> None:
    """Within n units of rounding of the largest entry: the matrices here are well conditioned."""
    largest = np.abs(wanted).max(initial=0)
    bound = max(*wanted.shape, least) * np.finfo(dtype).eps * largest
    np.testing.assert_allclose(found.resolve_conj().numpy(), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_qr(threads: int, dtype: str, shape: tuple[int, int], mode: str) -> None:
    a = normal(dtype, *shape)
    q, r = shmtensor.linalg.qr(shmtensor.from_numpy(a), mode=mode)
    near(q @ r, a, dtype)
    near(q.mH @ q, np.eye(q.shape[1]), dtype)
    assert (r.tril(-1) == 0).all()
    wanted = np.linalg.qr(a, mode="complete" if mode == "complete" else "reduced")[1]
    near(r, wanted, dtype)


@pytest.mark.parametrize(
    "shape",
    [(1, 1), (16, 16), (17, 5), (5, 17), (1, 9), (9, 1), (31, 31), (64, 16), (16, 64), (33, 30)],
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [1.0, 1e-35, 1e35])
def test_qr_of_small_matrices(dtype: str, shape: tuple[int, int], factor: float) -> None:
    a = normal(dtype, 3, *shape)
    a[1, :, shape[1] // 2 :] = 0  # columns of nothing
    if dtype in ("float64", "complex128") and factor != 1:
        a *= factor**8  # squares are no numbers
    else:
        a *= np.asarray(factor, dtype)
    q, r = shmtensor.linalg.qr(shmtensor.from_numpy(a))
    full, rows = shmtensor.linalg.qr(shmtensor.from_numpy(a), mode="complete")
    packed, tau = shmtensor.geqrf(shmtensor.from_numpy(a))
    for i in range(3):
        near(q[i] @ r[i], a[i], dtype, 16)
        near(q[i].mH @ q[i], np.eye(q.shape[-1]), dtype, 16)
        near(full[i].mH @ full[i], np.eye(shape[0]), dtype, 16)
        near(full[i] @ rows[i], a[i], dtype, 16)
        wanted, taus = np.linalg.qr(a[i], mode="raw")
        near(tau[i], taus, dtype, 16)
        near(packed[i].triu(), np.triu(wanted.T), dtype, 16)


@pytest.mark.check
def test_qr_of_numbers_that_are_none_spoils_no_columns_before() -> None:
    a = normal("float64", 8, 8)
    clean = shmtensor.linalg.qr(shmtensor.from_numpy(a))[1]
    for none in (np.nan, np.inf):
        a[3, 5] = none
        r = shmtensor.linalg.qr(shmtensor.from_numpy(a))[1]
        assert (r[:, :5] == clean[:, :5]).all()
        assert not r[:6, 5].isfinite().any()


@pytest.mark.parametrize("shape", [(300, 100), (120, 120)])
@pytest.mark.parametrize("dtype", FEW)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_ormqr(
    threads: int, dtype: str, shape: tuple[int, int], left: bool, transpose: bool
) -> None:
    packed, tau = shmtensor.geqrf(shmtensor.from_numpy(normal(dtype, *shape)))
    square = shmtensor.zeros(shape[0], shape[0], dtype=packed.dtype)
    square[:, : shape[1]] = packed
    q = shmtensor.linalg.householder_product(square, tau).numpy()
    other = normal(dtype, shape[0], 40) if left else normal(dtype, 40, shape[0])
    turned = q.conj().T if transpose else q
    found = shmtensor.ormqr(packed, tau, shmtensor.from_numpy(other), left, transpose)
    near(found, turned @ other if left else other @ turned, dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("driver", "rank"), [("gelsy", None), ("gelsy", 30), ("gels", None)])
def test_least_squares(
    threads: int, dtype: str, shape: tuple[int, int], driver: str, rank: int | None
) -> None:
    m, n = shape
    a = normal(dtype, m, n)
    if m == n:
        a += np.asarray(30 * np.eye(n), dtype)
    if rank is not None:
        a = normal(dtype, m, rank) @ normal(dtype, rank, n, seed=1)
    b = normal(dtype, m, 70, seed=2)
    found = shmtensor.linalg.lstsq(
        shmtensor.from_numpy(a), shmtensor.from_numpy(b), rcond=1e-4, driver=driver
    )
    near(found.solution, np.linalg.pinv(a, rcond=1e-4) @ b, dtype)
    if driver == "gelsy":
        assert int(found.rank) == (rank or min(m, n))


@pytest.mark.parametrize("factor", [1e-35, 1e35, 0.0])
def test_least_squares_of_extreme_entries(factor: float) -> None:
    a = normal("float64", 100, 60)
    b = normal("float64", 100, 5, seed=1)
    found = shmtensor.linalg.lstsq(
        shmtensor.from_numpy((a * factor).astype(np.float32)),
        shmtensor.from_numpy((b * factor).astype(np.float32)),
    )
    wanted = np.linalg.pinv(a) @ b if factor else np.zeros((60, 5))
    near(found.solution, wanted, "float32")
    assert int(found.rank) == (60 if factor else 0)


@pytest.mark.check
def test_least_squares_of_a_singular_triangular_factor() -> None:
    a = shmtensor.zeros(60, 60)
    a[:, :30] = 1
    with pytest.raises(shmtensor.linalg.LinAlgError, match="full rank"):
        shmtensor.linalg.lstsq(a * shmtensor.eye(60), a + 1, driver="gels")


@pytest.mark.parametrize("n", [20, 64, 150])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [True, False])
def test_cholesky_inverse(threads: int, dtype: str, n: int, upper: bool) -> None:
    a = normal(dtype, n, n)
    spd = a @ a.conj().T / n + np.eye(n, dtype=a.dtype)
    low = np.linalg.cholesky(spd)
    factor = low.conj().T if upper else low
    # What stands in the other triangle is not looked at.
    other = np.tril(a, -1) if upper else np.triu(a, 1)
    found = shmtensor.cholesky_inverse(shmtensor.from_numpy(factor + other), upper)
    near(found, np.linalg.inv(spd), dtype)
    assert (found == found.mH).all()


def test_cholesky_inverse_of_a_singular_factor() -> None:
    factor = shmtensor.eye(100)
    factor[70, 70] = 0
    with pytest.raises(shmtensor.linalg.LinAlgError, match="diagonal element 71 is zero"):
        shmtensor.cholesky_inverse(factor)


N = 500
#: What is taken beside a copy of the argument: rows of its columns, that is results and T.
PEAKS = {
    "geqrf": (shmtensor.geqrf, 1),
    "qr": (shmtensor.linalg.qr, N + 32),
    "householder_product": (
        lambda a: shmtensor.linalg.householder_product(a, shmtensor.ones(N)),
        32,
    ),
    "cholesky_inverse": (shmtensor.cholesky_inverse, 1),
    "lstsq": (lambda a: shmtensor.linalg.lstsq(a, a), 2 * N + 32),
}


@pytest.mark.parametrize("name", PEAKS)
def test_memory_beside_the_result(name: str) -> None:
    a = shmtensor.eye(N) + shmtensor.ones(N, N) / 1000
    call, rows = PEAKS[name]
    # Blocks may be an eighth larger than asked for.
    assert peak(lambda: call(a)) <= (N + rows) * N * a.element_size() * 9 // 8


@pytest.mark.parametrize("dtype", FEW)
@pytest.mark.parametrize("columns", [1, 300])
@pytest.mark.parametrize("left", [True, False])
def test_solutions_by_columns(threads: int, dtype: str, columns: int, left: bool) -> None:
    n = 200
    a = normal(dtype, n, n) + np.asarray(30 * np.eye(n), dtype)
    b = normal(dtype, n, columns, seed=1) if left else normal(dtype, columns, n, seed=1)
    ours, right = shmtensor.from_numpy(a), shmtensor.from_numpy(b)

    def divided(matrix: np.ndarray) -> np.ndarray:
        return np.linalg.solve(matrix, b) if left else np.linalg.solve(matrix.T, b.T).T

    near(shmtensor.linalg.solve(ours, right, left=left), divided(a), dtype)
    found = shmtensor.linalg.solve_triangular(ours, right, upper=False, left=left)
    near(found, divided(np.tril(a)), dtype)
    if left:
        spd = a @ a.conj().T / n
        low = shmtensor.from_numpy(np.linalg.cholesky(spd))
        near(shmtensor.cholesky_solve(right, low), np.linalg.solve(spd, b), dtype)
