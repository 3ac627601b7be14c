"""Old-style constructors of sparse tensors, `resize_as_`, ``sparse_coo_tensor(size=)``, sums."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import shmtensor as st


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.check
def test_old_constructor_takes_indices_values_and_a_size() -> None:
    indices, values = st.tensor([[0, 1], [1, 0]]), st.tensor([1.0, 2.0])
    made = st.sparse.FloatTensor(indices, values, st.Size([2, 3]))
    assert made.layout is st.sparse_coo
    assert made.to_dense().tolist() == [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]]
    assert st.sparse.FloatTensor(indices, values).shape == (2, 2)
    assert st.sparse.FloatTensor(indices, values, (2, 3)).shape == (2, 3)
    assert st.sparse.FloatTensor(indices, values.double()).dtype is st.float64
    assert made.new(indices, values, st.Size([4, 4])).shape == (4, 4)


def test_old_constructor_takes_sizes() -> None:
    for made in (st.sparse.LongTensor(2, 3), st.sparse.LongTensor(st.Size([2, 3]))):
        assert (made.shape, made.dtype, made._nnz()) == ((2, 3), st.int64, 0)
    assert st.sparse.FloatTensor().shape == (0,)
    made = st.eye(2).to_sparse().new(2, 3)
    assert made.is_sparse
    assert made.to_dense().tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("args", [([2, 3],), ("a",), (st.eye(2),), (st.eye(2), 3), (1.5,)])
def test_old_constructor_refuses_other_arguments(args: Any) -> None:
    with pytest.raises(TypeError, match=r"new\(\)"):
        st.sparse.FloatTensor(*args)
    with pytest.raises(RuntimeError, match="device"):
        st.sparse.FloatTensor(2, device="cuda")


def test_old_classes_are_types() -> None:
    one = st.eye(2).to_sparse()
    assert isinstance(one, st.sparse.FloatTensor)
    assert not isinstance(one, st.sparse.DoubleTensor)
    assert not isinstance(st.eye(2), st.sparse.FloatTensor)
    assert one.type(st.sparse.DoubleTensor).dtype is st.float64
    assert (st.sparse.FloatTensor.dtype, st.sparse.FloatTensor.layout) == (
        st.float32,
        st.sparse_coo,
    )


def test_size_alone_makes_a_tensor_without_entries() -> None:
    made = st.sparse_coo_tensor(size=(2, 3), dtype=st.int64, requires_grad=False)
    assert (made.shape, made._nnz(), made.is_sparse) == ((2, 3), 0, True)
    for options in ({}, {"values": st.ones(1)}, {"indices": st.zeros(1, 1).long()}):
        size = {} if not options else {"size": (2,)}
        with pytest.raises(TypeError, match="invalid combination"):
            st.sparse_coo_tensor(**options, **size)


def test_a_new_tensor_takes_the_size_of_another() -> None:
    vector = st.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,))
    matrix = st.sparse_coo_tensor([[0, 2], [1, 1]], [1.0, 2.0], (3, 4))
    rows = st.sparse_coo_tensor([[0, 2]], st.ones(2, 3), (3, 3))
    for template in (vector, matrix, rows):
        made = template.new()
        assert made.resize_as_(template) is made
        assert made.shape == template.shape and made._nnz() == 0
        assert (made.sparse_dim(), made.dense_dim()) == (
            template.sparse_dim(),
            template.dense_dim(),
        )
    assert st.equal(matrix.clone().resize_as_(matrix).to_dense(), matrix.to_dense())
    assert st.ones(2).resize_as_(matrix).shape == (3, 4)
    with pytest.raises(RuntimeError, match="changing the number of sparse dimensions"):
        vector.resize_as_(matrix)
    with pytest.raises(RuntimeError, match="sparse tensor resize_as_ :Preserve"):
        matrix.resize_as_(matrix, memory_format=st.preserve_format)
    with pytest.raises(NotImplementedError, match="'aten::resize_' with arguments from"):
        matrix.resize_as_(st.ones(2))


def test_dense_times_sparse_in_place_stays_dense() -> None:
    dense = st.full((2, 2), 3.0)
    dense *= st.eye(2).to_sparse()
    assert dense.layout is st.strided
    assert dense.tolist() == [[3.0, 0.0], [0.0, 3.0]]
    entries = st.eye(2).to_sparse()
    entries *= st.full((2, 2), 3.0)
    assert entries.layout is st.sparse_coo
    rows = st.eye(2).to_sparse_csr()
    rows.mul_(st.full((2, 2), 3.0))
    assert rows.layout is st.sparse_csr


def _sum_of_gradients(first: str, second: str) -> st.Tensor:
    """Of two look-ups; the gradient of a sum is expanded, that of squares is not."""
    table = st.nn.Embedding(4, 2, sparse=True)
    for indices, kind in (([1, 1, 0], first), ([1, 2, 0], second)):
        rows = table(st.tensor(indices))
        (rows.sum() if kind == "expanded" else rows.square().sum()).backward()
    return table.weight.grad


def test_gradients_that_are_expanded_follow_each_other() -> None:
    for first in ("expanded", "own"):
        total = _sum_of_gradients(first, "expanded")
        assert total._indices().tolist() == [[1, 1, 0, 1, 2, 0]]
        assert not total.is_coalesced()
        # .grad has values of its own, so nothing is expanded here: entries in step are merged.
        assert _sum_of_gradients(first, "own")._indices().tolist() == [[1, 1, 0, 2, 0]]


def test_joined_entries_are_bounded_by_the_elements() -> None:
    one = st.sparse_coo_tensor([[0, 1, 2]], st.ones(1).expand(3), (4,))
    total = one
    for _ in range(5):
        total = total + one
    assert total._nnz() <= 4
    assert total.to_dense().tolist() == [6.0, 6.0, 6.0, 0.0]


def test_product_with_a_reduction() -> None:
    factor = st.tensor([[1.0, 2, 3], [0, 0, 0], [0, -1, 2]]).to_sparse_csr().requires_grad_()
    dense = st.tensor([[1.0, 2], [3, 4], [-1, 2]], requires_grad=True)
    wanted = {
        "sum": [[4.0, 16.0], [0.0, 0.0], [-5.0, 0.0]],
        "mean": [[4 / 3, 16 / 3], [0.0, 0.0], [-2.5, 0.0]],
        "amax": [[6.0, 8.0], [0.0, 0.0], [-2.0, 4.0]],
        "max": [[6.0, 8.0], [0.0, 0.0], [-2.0, 4.0]],
        "amin": [[-3.0, 2.0], [0.0, 0.0], [-3.0, -4.0]],
    }
    for reduce, values in wanted.items():
        st.testing.assert_close(st.sparse.mm(factor, dense, reduce), st.tensor(values))
    st.sparse.mm(factor, dense, "mean").sum().backward()
    st.testing.assert_close(dense.grad, st.tensor([[1 / 3] * 2, [1 / 6] * 2, [2.0] * 2]))
    assert factor.grad.values().tolist() == pytest.approx([1.0, 7 / 3, 1 / 3, 3.5, 0.5])
    for reduce in ("prod", "nope"):
        with pytest.raises(RuntimeError, match=reduce):
            st.sparse.mm(factor, dense, reduce)
    with pytest.raises(NotImplementedError, match="compressed row format"):
        st.sparse.mm(factor.detach().to_dense().to_sparse(), dense, "mean")
