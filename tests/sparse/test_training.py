"""Sparse gradients of embeddings: accumulation in ``.grad``, and the optimizers that take them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st


def _table(m: Any, sparse: bool = True, **options: Any) -> Any:
    m.manual_seed(0)
    table = m.nn.Embedding(6, 3, sparse=sparse, **options)
    with m.no_grad():
        table.weight.copy_(m.arange(18.0).reshape(6, 3) / 7 - 1)
    return table


@pytest.mark.check
def test_the_gradient_has_a_row_for_each_index() -> None:
    table = _table(st)
    table(st.tensor([[1, 1], [3, 0]])).sum().backward()
    grad = table.weight.grad
    assert grad.is_sparse
    assert not grad.is_coalesced()
    assert grad._indices().tolist() == [[1, 1, 3, 0]]
    assert grad._values().tolist() == [[1.0] * 3] * 4
    assert (grad.sparse_dim(), grad.dense_dim(), grad.shape) == (1, 1, (6, 3))


def test_the_row_of_padding_has_no_entry() -> None:
    table = _table(st, padding_idx=1)
    table(st.tensor([1, 3, 1])).sum().backward()
    assert table.weight.grad._indices().tolist() == [[3]]


def test_scaling_by_frequency_is_refused() -> None:
    table = _table(st, scale_grad_by_freq=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse"):
        table(st.tensor([1])).sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}])
def test_bags_have_the_dense_gradient_in_rows(mode: str, options: dict[str, Any]) -> None:
    grads = []
    for sparse in (True, False):
        st.manual_seed(0)
        bag = st.nn.EmbeddingBag(6, 3, mode=mode, sparse=sparse, **options)
        weights = st.tensor([1.0, 2, 3, 4]) if mode == "sum" else None
        rows = bag(st.tensor([1, 1, 3, 2]), st.tensor([0, 2]), per_sample_weights=weights)
        (rows * st.arange(6.0).reshape(2, 3)).sum().backward()
        grads.append(bag.weight.grad)
    assert grads[0].is_sparse
    assert grads[0]._nnz() == (2 if options else 4)
    assert st.allclose(grads[0].to_dense(), grads[1])


def test_maxima_of_bags_have_no_sparse_gradient() -> None:
    bag = st.nn.EmbeddingBag(6, 3, mode="max", sparse=True)
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        bag(st.tensor([1]), st.tensor([0]))


def test_gradients_accumulate_as_entries_and_become_dense_with_a_dense_one() -> None:
    table = _table(st)
    table(st.tensor([1, 1])).sum().backward()
    first = table.weight.grad
    table(st.tensor([2])).sum().backward()
    assert table.weight.grad is first
    assert first._indices().tolist() == [[1, 1, 2]]
    (table.weight.sum() * 2).backward()
    assert table.weight.grad.layout is st.strided
    assert table.weight.grad[:, 0].tolist() == [2, 4, 3, 2, 2, 2]
    dense = table.weight.grad
    table(st.tensor([5])).sum().backward()
    assert table.weight.grad is dense
    assert dense[5, 0] == 3


def test_a_gradient_that_others_hold_is_not_changed_by_later_ones() -> None:
    table = _table(st)
    kept: list[Any] = []
    table.weight.register_hook(lambda grad: kept.append(grad))
    for _ in range(2):
        table(st.tensor([1, 2])).sum().backward()
    assert [g._nnz() for g in kept] == [2, 2]
    assert kept[0]._values().tolist() == [[1.0] * 3] * 2


@pytest.mark.check
def test_several_uses_in_one_graph_add_up() -> None:
    table = _table(st)
    out = table(st.tensor([0, 1])).sum() + table(st.tensor([1])).sum() + table.weight[2].sum()
    out.backward()
    assert table.weight.grad.to_dense()[:, 0].tolist() == [1, 2, 1, 0, 0, 0]
    other = _table(st)
    (other(st.tensor([0])).sum() + other(st.tensor([0])).sum()).backward()
    assert other.weight.grad.is_sparse
    assert other.weight.grad.to_dense()[0, 0] == 2


def test_zero_grad_keeps_the_layout_or_drops_it() -> None:
    table = _table(st)
    table(st.tensor([0, 1])).sum().backward()
    table.zero_grad(set_to_none=False)
    assert table.weight.grad.is_sparse
    assert table.weight.grad._nnz() == 0
    table.zero_grad()
    assert table.weight.grad is None


def test_norms_of_sparse_gradients_are_clipped() -> None:
    table, dense = _table(st), _table(st, sparse=False)
    for one in (table, dense):
        (one(st.tensor([0, 1, 1])) * st.arange(9.0).reshape(3, 3)).sum().backward()
        norm = st.nn.utils.clip_grad_norm_(one.parameters(), 2.0)
        assert norm.item() == pytest.approx(376**0.5)
    assert st.allclose(table.weight.grad.to_dense(), dense.weight.grad)


#: Optimizers and options that take sparse gradients.
_OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "SGD": lambda m, p: m.optim.SGD(p, lr=0.1),
    "SGD maximize": lambda m, p: m.optim.SGD(p, lr=0.1, maximize=True),
    "SGD momentum": lambda m, p: m.optim.SGD(p, lr=0.1, momentum=0.9),
    "SGD nesterov": lambda m, p: m.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adagrad": lambda m, p: m.optim.Adagrad(p, lr=0.1, lr_decay=0.01),
    "Adagrad maximize": lambda m, p: m.optim.Adagrad(p, lr=0.1, maximize=True),
    "SparseAdam": lambda m, p: m.optim.SparseAdam(p, lr=0.05),
    "SparseAdam betas": lambda m, p: m.optim.SparseAdam(p, betas=(0.5, 0.7), eps=1e-4),
    "SparseAdam maximize": lambda m, p: m.optim.SparseAdam(p, maximize=True),
}


def _steps(m: Any, make: Callable[[Any, Any], Any], n: int, dtype: str) -> tuple[Any, Any]:
    table = _table(m).to(getattr(m, dtype))
    optimizer = make(m, table.parameters())
    _more_steps(m, table, optimizer, 0, n)
    return table, optimizer


def _more_steps(m: Any, table: Any, optimizer: Any, begin: int, end: int) -> None:
    for i in range(begin, end):
        optimizer.zero_grad()
        index = m.tensor([[i % 6, 1], [(3 * i) % 6, i % 2]])
        (table(index) ** 2 + table(index)).sum().backward()
        optimizer.step()


def _moved(m: Any, state: dict[str, Any]) -> dict[str, Any]:
    """A state with the tensors of library *m*."""

    def move(value: Any) -> Any:
        if not hasattr(value, "tolist"):
            return value
        return m.tensor(value.tolist(), dtype=getattr(m, str(value.dtype).removeprefix("torch.")))

    entries = {
        key: {name: move(value) for name, value in entry.items()}
        for key, entry in state["state"].items()
    }
    return {**state, "state": entries}


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # torch's
@pytest.mark.parametrize("name", list(_OPTIMIZERS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_steps_are_torchs_and_state_travels_to_torch_and_back(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    make = _OPTIMIZERS[name]
    limit = {"rtol": 1e-5, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-12, "atol": 1e-12}
    ours, our_optimizer = _steps(st, make, 25, dtype)
    theirs, their_optimizer = _steps(torch, make, 25, dtype)

    def check() -> None:
        expected = st.tensor(theirs.weight.tolist(), dtype=ours.weight.dtype)
        assert st.allclose(ours.weight, expected, **limit)

    check()
    if "momentum" in name or "nesterov" in name:  # a state that is a sparse tensor
        return
    their_optimizer.load_state_dict(_moved(torch, our_optimizer.state_dict()))
    _more_steps(st, ours, our_optimizer, 25, 40)
    _more_steps(torch, theirs, their_optimizer, 25, 40)
    check()
    our_optimizer.load_state_dict(_moved(st, their_optimizer.state_dict()))
    _more_steps(st, ours, our_optimizer, 40, 50)
    _more_steps(torch, theirs, their_optimizer, 40, 50)
    check()


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_steps_are_those_of_dense_gradients(name: str) -> None:
    tables = []
    for sparse in (True, False):
        table = _table(st, sparse=sparse)
        _more_steps(st, table, _OPTIMIZERS[name](st, table.parameters()), 0, 20)
        tables.append(table.weight)
    assert st.allclose(*tables, rtol=1e-5, atol=1e-6)


def test_sparse_adam_leaves_rows_without_a_gradient_alone() -> None:
    table = _table(st)
    before = table.weight.detach().clone()
    optimizer = st.optim.SparseAdam(table.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        table(st.tensor([1, 4, 4])).sum().backward()
        optimizer.step()
    changed = (table.weight.detach() != before).all(1).tolist()
    assert changed == [False, True, False, False, True, False]
    assert optimizer.state[table.weight]["step"] == 3
    # The first step of Adam is the rate, whatever the gradient.
    assert st.allclose(before[1] - table.weight.detach()[1], st.full((3,), 0.3), atol=1e-4)


def test_optimizers_say_what_they_do_not_take() -> None:
    table = _table(st)
    table(st.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="please consider SparseAdam instead"):
        st.optim.Adam(table.parameters()).step()
    with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse"):
        st.optim.Adagrad(table.parameters(), weight_decay=0.1).step()
    with pytest.raises(RuntimeError, match="does not support sparse"):
        st.optim.SGD(table.parameters(), lr=0.1, fused=True).step()
    with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"):
        st.optim.SGD(table.parameters(), lr=0.1, weight_decay=0.1).step()
    dense = st.nn.Linear(2, 2)
    dense(st.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match="please consider Adam instead"):
        st.optim.SparseAdam(dense.parameters()).step()
    for options, text in (
        ({"lr": 0.0}, "Invalid learning rate: 0.0"),
        ({"eps": -1.0}, "Invalid epsilon value: -1.0"),
        ({"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ({"betas": (0.9, -1.0)}, "Invalid beta parameter at index 1: -1.0"),
    ):
        with pytest.raises(ValueError, match=text):
            st.optim.SparseAdam(dense.parameters(), **options)
    sparse = st.eye(2).to_sparse().requires_grad_()
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 0\]\]"):
        st.optim.SparseAdam([sparse])


def test_a_shared_sparse_adam_counts_and_keeps_its_state() -> None:
    table = _table(st)
    optimizer = st.optim.SparseAdam(table.parameters(), lr=0.1)
    table(st.tensor([1, 4])).sum().backward()
    optimizer.step()
    optimizer.share_memory()
    state = optimizer.state[table.weight]
    assert all(tensor.is_shared() for tensor in state.values())
    assert state["step"] == 1 and state["exp_avg"][1].ne(0).all()
    again = st.optim.SparseAdam(table.parameters(), lr=0.1)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    again.share_memory()
    again.step()
    optimizer.step()
    for name, value in again.state[table.weight].items():
        assert st.equal(value, state[name]), name
    assert again.state[table.weight]["step"] == 2
