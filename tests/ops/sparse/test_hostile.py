"""Indices, sizes and storages that are wrong, or become wrong after a tensor was made of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor as st

_HUGE = (2**62, 2**63 - 1, 2**40, -1, -(2**63), 0, 1, 7)


def _uses() -> dict[str, Callable[[Any], Any]]:
    """Everything that looks at indices of a (4, 5) matrix in coordinate format."""
    dense, wide, column = st.ones(4, 5), st.ones(5, 3), st.ones(5)
    other = st.sparse_coo_tensor([[0], [1]], [1.0], (4, 5))
    return {
        "coalesce": lambda t: t.coalesce(),
        "to_dense": lambda t: t.to_dense(),
        "csr": lambda t: t.to_sparse_csr(),
        "mm": lambda t: t @ wide,
        "mm_right": lambda t: wide.t() @ t.t(),
        "mv": lambda t: t @ column,
        "sparse_mm": lambda t: t @ t.t(),
        "addmm": lambda t: st.addmm(st.ones(4, 3), t, wide),
        "add": lambda t: dense + t,
        "add_": lambda t: dense.clone().add_(t),
        "sum_of_sparse": lambda t: t + other,
        "merge": lambda t: other + t,
        "mul_dense": lambda t: t * dense,
        "mul_sparse": lambda t: t * other,
        "mul_by": lambda t: other * t,
        "mask": lambda t: dense.sparse_mask(t),
        "masked": lambda t: t.sparse_mask(other),
        "sum": lambda t: st.sparse.sum(t, 0),
        "softmax": lambda t: st.sparse.softmax(t, 1),
        "select": lambda t: t[1],
        "index_select": lambda t: t.index_select(1, st.tensor([0, 1])),
        "cat": lambda t: st.cat([t, other]),
        "sin": lambda t: t.sin(),
        "any": lambda t: t.any(),
        "norm": lambda t: t.norm(),
        "backward": lambda t: (t.requires_grad_() @ wide).sum().backward(),
    }


def _broken(index: int) -> Any:
    """A tensor whose index was fine when it was made, and is another one now."""
    t = st.sparse_coo_tensor([[0, 3, 1], [1, 4, 0]], [1.0, 2.0, 3.0], (4, 5))
    t._indices()[1, 1] = index
    return t


@pytest.mark.parametrize("name", list(_uses()))
@pytest.mark.parametrize("index", [5, -1, 2**62, -(2**63), 2**63 - 1])
def test_an_index_that_was_changed_is_reported_by_its_use(name: str, index: int) -> None:
    with pytest.raises(RuntimeError, match=r"found negative index|but found index"):
        _uses()[name](_broken(index))


@pytest.mark.parametrize("name", list(_uses()))
def test_the_same_uses_accept_what_is_in_range(name: str) -> None:
    _uses()[name](_broken(2))


@pytest.mark.parametrize("part", ["indices", "values"])
@pytest.mark.parametrize("name", list(_uses()))
def test_a_storage_that_was_shrunk_is_reported(name: str, part: str) -> None:
    t = st.sparse_coo_tensor([[0, 3, 1], [1, 4, 0]], [1.0, 2.0, 3.0], (4, 5))
    getattr(t, f"_{part}")().untyped_storage().resize_(4)
    with pytest.raises(RuntimeError, match="their storage was resized to 4"):
        _uses()[name](t)


@pytest.mark.check
def test_changes_of_the_given_tensors_headers_do_not_reach_the_tensor() -> None:
    indices, values = st.tensor([[0, 1], [1, 0]]), st.tensor([1.0, 2.0])
    t = st.sparse_coo_tensor(indices, values, (2, 2))
    indices.resize_(2, 1)
    values.data = st.zeros(0)
    assert t._nnz() == 2
    assert t.to_dense().tolist() == [[0.0, 1.0], [2.0, 0.0]]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.crow_indices().__setitem__(1, 2**62),
        lambda t: t.crow_indices().__setitem__(0, 1),
        lambda t: t.crow_indices().__setitem__(3, 2),
        lambda t: t.crow_indices().__setitem__(2, -5),
        lambda t: t.col_indices().__setitem__(0, 3),
        lambda t: t.col_indices().__setitem__(2, -1),
        lambda t: t.col_indices().__setitem__(1, -(2**63)),
    ],
)
@pytest.mark.parametrize("layout", [st.sparse_csr, st.sparse_csc])
def test_compressed_indices_are_looked_at_when_they_are_used(change: Any, layout: Any) -> None:
    t: Any = st.eye(3).to_sparse_csr()
    change(t)
    if layout is st.sparse_csc:
        t = t.t()
    wide = st.ones(3, 2)
    uses: list[Callable[[], Any]] = [
        lambda: t @ wide,
        lambda: t.to_dense(),
        lambda: t.to_sparse(),
        lambda: t + t,
        lambda: wide.t() @ t,
        lambda: t * st.ones(3, 3),
        lambda: t[0],
        lambda: st.ones(3, 3).sparse_mask(t),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match="is not satisfied"):
            use()


def test_sizes_of_every_kind_are_refused_or_work() -> None:
    for sizes in itertools.product(_HUGE, repeat=2):
        for nnz in (0, 1):
            indices = st.zeros(2, nnz, dtype=st.int64)
            try:
                t = st.sparse_coo_tensor(indices, st.ones(nnz), sizes)
            except RuntimeError:
                continue
            assert t.shape == sizes
            for use in (
                lambda t: t.coalesce(),
                lambda t: t + t,
                lambda t: t.t(),
                lambda t: t.sin(),
                lambda t: st.sparse.sum(t, 1),
                lambda t: st.sparse.sum(t, 0),
            ):
                try:
                    use(t)
                except RuntimeError:
                    assert nnz == 1  # the index may be outside
                    assert 0 in sizes


@pytest.mark.parametrize("seed", range(8))
def test_random_parts_are_refused_or_used_within_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = 0
    for _ in range(300):
        sparse_dim, nnz, dense_dim = rng.integers(0, 4), rng.integers(0, 4), rng.integers(0, 3)
        dense_sizes = tuple(rng.integers(0, 4, size=dense_dim))
        # One in three of each part is anything.
        shape = (sparse_dim, nnz) if rng.random() < 0.7 else tuple(rng.integers(0, 4, size=3))
        indices = rng.integers(-1, 4, size=shape)
        rows = (nnz, *dense_sizes) if rng.random() < 0.7 else tuple(rng.integers(0, 4, size=2))
        values = rng.normal(size=rows)
        size = [int(n) for n in rng.choice([0, 1, 2, 3, 3, 3, 4, 2**40, -1], sparse_dim)]
        size += [int(n) for n in dense_sizes] if rng.random() < 0.7 else [3]
        use_size = rng.random() < 0.7
        is_coalesced = [None, True, False][rng.integers(0, 3)]
        try:
            t = st.sparse_coo_tensor(
                st.tensor(indices),
                st.tensor(values),
                size if use_size else None,
                is_coalesced=is_coalesced,
            )
        except (RuntimeError, IndexError, ValueError):
            continue
        made += 1
        for use in (
            lambda t: t.coalesce(),
            lambda t: t.to_dense() if t.numel() < 10**6 else None,
            lambda t: t + t,
            lambda t: t * 2,
            lambda t: t * t,
            lambda t: t.clone(),
            lambda t: repr(t),
            lambda t: t.unsqueeze(0),
            lambda t: t.index_select(0, st.tensor([0])),
            lambda t: t.sum(),
            lambda t: t.transpose(0, 1),
        ):
            try:
                use(t)
            except (RuntimeError, IndexError):
                continue
    assert made > 5


def test_a_false_promise_to_be_coalesced_stays_within_bounds() -> None:
    t = st.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0], (2,), is_coalesced=True)
    assert t.to_dense().tolist() == [2.0, 4.0]
    assert (st.zeros(2) + t).tolist() == [2.0, 4.0]
    (t + t).to_dense()
    t.sparse_mask(t)
    with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
        st.sparse_coo_tensor(
            [[1, 0, 1]], [1.0, 2.0, 3.0], (2,), is_coalesced=True, check_invariants=True
        )


@pytest.mark.check
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([[5]], [1.0], (2,)), "for dim 0, size is 2 but found index 5"),
        (([[-1]], [1.0], (2,)), "found negative index -1 for dim 0"),
        (([[0, 1]], [1.0], (2,)), "same nnz, but got nnz from indices: 2, nnz from values: 1"),
        (([[0, 1]], [1.0, 2.0], (2, 2)), "'len\\(size\\) == sparse_dim \\+ dense_dim'"),
        (
            ([[0]], [[1.0, 2.0]], (2, 3)),
            r"values has incorrect size, expected \[1, 3\], got \[1, 2\]",
        ),
        (([[0]], [1.0], (2**62, 2**62)), "len\\(size\\)|numel: integer multiplication overflow"),
    ],
)
def test_constructors_say_what_is_wrong(arguments: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        st.sparse_coo_tensor(*arguments, check_invariants=True)


def test_invariants_are_checked_where_the_program_wants_it() -> None:
    check = st.sparse.check_sparse_tensor_invariants
    assert not check.is_enabled()
    st.sparse_coo_tensor([[5]], [1.0], (2,))
    with check(), pytest.raises(RuntimeError, match="found index 5"):
        st.sparse_coo_tensor([[5]], [1.0], (2,))
    assert not check.is_enabled()
    check.enable()
    try:
        with check(False):
            st.sparse_coo_tensor([[5]], [1.0], (2,))
        with pytest.raises(RuntimeError, match="0 <= col_indices < ncols"):
            st.sparse_csr_tensor([0, 1], [7], [1.0], (1, 2))
    finally:
        check.disable()

    @check()
    def make() -> Any:
        return st.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0], (1, 2))

    with pytest.raises(RuntimeError, match="are sorted and distinct"):
        make()


def test_many_dimensions_are_refused() -> None:
    with pytest.raises(RuntimeError):
        st.sparse_coo_tensor(st.zeros(65, 0, dtype=st.int64), st.ones(0), [1] * 65)
    t = st.sparse_coo_tensor(st.zeros(62, 1, dtype=st.int64), st.ones(1), [1] * 62)
    assert t.coalesce().to_dense().numel() == 1
    with pytest.raises(RuntimeError):
        st.sparse_coo_tensor(
            st.zeros(40, 1, dtype=st.int64), st.ones([1] * 40), [1] * 79, check_invariants=True
        )
