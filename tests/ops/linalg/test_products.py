"""einsum, tensordot, kron, distances of rows, low-rank factors: against NumPy, with derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.autograd.gradcheck import gradcheck, gradgradcheck


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def tensor(a: np.ndarray) -> Any:
    return st.from_numpy(np.array(a))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iij,jkk->ik", [(3, 3, 2), (2, 4, 4)]),
        ("i,i", [(3,), (3,)]),
        ("i,j->ij", [(3,), (4,)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("bn,anm,bm->ba", [(2, 5), (3, 5, 4), (2, 4)]),
        ("ij,ij,ij->", [(2, 3)] * 3),
        ("ij,k->k", [(2, 3), (4,)]),
        ("abc,cba->", [(2, 3, 4), (4, 3, 2)]),
        ("a...b->...", [(2, 3, 4)]),
        ("...,...", [(3,), (2, 3)]),
        ("ab,bc,cd", [(2, 3), (3, 4), (4, 5)]),
        ("i j , j -> i", [(2, 3), (3,)]),
        ("Ab,bA->A", [(2, 3), (3, 2)]),
        ("ij,jk->ik", [(2, 0), (0, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    got = st.einsum(equation, *map(tensor, operands))
    expected = np.asarray(np.einsum(equation, *operands))
    assert tuple(got.shape) == expected.shape
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


@pytest.mark.check
def test_einsum_takes_lists_and_sublists() -> None:
    a, b = tensor(random(2, 3)), tensor(random(3, 4))
    expected = (a @ b).numpy()
    np.testing.assert_allclose(st.einsum("ij,jk->ik", [a, b]).numpy(), expected)
    np.testing.assert_allclose(st.einsum(a, [0, 1], b, [1, 30], [0, 30]).numpy(), expected)
    np.testing.assert_allclose(st.einsum(a, [..., 1], b, [1, 2]).numpy(), expected)


def test_einsum_broadcasts_sizes_of_one() -> None:
    a, b = random(2, 1), random(3, 4)
    got = st.einsum("ij,jk", tensor(a), tensor(b))
    np.testing.assert_allclose(got.numpy(), a @ b.sum(0, keepdims=True))


def test_einsum_of_integers() -> None:
    a = st.arange(6).reshape(2, 3)
    assert st.einsum("ij,kj->ik", a, a).tolist() == [[5, 14], [14, 50]]


def test_einsum_derivatives() -> None:
    a, b = tensor(random(2, 3)).requires_grad_(), tensor(random(3, 2)).requires_grad_()
    assert gradcheck(lambda a, b: st.einsum("ij,jk->ki", a, b), (a, b))
    assert gradgradcheck(lambda a, b: st.einsum("ij,ji->i", a, b), (a, b))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: st.einsum("ij,jk", a), "fewer operands were provided"),
        (lambda a: st.einsum("ij", a, a), "more operands were provided"),
        (lambda a: st.einsum("i", a), "number of subscripts in the equation"),
        (lambda a: st.einsum("ij->k", a), "does not appear in the equation"),
        (lambda a: st.einsum("ij->ii", a), "appears more than once in the output"),
        (lambda a: st.einsum("ii", a), "subscript i is repeated"),
        (lambda a: st.einsum("i1", a), "invalid subscript"),
        (
            lambda a: st.einsum("ij,ji", a, a),
            "subscript i has size 3 for operand 1 which does not broadcast with previously seen "
            "size 2",
        ),
        (
            lambda a: st.einsum("ij,ij,Bj->", a[:, :1], a, a.T),
            "subscript j has size 2 for operand 2 which does not broadcast with previously seen "
            "size 3",
        ),
        (
            lambda a: st.einsum("ij,iB,iB", a, a, a[:, :2]),
            "subscript B has size 2 for operand 2 which does not",
        ),
        (
            lambda a: st.einsum("...i,...i->...", a, a.repeat(2, 1)),
            "dimension 0 covered by ellipsis in operand 1 has size 4 which does not broadcast "
            "with previously seen ellipsis with size 2",
        ),
        (lambda a: st.einsum(".ij", a), "not part of any ellipsis"),
    ],
)
def test_einsum_refuses(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call(tensor(random(2, 3)))


def test_tensordot() -> None:
    a, b = random(2, 3, 4), random(4, 3, 5)
    expected = np.tensordot(a, b, ([1, 2], [1, 0]))
    got = st.tensordot(tensor(a), tensor(b), ([1, 2], [1, 0]))
    np.testing.assert_allclose(got.numpy(), expected)
    swapped = np.ascontiguousarray(a.transpose(2, 1, 0))
    np.testing.assert_allclose(
        st.tensordot(tensor(a), tensor(swapped), 1).numpy(), np.tensordot(a, swapped, 1)
    )
    assert st.tensordot(tensor(a), tensor(b), 0).shape == (2, 3, 4, 4, 3, 5)
    out = st.empty(0, dtype=st.float64)
    assert st.tensordot(tensor(a), tensor(b), ([1, 2], [1, 0]), out=out) is out
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        st.tensordot(tensor(a), tensor(b), 1 + 1)
    with pytest.raises(RuntimeError, match="dims >= 0, but got dims=-1"):
        st.tensordot(tensor(a), tensor(b), -1)


@pytest.mark.check
@pytest.mark.parametrize(
    "shapes", [((2, 3), (4, 5)), ((2,), (3, 4)), ((2, 3, 4), (5,)), ((), (2,))]
)
def test_kron(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = random(*shapes[0]), random(*shapes[1], seed=1)
    np.testing.assert_allclose(st.kron(tensor(a), tensor(b)).numpy(), np.kron(a, b))


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, float("inf")])
def test_distances(p: float) -> None:
    a, b = random(2, 4, 3), random(2, 5, 3, seed=1)
    expected = np.linalg.norm(a[:, :, None] - b[:, None], p, axis=-1)
    np.testing.assert_allclose(st.cdist(tensor(a), tensor(b), p).numpy(), expected)
    rows, columns = np.triu_indices(4, 1)
    expected = np.linalg.norm(a[0][rows] - a[0][columns], p, axis=-1)
    np.testing.assert_allclose(st.pdist(tensor(a[0]), p).numpy(), expected)
    if p > 0:
        assert gradcheck(lambda x: st.pdist(x, p), (tensor(a[0]).requires_grad_(),))


def test_distance_gradient_of_equal_rows_is_zero() -> None:
    x = st.ones(2, 3, requires_grad=True)
    st.cdist(x, x.detach()).sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2


def test_low_rank_factors() -> None:
    st.manual_seed(0)
    a = tensor(random(8, 2) @ random(2, 6, seed=1))
    for m in (a, a.mT):
        u, s, v = st.svd_lowrank(m, 3)
        np.testing.assert_allclose(((u * s) @ v.mT).numpy(), m.numpy(), atol=1e-10)
    u, s, v = st.pca_lowrank(a, 2)
    centered = a - a.mean(0)
    np.testing.assert_allclose(((u * s) @ v.mT).numpy(), centered.numpy(), atol=1e-10)
    shapes = [tuple(t.shape) for t in st.svd_lowrank(a, 7)]
    assert shapes == [(8, 6), (6,), (6, 6)]
    assert [tuple(t.shape) for t in st.svd_lowrank(st.zeros(0, 2))] == [(0, 0), (0,), (2, 0)]
    with pytest.raises(RuntimeError, match="must not be negative, got -1"):
        st.svd_lowrank(a, -1)
    with pytest.raises(ValueError, match="not greater than min"):
        st.pca_lowrank(a, 7)


def test_lu_of_the_old_form() -> None:
    a = tensor(random(3, 3))
    factors, pivots, infos = st.lu(a, get_infos=True)
    p, l, u = st.lu_unpack(factors, pivots)
    np.testing.assert_allclose((p @ l @ u).numpy(), a.numpy())
    assert infos == 0
    assert len(a.lu()) == 2


@pytest.mark.parametrize("keepdim", [False, True])
def test_norm_by_exponent_and_by_name(keepdim: bool) -> None:
    a = random(3, 4)
    for p in ("fro", "nuc", 1, 2.5, float("inf")):
        order: Any = "nuc" if p == "nuc" else None
        whole = np.linalg.norm(a, order) if p in ("fro", "nuc") else np.linalg.norm(a.ravel(), p)
        got = tensor(a).norm(p, keepdim=keepdim)
        np.testing.assert_allclose(got.numpy(), np.reshape(whole, (1, 1) if keepdim else ()))
    out = st.empty(0, dtype=st.float64)
    assert st.norm(tensor(a), 2, 1, keepdim, out=out) is out
    np.testing.assert_allclose(out.numpy(), np.linalg.norm(a, 2, 1, keepdims=keepdim))
    with pytest.raises(RuntimeError, match="only valid string values"):
        tensor(a).norm("max")


@pytest.mark.parametrize("n", [1, 63, 64, 65, 130])
def test_einsum_of_any_number_of_operands(n: int) -> None:
    operands = [st.tensor([1.0, 2.0 if i % 10 == 0 else 1.0]) for i in range(n)]
    result = st.einsum(",".join("i" * n) + "->i", *operands)
    assert result.tolist() == [1.0, 2.0 ** len(range(0, n, 10))]
