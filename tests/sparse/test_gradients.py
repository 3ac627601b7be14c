"""Gradients through sparse tensors are those of the dense computation, at the places of entries."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st

_INDICES = [[0, 2, 1, 2], [1, 0, 1, 2]]
_SHAPE = (3, 4)

#: Functions of a sparse matrix (3, 4), a dense one (4, 2) and one like it (3, 4), with a dense
#: result. `m` is the library, `layout` turns the sparse matrix into another layout.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mm": lambda m, s, b, d: s @ b,
    "sparse.mm": lambda m, s, b, d: m.sparse.mm(s, b),
    "mm_right": lambda m, s, b, d: b.t() @ s.t(),
    "dense_sparse": lambda m, s, b, d: d[:, :3].t() @ s,
    "mv": lambda m, s, b, d: s @ b[:, 0],
    "addmm": lambda m, s, b, d: m.addmm(d[:, :2], s, b, beta=0.5, alpha=2),
    "addmm_broadcast": lambda m, s, b, d: m.sparse.addmm(b[0], s, b),
    "to_dense": lambda m, s, b, d: s.to_dense() * d,
    "add": lambda m, s, b, d: d * d + s,
    "add_": lambda m, s, b, d: (d * 2).add_(s, alpha=3),
    "scaled": lambda m, s, b, d: (2 * s / 4).to_dense() * d,
    "neg": lambda m, s, b, d: (-s).to_dense() * d,
    "sum": lambda m, s, b, d: s.sum() * d,
}
_COO_ONLY: dict[str, Callable[..., Any]] = {
    "coalesce": lambda m, s, b, d: s.coalesce().values() ** 2,
    "sum_of_sparse": lambda m, s, b, d: (s + s * 3).to_dense() * d,
    "mul_dense": lambda m, s, b, d: (s * d).to_dense() * d,
    "sparse.sum": lambda m, s, b, d: m.sparse.sum(s, 0).to_dense() * d[0],
    "sparse.sum_all": lambda m, s, b, d: m.sparse.sum(s) * d,
    "softmax": lambda m, s, b, d: m.sparse.softmax(s, 1).to_dense() * d,
    "log_softmax": lambda m, s, b, d: m.sparse.log_softmax(s, 0).to_dense() * d,
    "mask": lambda m, s, b, d: (d * d).sparse_mask(s.detach()).to_dense() * d,
    "masked": lambda m, s, b, d: s.coalesce().sparse_mask(s.detach().coalesce()).to_dense() * d,
    "transpose": lambda m, s, b, d: s.t().to_dense() * d.t(),
    "permute": lambda m, s, b, d: s.permute(1, 0).to_dense() * d.t(),
    "cat": lambda m, s, b, d: m.cat([s, s * 2], 1).to_dense() * m.cat([d, d], 1),
    "csr": lambda m, s, b, d: s.coalesce().to_sparse_csr() @ b,
    "relu": lambda m, s, b, d: m.relu(s).to_dense() * d,
    "sparse_sparse": lambda m, s, b, d: (s @ s.t()).to_dense() * d[:, :3],
    "double": lambda m, s, b, d: s.double().to_dense() * d,
    "clone": lambda m, s, b, d: s.clone().to_dense() * d,
    "bmm": lambda m, s, b, d: m.bmm(m.stack([s.detach(), s.detach()]), m.stack([b, b * 2])),
}


def _gradients(
    m: Any, function: Callable[..., Any], kind: str, dtype: str, is_leaf: bool = False
) -> list[Any]:
    """The value, and gradients of the values and of both dense matrices.

    Args:
        m: The library.
        function: One of those above.
        kind: How the sparse matrix is made.
        dtype: Of everything.
        is_leaf: The sparse matrix itself is what has a gradient, not the values.
    """
    m.manual_seed(3)
    of = getattr(m, dtype)
    v = m.tensor([0.5, -1.0, 2.0, 1.5], dtype=of, requires_grad=not is_leaf)
    indices = _INDICES if kind != "repeated" else [[0, 2, 0, 2], [1, 0, 1, 2]]
    if kind == "csr":
        s = m.sparse_csr_tensor([0, 1, 2, 4], [1, 1, 0, 2], v, _SHAPE)
    else:
        s = m.sparse_coo_tensor(m.tensor(indices), v, _SHAPE)
    if is_leaf:
        s.requires_grad_()
    b = ((m.arange(8.0).reshape(4, 2) - 3) / 2).to(of).requires_grad_()
    d = ((m.arange(12.0).reshape(3, 4) - 5) / 4).to(of).requires_grad_()
    value = function(m, s, b, d)
    scale = m.arange(float(value.numel())).reshape(value.shape).to(value.dtype) + 1
    total = (value * scale).sum()
    (total.real if total.is_complex() else total).backward()
    gradient = s.grad if is_leaf else v.grad
    if gradient is not None and gradient.layout is not m.strided:
        gradient = gradient.to_dense()
    if gradient is not None and is_leaf:  # torch's is dense in places, and then has more elements
        gradient = gradient * (s.detach().to_dense() != 0)
    return [value, gradient, b.grad, d.grad]


def _same(first: list[Any], second: list[Any], tolerance: float) -> None:
    for a, b in zip(first, second, strict=True):
        if a is None or b is None:
            assert a is None
            assert b is None
            continue
        flat = [st.tensor(x.detach().reshape(-1).tolist()) for x in (a, b)]
        assert st.allclose(*flat, rtol=tolerance, atol=tolerance), (a, b)


_CASES = [(n, k) for n in _FUNCTIONS for k in ("coo", "repeated", "csr")]
_CASES += [(n, k) for n in _COO_ONLY for k in ("coo", "repeated")]


@pytest.mark.parametrize(("name", "kind"), _CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_gradients_are_torchs(name: str, kind: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    function = (_FUNCTIONS | _COO_ONLY)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = _gradients(torch, function, kind, dtype, kind == "csr")
        except (RuntimeError, NotImplementedError) as error:
            pytest.skip(f"torch refuses: {str(error)[:60]}")
        ours = _gradients(st, function, kind, dtype, kind == "csr")
    _same(ours, theirs, 1e-5 if dtype == "float32" else 1e-10)


@pytest.mark.parametrize(("name", "kind"), _CASES)
def test_gradients_are_those_of_the_dense_computation(name: str, kind: str) -> None:
    if name in ("softmax", "log_softmax", "coalesce", "mask", "bmm", "csr", "relu"):
        pytest.skip("elements without an entry count otherwise, or there is no dense form")
    function = (_FUNCTIONS | _COO_ONLY)[name]
    ours = _gradients(st, function, kind, "float64")

    class Dense:
        """The library, with a dense tensor wherever a sparse one would be made."""

        sparse = st.sparse
        addmm, cat, relu = st.addmm, st.cat, st.relu

    v = st.tensor([0.5, -1.0, 2.0, 1.5], dtype=st.float64, requires_grad=True)
    rows, columns = [0, 1, 2, 2], [1, 1, 0, 2]
    indices = st.tensor(
        [rows, columns]
        if kind == "csr"
        else _INDICES
        if kind != "repeated"
        else [[0, 2, 0, 2], [1, 0, 1, 2]]
    )
    zeros = st.zeros(_SHAPE, dtype=st.float64)
    s: Any = zeros.index_put(tuple(indices), v, accumulate=True)
    b = ((st.arange(8.0).reshape(4, 2) - 3) / 2).double().requires_grad_()
    d = ((st.arange(12.0).reshape(3, 4) - 5) / 4).double().requires_grad_()
    dense_forms: dict[str, Callable[..., Any]] = {
        "sparse.mm": lambda m, s, b, d: s @ b,
        "addmm_broadcast": lambda m, s, b, d: b[0] + s @ b,
        "sparse.sum": lambda m, s, b, d: s.sum(0) * d[0],
        "sparse.sum_all": lambda m, s, b, d: s.sum() * d,
        "masked": lambda m, s, b, d: s * d,
        "mul_dense": lambda m, s, b, d: s * d * d,
    }
    value = dense_forms.get(name, function)(Dense, s, b, d)
    scale = st.arange(float(value.numel())).reshape(value.shape).to(value.dtype) + 1
    (value * scale).sum().backward()
    _same(ours, [value, v.grad, b.grad, d.grad], 1e-10)


@pytest.mark.check
def test_the_gradient_of_a_sparse_leaf_has_its_pattern() -> None:
    for layout in (st.sparse_coo, st.sparse_csr):
        s: Any = st.sparse_coo_tensor(_INDICES, [1.0, 2.0, 3.0, 4.0], _SHAPE).coalesce()
        s = s.to_sparse(layout=layout).detach().requires_grad_()
        b = st.ones(4, 2, requires_grad=True)
        (s @ b).sum().backward()
        assert s.grad.layout is layout
        assert s.grad._nnz() == 4
        assert s.grad.to_dense().tolist() == [[0, 2, 0, 0], [0, 2, 0, 0], [2, 0, 2, 0]]
        assert st.equal(b.grad, s.detach().to_dense().sum(0)[:, None].expand(4, 2))
        (s @ b).sum().backward()
        assert s.grad.to_dense()[0, 1] == 4


def test_second_derivatives_of_a_product() -> None:
    v = st.tensor([0.5, -1.0, 2.0, 1.5], dtype=st.float64, requires_grad=True)
    b = st.rand(4, 2, dtype=st.float64, requires_grad=True)

    def value(v: Any, b: Any) -> Any:
        return st.sparse_coo_tensor(_INDICES, v, _SHAPE) @ b.sin()

    assert st.autograd.gradcheck(value, (v, b))
    assert st.autograd.gradgradcheck(value, (v, b))


@pytest.mark.check
def test_gradients_reach_values_of_compressed_matrices() -> None:
    v = st.tensor([1.0, 2.0, 3.0], requires_grad=True)
    s = st.sparse_csr_tensor([0, 1, 3], [1, 0, 1], v, (2, 2))
    (s @ st.tensor([[1.0], [10.0]])).sum().backward()
    assert v.grad.tolist() == [10.0, 1.0, 10.0]


def test_in_place_changes_are_recorded_as_with_dense_tensors() -> None:
    v = st.tensor([1.0, 2.0], requires_grad=True)
    s = st.sparse_coo_tensor([[0, 1]], v, (3,)) * 2
    s.mul_(3)
    s.to_dense().sum().backward()
    assert v.grad.tolist() == [6.0, 6.0]
    leaf = st.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        leaf.zero_()
