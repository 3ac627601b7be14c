"""Sums, products and conversions against NumPy: dtypes, threads, sizes, duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor as st

_DTYPES = {
    "float32": 1e-5,
    "float64": 1e-12,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "complex64": 1e-5,
    "complex128": 1e-12,
    "int64": 0.0,
    "int32": 0.0,
    "int8": 0.0,
    "uint8": 0.0,
}


def _random(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    nnz: int,
    dtype: str,
    dense: tuple[int, ...] = (),
) -> Any:
    indices = np.stack([rng.integers(0, n, nnz) for n in shape]) if shape else np.zeros((0, nnz))
    numbers = (
        rng.integers(-2, 3, (nnz, *dense))
        if dtype.startswith(("int", "uint"))
        else rng.normal(size=(nnz, *dense))
    )
    if dtype == "uint8":
        numbers = np.abs(numbers)
    values = st.tensor(numbers).to(getattr(st, dtype))
    return st.sparse_coo_tensor(st.tensor(indices), values, (*shape, *dense))


def _array(t: Any) -> np.ndarray[Any, Any]:
    """The elements of a sparse tensor by NumPy, in a wide dtype."""
    wide = st.complex128 if t.is_complex() else st.float64
    out = np.zeros(tuple(t.shape), complex if t.is_complex() else float)
    index = tuple(t._indices().numpy())
    values = t._values().to(wide).numpy()
    np.add.at(out, index if index else Ellipsis, values if index else values.sum(0))
    return out


def _wide(t: Any) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = t.to(st.complex128 if t.is_complex() else st.float64).numpy()
    return array


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest) -> Any:
    before = st.get_num_threads()
    st.set_num_threads(request.param)
    yield request.param
    st.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", list(_DTYPES))
@pytest.mark.parametrize(("shape", "nnz"), [((7, 5), 40), ((300, 200), 9000), ((4, 4), 0)])
@pytest.mark.parametrize("width", [1, 3, 64, 70])
def test_products_with_dense_matrices(dtype: str, shape: Any, nnz: int, width: int) -> None:
    rng = np.random.default_rng(1)
    s = _random(rng, shape, nnz, dtype)
    dense = st.tensor(rng.integers(-2, 3, (shape[1], width))).abs().to(getattr(st, dtype))
    want = _array(s) @ _wide(dense)
    scale = np.abs(want).max(initial=1)
    forms = [s, s.coalesce(), s.to_sparse_csr(), s.to_sparse_csc()]
    if dtype in ("int8", "uint8"):
        want = want.astype(np.int64).astype(dtype).astype(float)
    for form in forms:
        # Coalescing rounds sums of half-precision values, so each form has its own error.
        got = _wide(form @ dense)
        assert np.abs(got - want).max(initial=0) <= 3 * _DTYPES[dtype] * scale
        turned = dense.t().contiguous() @ form.t()
        assert np.array_equal(_wide(turned), got.T)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("dtype", list(_DTYPES))
@pytest.mark.parametrize("dense", [(), (3,), (2, 5)])
@pytest.mark.parametrize("nnz", [0, 1, 50, 20000])
def test_coalesce_and_dense_sums(dtype: str, dense: Any, nnz: int) -> None:
    rng = np.random.default_rng(2)
    s = _random(rng, (6, 9), nnz, dtype, dense)
    c = s.coalesce()
    want = _array(s)
    scale = np.abs(want).max(initial=1)
    if dtype in ("int8", "uint8"):
        want = want.astype(np.int64).astype(dtype).astype(float)
    positions = c.indices()[0] * 9 + c.indices()[1]
    assert (positions[1:] > positions[:-1]).all()
    for got in (c.to_dense(), s.to_dense(), st.zeros_like(s, layout=st.strided) + s):
        tolerance = _DTYPES[dtype] * (20 if dtype in ("float16", "bfloat16") else 3) * scale
        if dtype == "bfloat16" and nnz > 1000:
            continue  # a running sum of so many rounds too often to say more
        assert np.abs(_wide(got) - want).max(initial=0) <= tolerance


@pytest.mark.check
@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_sums_and_products_of_two_sparse_tensors(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for nnz_a, nnz_b in ((30, 20), (0, 5), (5, 0), (0, 0), (400, 400)):
        a, b = _random(rng, (8, 6), nnz_a, dtype), _random(rng, (8, 6), nnz_b, dtype)
        square = _random(rng, (6, 4), nnz_b, dtype)
        for x in (a, a.coalesce()):
            for y in (b, b.coalesce()):
                assert np.allclose(_array(x + y), _array(a) + _array(b))
                assert np.allclose(_array(x - 2 * y), _array(a) - 2 * _array(b))
                assert np.allclose(_array(x * y), _array(a) * _array(b))
        for x, y in ((a, square), (a.to_sparse_csr(), square.to_sparse_csr())):
            assert np.allclose(_wide((x @ y).to_dense()), _array(a) @ _array(square))


def test_sums_of_bools_are_or() -> None:
    s = st.sparse_coo_tensor([[0, 0, 1]], [True, True, False], (3,))
    assert s.coalesce().values().tolist() == [True, False]
    assert s.to_dense().tolist() == [True, False, False]


def test_integers_wrap_as_dense_ones_do() -> None:
    for dtype in (st.int32, st.int64, st.int8):
        top = st.iinfo(dtype).max
        s = st.sparse_coo_tensor([[0, 0]], st.tensor([top, top], dtype=dtype), (1,))
        assert s.coalesce().values().item() == -2
        assert (s.to_dense() + s).item() == -4


def test_sizes_of_zero_and_no_dimensions() -> None:
    s = st.sparse_coo_tensor(st.zeros(2, 0, dtype=st.int64), st.ones(0), (0, 3))
    assert (s @ st.ones(3, 2)).shape == (0, 2)
    assert (s.t() @ st.ones(0, 2)).tolist() == [[0.0, 0.0]] * 3
    assert (s.to_sparse_csr() @ st.ones(3, 2)).shape == (0, 2)
    assert s.coalesce()._nnz() == 0
    assert s.to_dense().shape == (0, 3)
    n = st.sparse_coo_tensor(st.zeros(0, 3, dtype=st.int64), st.tensor([1.0, 2.0, 3.0]), ())
    assert n.coalesce().values().tolist() == [6.0]
    assert n.to_dense().item() == n.item() == 6.0
    assert (n + n).to_dense().item() == 12.0
    hybrid = st.sparse_coo_tensor([[0, 1]], st.ones(2, 0), (3, 0))
    assert hybrid.to_dense().shape == (3, 0)
    assert (hybrid + hybrid).coalesce()._nnz() == 2


@pytest.mark.check
def test_operands_in_any_order_of_memory() -> None:
    rng = np.random.default_rng(4)
    s = _random(rng, (6, 8), 30, "float64")
    turned = st.sparse_coo_tensor(
        s._indices().t().contiguous().t(), s._values()[:, None].expand(30, 2)[:, 0], (6, 8)
    )
    dense = st.tensor(rng.normal(size=(5, 8))).t()
    for x in (s, turned):
        assert np.allclose(_wide(x @ dense), _array(s) @ _wide(dense))
        assert np.allclose(_wide(x @ dense[:, ::2]), _array(s) @ _wide(dense[:, ::2]))
        assert np.allclose(_wide(x.to_dense()), _array(s))
        into = st.zeros(8, 6, dtype=st.float64).t()
        into.add_(x, alpha=2)
        assert np.allclose(_wide(into), 2 * _array(s))
        assert np.allclose(
            _wide(x @ st.ones(1, 1, dtype=st.float64).expand(8, 3)), _array(s) @ np.ones((8, 3))
        )


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_linear_takes_sparse_tensors(layout: str) -> None:
    rng = np.random.default_rng(3)
    x, w, b = (st.from_numpy(rng.normal(size=size)) for size in ((3, 4), (5, 4), (5,)))
    x[x < 0] = w[w < 0] = 0
    rows = st.from_numpy(rng.normal(size=(2, 300, 4)))
    linear = st.nn.functional.linear
    for bias in (None, b):
        want = linear(x, w, bias)
        st.testing.assert_close(linear(getattr(x, layout)(), w, bias), want)
        sparse = getattr(w, layout)()
        st.testing.assert_close(linear(x, sparse, bias), want)
        st.testing.assert_close(linear(x[0], sparse, bias), want[0])
        st.testing.assert_close(linear(rows, sparse, bias), linear(rows, w, bias))
        st.testing.assert_close(
            linear(rows.transpose(0, 1), sparse, bias), linear(rows.transpose(0, 1), w, bias)
        )
    st.testing.assert_close(x[0] @ sparse.t(), x[0] @ w.t())
    st.testing.assert_close(rows @ sparse.t(), rows @ w.t())


def test_gradients_of_linear_reach_sparse_and_dense_arguments() -> None:
    layer = st.nn.Linear(4, 5)
    x = st.eye(4).to_sparse().requires_grad_()
    layer(x).sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[1.0] * 4] * 5
    assert layer.bias.grad is not None and layer.bias.grad.tolist() == [4.0] * 5
    assert x.grad is not None and x.grad._nnz() == 4


def test_batches_of_matrices() -> None:
    rng = np.random.default_rng(5)
    s = _random(rng, (3, 4, 5), 40, "float64")
    dense = st.tensor(rng.normal(size=(3, 5, 2)))
    assert np.allclose(_wide(st.bmm(s, dense)), _array(s) @ _wide(dense))
    assert np.allclose(_wide(s @ dense), _array(s) @ _wide(dense))


def test_a_result_shares_no_memory_with_its_argument() -> None:
    s = st.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2)).coalesce()
    for make in (
        lambda: s.clone(),
        lambda: s.t(),
        lambda: s * 2,
        lambda: -s,
        lambda: s.unsqueeze(0),
        lambda: s.sin(),
        lambda: s + s,
        lambda: st.ones(2, 2).sparse_mask(s),
        lambda: s.to(st.float64),
        lambda: st.sparse_coo_tensor(s._indices(), s._values(), (2, 2)).coalesce(),
    ):
        other: Any = make()
        other._values().fill_(100.0)
        other._indices().zero_()
        assert s.to_dense().tolist() == [[0.0, 1.0], [2.0, 0.0]]


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_stack_of_any_number_of_sparse_tensors(n: int) -> None:
    rows = [st.tensor([0.0, float(i)]) for i in range(n)]
    stacked = st.stack([row.to_sparse() for row in rows])
    assert st.equal(stacked.to_dense(), st.stack(rows))
