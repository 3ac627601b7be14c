"""Linear algebra against NumPy: all dtypes, batches, layouts, empty sizes, out=, errors, Meta.

Derivatives: test_gradients.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import linalg

DTYPES = ("float32", "float64", "complex64", "complex128")
SHAPES = ((5, 3), (3, 5), (4, 4), (2, 5, 3), (0, 3), (3, 0), (2, 0, 0), (0, 2, 2))


def random(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def adjoint(a: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(a, -1, -2))


def positive(*shape: int, dtype: str) -> np.ndarray:
    a = random(*shape, dtype=dtype)
    return (a @ adjoint(a) + np.eye(shape[-1])).astype(dtype)


def equal(got: Any, expected: Any) -> None:
    values = got.numpy() if isinstance(got, st.Tensor) else np.asarray(got)
    expected = np.asarray(expected)
    short = values.dtype in (np.float32, np.complex64)
    tolerance = 3e-4 if short else 1e-9
    np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance)


def tensor(a: np.ndarray) -> Any:
    return st.from_numpy(np.array(a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_solve_inv_det(dtype: str) -> None:
    a, b = random(2, 3, 4, 4, dtype=dtype), random(2, 3, 4, 2, dtype=dtype, seed=1)
    equal(linalg.solve(tensor(a), tensor(b)), np.linalg.solve(a, b))
    right = linalg.solve(tensor(a), tensor(np.swapaxes(b, -1, -2)), left=False)
    equal(right.numpy() @ a, np.swapaxes(b, -1, -2))
    equal(linalg.inv(tensor(a)), np.linalg.inv(a))
    equal(linalg.det(tensor(a)), np.linalg.det(a))
    sign, log = np.linalg.slogdet(a)
    equal(linalg.slogdet(tensor(a)).sign, sign)
    equal(linalg.slogdet(tensor(a)).logabsdet, log)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_svd(dtype: str, shape: tuple[int, ...]) -> None:
    a = random(*shape, dtype=dtype)
    k = min(shape[-2:])
    for full in (False, True):
        u, s, vh = linalg.svd(tensor(a), full_matrices=full)
        assert u.shape[-1] == (shape[-2] if full else k)
        equal((u[..., :k].numpy() * s.numpy()[..., None, :]) @ vh[..., :k, :].numpy(), a)
        equal(
            adjoint(u.numpy()) @ u.numpy(),
            np.broadcast_to(np.eye(u.shape[-1]), u.mT.shape[:-2] + (u.shape[-1],) * 2),
        )
    equal(linalg.svdvals(tensor(a)), np.linalg.svd(a, compute_uv=False))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (2, 3), (4, 7), (2, 5, 40), (70, 140)])
@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e25])
def test_svd_of_wide_matrices_of_any_size_and_magnitude(
    dtype: str, shape: tuple[int, ...], scale: float
) -> None:
    a = random(*shape, dtype=dtype)
    a[..., -1, :] = a[..., 0, :]
    m, n = shape[-2:]
    want = np.linalg.svd(a.astype("float64"), compute_uv=False)
    for full in (False, True):
        u, s, vh = linalg.svd(tensor(a * np.array(scale, dtype)), full_matrices=full)
        rows = n if full else m
        assert (u.shape[-1], vh.shape[-2:]) == (m, (rows, n))
        equal((s / scale).numpy(), want.astype(dtype))
        equal((u.numpy() * (s / scale).numpy()[..., None, :]) @ vh[..., :m, :].numpy(), a)
        equal(u.mT.numpy() @ u.numpy(), np.broadcast_to(np.eye(m), (*shape[:-2], m, m)))
        equal(vh.numpy() @ vh.mT.numpy(), np.broadcast_to(np.eye(rows), (*shape[:-2], rows, rows)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr_lu_pinv(dtype: str, shape: tuple[int, ...]) -> None:
    a = random(*shape, dtype=dtype)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(tensor(a), mode)
        equal(q.numpy() @ r.numpy(), a)
        equal(r.triu().numpy(), r.numpy())
    p, l, u = linalg.lu(tensor(a))
    equal(p.numpy() @ l.numpy() @ u.numpy(), a)
    expected = np.linalg.pinv(a) if a.size else np.zeros((*shape[:-2], shape[-1], shape[-2]))
    equal(linalg.pinv(tensor(a)), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues(dtype: str) -> None:
    a = random(2, 4, 4, dtype=dtype)
    h = a + adjoint(a)
    for letter in ("L", "U"):
        values, vectors = linalg.eigh(tensor(h), letter)
        equal(values, np.linalg.eigvalsh(h))
        equal(h @ vectors.numpy(), vectors.numpy() * values.numpy()[..., None, :])
    equal(linalg.eigvalsh(tensor(h)), np.linalg.eigvalsh(h))
    values, vectors = linalg.eig(tensor(a))
    equal(a @ vectors.numpy(), vectors.numpy() * values.numpy()[..., None, :])
    equal(linalg.eigvals(tensor(a)), values.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype: str, upper: bool) -> None:
    a, b = positive(2, 4, 4, dtype=dtype), random(2, 4, 3, dtype=dtype, seed=1)
    factor = linalg.cholesky(tensor(a), upper=upper)
    equal(
        adjoint(factor.numpy()) @ factor.numpy()
        if upper
        else factor.numpy() @ adjoint(factor.numpy()),
        a,
    )
    equal(st.cholesky_inverse(factor, upper), np.linalg.inv(a))
    equal(st.cholesky_solve(tensor(b), factor, upper), np.linalg.solve(a, b))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint_", [True, False])
def test_lu_solve(dtype: str, left: bool, adjoint_: bool) -> None:
    a = random(2, 4, 4, dtype=dtype)
    b = random(2, 4, 3, dtype=dtype, seed=1) if left else random(2, 3, 4, dtype=dtype, seed=1)
    x = linalg.lu_solve(*linalg.lu_factor(tensor(a)), tensor(b), left=left, adjoint=adjoint_)
    m = adjoint(a) if adjoint_ else a
    equal(m @ x.numpy() if left else x.numpy() @ m, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ldl(dtype: str) -> None:
    a, b = random(2, 4, 4, dtype=dtype), random(2, 4, 3, dtype=dtype, seed=1)
    h = a + adjoint(a)
    equal(
        h
        @ linalg.ldl_solve(
            *linalg.ldl_factor(tensor(h), hermitian=True), tensor(b), hermitian=True
        ).numpy(),
        b,
    )
    s = a + np.swapaxes(a, -1, -2)
    equal(s @ linalg.ldl_solve(*linalg.ldl_factor(tensor(s)), tensor(b)).numpy(), b)


@pytest.mark.check
@pytest.mark.parametrize("pivots", [[-1, 2, 3], [1, -2, 3], [1, 2, -3], [-1, -1, -1], [0, 1, 2]])
def test_pivots_that_ldl_factor_cannot_give_are_refused(pivots: list[int]) -> None:
    rows = st.tensor(pivots, dtype=st.int32)
    with pytest.raises(RuntimeError, match=r"ldl_solve: (negative )?pivots must"):
        linalg.ldl_solve(st.eye(3), rows, st.ones(3, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_lstsq(dtype: str, driver: str, shape: tuple[int, int]) -> None:
    a, b = random(*shape, dtype=dtype), random(shape[0], 2, dtype=dtype, seed=1)
    solution, residuals, rank, values = linalg.lstsq(tensor(a), tensor(b), driver=driver)
    expected = np.linalg.lstsq(a, b, rcond=None)
    equal(solution, expected[0])
    if driver != "gels":
        assert rank == min(shape)
    if driver in ("gelsd", "gelss"):
        equal(values, expected[3])
        equal(residuals, expected[1])


def test_lstsq_of_a_wider_batch_tells_ranks_of_the_matrices() -> None:
    a, b = random(2, 1, 5, 3, dtype="float64"), random(1, 4, 5, 2, dtype="float64", seed=1)
    solution, residuals, rank, values = linalg.lstsq(tensor(a), tensor(b), driver="gelsd")
    assert (solution.shape, residuals.shape) == ((2, 4, 3, 2), (2, 4, 2))
    assert rank.tolist() == [[3], [3]]
    equal(values, np.linalg.svd(a, compute_uv=False))
    assert linalg.lstsq(tensor(a[:1, 0]), tensor(b[0, :0])).rank.shape == (1,)
    with pytest.raises(RuntimeError, match="but got 2 and 3"):
        linalg.lstsq(tensor(a[0, 0]), tensor(b[0]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"])
def test_norm_and_cond(dtype: str, order: Any) -> None:
    a = random(2, 4, 4, dtype=dtype)
    expected = np.linalg.norm(a, order, axis=(-2, -1))
    equal(linalg.matrix_norm(tensor(a), order), expected)
    equal(linalg.matrix_norm(tensor(a), order, keepdim=True), expected[:, None, None])
    equal(linalg.norm(tensor(a[0]), order), expected[0])
    equal(linalg.cond(tensor(a), order), np.linalg.cond(a, order))


def test_norms_of_no_elements_are_zero() -> None:
    for order in (1, 2, np.inf, "fro", "nuc"):
        assert linalg.matrix_norm(st.zeros(2, 0, 3), order).tolist() == [0.0, 0.0]
    assert linalg.vander(st.tensor(2.0), N=3).tolist() == [[1.0, 2.0, 4.0]]


def test_matrix_norm_over_any_dims() -> None:
    a = random(3, 4, 5)
    for dims in ((0, 2), (2, 0), (1, -3)):
        for order in (1, 2, np.inf, "nuc"):
            equal(linalg.matrix_norm(tensor(a), order, dims), np.linalg.norm(a, order, axis=dims))


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_and_exponential(dtype: str) -> None:
    a = random(2, 3, 3, dtype=dtype)
    for n in (-3, -1, 0, 1, 2, 5):
        equal(linalg.matrix_power(tensor(a), n), np.linalg.matrix_power(a, n))
    values, vectors = np.linalg.eig(a.astype(np.complex128))
    expected = (vectors * np.exp(values)[..., None, :]) @ np.linalg.inv(vectors)
    equal(st.matrix_exp(tensor(a)), expected if dtype.startswith("complex") else expected.real)
    large = np.array([[0.0, 100.0], [-100.0, 0.0]])
    turned = [[np.cos(100), np.sin(100)], [-np.sin(100), np.cos(100)]]
    equal(st.matrix_exp(tensor(large)), turned)


def test_rank() -> None:
    a = random(5, 2) @ random(2, 6, seed=1)
    assert linalg.matrix_rank(tensor(a)) == 2
    assert linalg.matrix_rank(tensor(a @ a.T), hermitian=True) == 2
    assert linalg.matrix_rank(st.diag(st.tensor([3.0, 2.0, 1.0])), atol=1.5) == 2
    assert linalg.matrix_rank(st.diag(st.tensor([3.0, 2.0, 1.0])), rtol=0.5) == 2
    assert linalg.matrix_rank(st.zeros(2, 0, 3)).tolist() == [0, 0]


def test_products_of_tensors() -> None:
    a, b, c = random(3, 4), random(4, 5, seed=1), random(5, 2, seed=2)
    equal(linalg.multi_dot([tensor(a), tensor(b), tensor(c)]), a @ b @ c)
    equal(linalg.multi_dot([tensor(a[0]), tensor(b), tensor(c[:, 0])]), a[0] @ b @ c[:, 0])
    x, y = random(2, 3), random(2, 3, seed=1)
    equal(linalg.cross(tensor(x), tensor(y)), np.cross(x, y))
    equal(st.cross(tensor(x.T), tensor(y.T)), np.cross(x, y).T)
    t = random(2, 3, 6)
    equal(linalg.tensorinv(tensor(t)), np.linalg.tensorinv(t))
    equal(linalg.tensorsolve(tensor(t), tensor(x)), np.linalg.tensorsolve(t, x))
    equal(linalg.vander(tensor(x[0]), N=4), np.vander(x[0], 4, increasing=True))


def test_matrices_may_have_any_strides() -> None:
    a = random(6, 8)
    equal(linalg.inv(tensor(a)[::2, 1:7:2]), np.linalg.inv(a[::2, 1:7:2]))
    equal(linalg.svdvals(tensor(a).mT), np.linalg.svd(a, compute_uv=False))


@pytest.mark.parametrize(
    "function",
    [linalg.inv, linalg.det, linalg.cholesky_ex, linalg.svd, linalg.qr, linalg.eigh, linalg.lu],
)
def test_out_receives_the_results(function: Callable[..., Any]) -> None:
    a = tensor(positive(3, 3, dtype="float64"))
    expected = function(a)
    if isinstance(expected, st.Tensor):
        out = st.empty(0, dtype=expected.dtype)
        assert function(a, out=out) is out
        equal(out, expected.numpy())
        return
    outs = tuple(st.empty(0, dtype=t.dtype) for t in expected)
    function(a, out=outs)
    for got, wanted in zip(outs, expected, strict=True):
        equal(got, wanted.numpy())


@pytest.mark.check
def test_meta_tensors_have_the_shapes() -> None:
    a = st.empty(2, 5, 3, device="meta")
    assert [t.shape for t in linalg.svd(a)] == [(2, 5, 5), (2, 3), (2, 3, 3)]
    assert [t.shape for t in linalg.qr(a)] == [(2, 5, 3), (2, 3, 3)]
    assert linalg.pinv(a).shape == (2, 3, 5)
    assert linalg.inv(st.empty(4, 2, 2, device="meta")).shape == (4, 2, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: linalg.inv(st.zeros(3, 3)), "linalg.inv: The diagonal element 1 is zero"),
        (lambda: linalg.inv(st.zeros(2, 3, 3)), r"linalg.inv: \(Batch element 0\): The diagonal"),
        (lambda: linalg.solve(st.zeros(3, 3), st.ones(3)), "the input matrix is singular"),
        (lambda: linalg.cholesky(-st.eye(3)), "leading minor of order 1 is not positive-definite"),
        (lambda: linalg.svd(st.full((2, 2), float("nan"))), "non-finite values"),
        (lambda: linalg.lu_factor(st.zeros(2, 2)), r"U\[1,1\] is zero"),
        (lambda: linalg.tensorinv(st.zeros(2, 2), 1), "tensorinv: The diagonal element 1 is zero"),
    ],
)
def test_matrices_without_an_answer(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(linalg.LinAlgError, match=text):
        call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: linalg.inv(st.zeros(2, 3)), "batches of square matrices, but they are 2 by 3"),
        (lambda: linalg.svd(st.zeros(3)), "must have at least 2 dimensions"),
        (lambda: linalg.det(st.zeros(3, 3, dtype=st.int64)), "Got Long"),
        (lambda: linalg.inv(st.zeros(3, 3, dtype=st.float16)), "Low precision dtypes"),
        (lambda: linalg.slogdet(st.zeros(0, 0, dtype=st.bfloat16)), "Low precision dtypes"),
        (lambda: linalg.matrix_norm(st.zeros(2, 2).half(), 2), "matrix_norm: Low precision"),
        (lambda: st.logdet(st.zeros(2, 2, dtype=st.int64)), "logdet: Expected a floating point"),
        (lambda: linalg.vander(st.zeros(2, dtype=st.complex32)), "but got ComplexHalf"),
        (lambda: linalg.solve(st.eye(2), st.tensor(1.0)), "B must have at least 2 dimensions"),
        (lambda: linalg.cross(st.ones(3), st.ones(3, dtype=st.float64)), "Float but found Double"),
        (lambda: linalg.qr(st.zeros(3, 3), "thin"), "unrecognized mode 'thin'"),
        (lambda: linalg.eigh(st.eye(3), "X"), "'L' or 'U', but got X"),
        (lambda: linalg.solve(st.eye(3), st.ones(2)), "Incompatible shapes"),
        (lambda: linalg.matrix_norm(st.eye(3), 3), "Order 3 not supported"),
        (
            lambda: linalg.lu_solve(st.eye(2), st.tensor([1, 5], dtype=st.int32), st.ones(2, 1)),
            "got 5",
        ),
        (lambda: linalg.cross(st.ones(2), st.ones(2)), "must have length 3"),
        (lambda: linalg.eig(st.full((2, 2), float("inf"))), "infs or NaNs"),
    ],
)
def test_arguments_that_do_not_fit(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


@pytest.mark.parametrize("dtype", [st.float16, st.bfloat16, st.complex32])
@pytest.mark.parametrize("shape", [(0, 0), (0, 2, 2), (2, 0, 0)])
def test_empty_matrices_may_have_16_bit_dtypes(dtype: st.dtype, shape: tuple[int, ...]) -> None:
    a = st.zeros(shape, dtype=dtype)
    real = a.real.dtype
    assert linalg.cholesky(a).dtype == st.cholesky(a).dtype == dtype
    assert linalg.det(a.real).shape == shape[:-2]
    assert [t.dtype for t in linalg.svd(a)] == [dtype, real, dtype]
    assert [t.dtype for t in linalg.eigh(a)] == [real, dtype]
    assert [t.shape for t in linalg.lu(a)] == [shape] * 3
    assert linalg.solve(a, a).shape == linalg.ldl_factor(a).LD.shape == shape
    for p in (None, 1, "fro", "nuc"):
        condition = linalg.cond(a, p)
        assert condition.dtype == real
        assert condition.shape == shape[:-2]


@pytest.mark.parametrize(
    ("call", "routine"),
    [
        (linalg.cholesky, "cholesky_cpu"),
        (linalg.det, "lu_cpu"),
        (linalg.eigvals, "linalg_eig_out_cpu"),
        (linalg.qr, "geqrf_cpu"),
        (linalg.svdvals, "linalg_svd_cpu"),
        (lambda a: linalg.solve(a, a), "lu_cpu"),
        (linalg.ldl_factor, "ldl_factor_kernel_cpu"),
        (lambda a: st.cholesky(a.to(st.int64)), "cholesky_cpu"),
    ],
)
def test_routines_that_refuse_16_bit_dtypes(call: Callable[[Any], Any], routine: str) -> None:
    with pytest.raises(NotImplementedError, match=f'"{routine}" not implemented for'):
        call(st.eye(2).half())


def test_condition_of_a_singular_matrix_is_infinite() -> None:
    a = st.ones(2, 2)
    assert [linalg.cond(a, p).item() for p in (1, "fro")] == [float("inf")] * 2
    assert linalg.cond(st.zeros(2, 2), "nuc").isnan().item()
    regular = tensor(random(2, 3, 3))
    equal(linalg.cond(regular, "nuc"), np.linalg.cond(regular.numpy(), "nuc"))


def test_lu_of_a_singular_matrix_is_given() -> None:
    factors, pivots = st.lu(st.zeros(2, 2))
    assert factors.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert pivots.tolist() == [1, 2]


def test_strides_of_results() -> None:
    turned = st.ones(3, 3).t()
    assert st.matrix_power(turned.contiguous().t(), 1).stride() == (3, 1)
    assert linalg.qr(st.ones(3, 0), "complete").Q.stride() == (1, 3)
    assert [t.stride() for t in st.svd(st.ones(3, 2), compute_uv=False)] == [(1, 3), (1,), (1, 2)]


def test_triangular_solve_copies_a_coefficient_for_each_solution() -> None:
    b, a = tensor(random(2, 3, 1)), tensor(np.triu(random(3, 3)) + 3 * np.eye(3))
    solution, copy = st.triangular_solve(b, a)
    assert solution.shape == (2, 3, 1)
    equal(copy, np.stack([a.numpy()] * 2))


def test_frobenius_norm_writes_into_out() -> None:
    out = st.empty(3)
    assert st.frobenius_norm(st.ones(3, 4), 1, out=out) is out
    assert out.tolist() == [2.0, 2.0, 2.0]
