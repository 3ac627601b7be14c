"""Sparse tensors copied, pickled, saved and loaded, also with torch."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

import shmtensor as st

_LAYOUTS = [st.sparse_coo, st.sparse_csr, st.sparse_csc]


def _make(m: Any, layout: Any) -> Any:
    dense = m.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    return dense.to_sparse(layout=layout)


def _same(a: Any, b: Any) -> None:
    assert a.layout is b.layout
    assert a.dtype is b.dtype
    assert a.shape == b.shape
    assert a.requires_grad == b.requires_grad
    assert st.equal(a.detach().to_dense(), b.detach().to_dense())
    if a.is_sparse:
        assert a.is_coalesced() == b.is_coalesced()
        assert a._nnz() == b._nnz()


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_copies_and_pickles_are_equal_and_separate(layout: Any, requires_grad: bool) -> None:
    t = _make(st, layout).requires_grad_(requires_grad)
    for other in (
        copy.copy(t),
        copy.deepcopy(t),
        *(pickle.loads(pickle.dumps(t, protocol)) for protocol in (2, 4, 5)),
    ):
        _same(t, other)
    other = copy.deepcopy(t)
    other.detach().zero_() if not requires_grad else None
    assert t.detach().to_dense().sum() == 9


@pytest.mark.check
def test_attributes_classes_and_uncoalesced_entries_are_kept() -> None:
    t: Any = st.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,))
    t.note = "kept"
    back = pickle.loads(pickle.dumps(t))
    _same(t, back)
    assert back.note == "kept"
    parameter = st.nn.Parameter(_make(st, st.sparse_coo))
    back = pickle.loads(pickle.dumps(parameter))
    assert type(back) is st.nn.Parameter
    _same(parameter, back)


@pytest.mark.parametrize("layout", _LAYOUTS)
def test_a_file_gives_the_tensor_back(layout: Any) -> None:
    file = io.BytesIO()
    st.save({"t": _make(st, layout), "n": 3}, file)
    file.seek(0)
    back = st.load(file)
    assert back["n"] == 3
    _same(_make(st, layout), back["t"])


@pytest.mark.filterwarnings("ignore:Sparse")  # torch's
@pytest.mark.parametrize("name", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_files_are_torchs_in_both_directions(name: str) -> None:
    torch = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save([_make(torch, getattr(torch, name))], file)
    file.seek(0)
    (ours,) = st.load(file)
    _same(_make(st, getattr(st, name)), ours)
    file = io.BytesIO()
    st.save([_make(st, getattr(st, name))], file)
    file.seek(0)
    (theirs,) = torch.load(file)
    assert str(theirs) == str(_make(torch, getattr(torch, name)))


@pytest.mark.check
def test_a_state_of_a_module_with_a_sparse_buffer() -> None:
    module = st.nn.Linear(2, 2)
    module.register_buffer("adjacency", _make(st, st.sparse_coo))
    other = st.nn.Linear(2, 2)
    other.register_buffer("adjacency", st.sparse_coo_tensor((2, 3)))
    other.load_state_dict(module.state_dict())
    _same(module.adjacency, other.adjacency)
    assert copy.deepcopy(module).adjacency.is_sparse


def test_a_file_with_a_wrong_index_is_reported_by_its_use() -> None:
    file = io.BytesIO()
    st.save(st.sparse_coo_tensor([[7]], [1.0], (2,)), file)
    file.seek(0)
    back = st.load(file)
    with pytest.raises(RuntimeError, match="but found index 7"):
        back.to_dense()
