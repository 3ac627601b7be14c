"""Compressed tensors whose entries have dimensions of their own: made, converted, moved, shared.

Compressed matrices of numbers are covered by the other files here.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest

import shmtensor as st

LAYOUTS = ["to_sparse_csr", "to_sparse_csc"]


def _dense() -> st.Tensor:
    t = st.arange(24.0, dtype=st.float64).reshape(3, 4, 2) + 1
    return t * st.tensor([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]])[:, :, None]


def _same(got: st.Tensor, want: st.Tensor) -> None:
    st.testing.assert_close(got.to_dense() if got.layout is not st.strided else got, want)


@pytest.mark.check
def test_made_of_parts() -> None:
    crow, column, values = [0, 2, 2, 3], [0, 2, 1], st.arange(6.0).reshape(3, 2)
    t = st.sparse_csr_tensor(crow, column, values, (3, 4, 2), check_invariants=True)
    assert t.shape == (3, 4, 2) and (t.sparse_dim(), t.dense_dim(), t._nnz()) == (2, 1, 3)
    assert t.values().tolist() == values.tolist()
    assert t.to_dense()[0].tolist() == [[0, 1], [0, 0], [2, 3], [0, 0]]
    assert st.sparse_csr_tensor(crow, column, values).shape == (3, 3, 2)
    assert st.sparse_csc_tensor(crow, column, values).shape == (3, 3, 2)
    assert "size=(3, 4, 2), nnz=3" in repr(t)
    for values, size in (
        (st.ones(3, 2), (3, 4, 3)),
        (st.ones(3), (3, 4, 1)),
        (st.ones(3, 1), (3, 4)),
    ):
        with pytest.raises(RuntimeError, match="values ha"):
            st.sparse_csr_tensor(crow, column, values, size)
    with pytest.raises(RuntimeError, match="no batches"):
        st.sparse_csr_tensor([crow], [column], st.ones(1, 3), (1, 3, 4))


@pytest.mark.parametrize("name", LAYOUTS)
def test_converted(name: str) -> None:
    dense = _dense()
    t = getattr(dense, name)(dense_dim=1)
    assert t.shape == dense.shape and t.values().shape == (4, 2)
    _same(t, dense)
    coo = t.to_sparse()
    assert coo.is_coalesced() and coo.dense_dim() == 1
    _same(coo, dense)
    for other in LAYOUTS:
        _same(getattr(t, other)(), dense)
        _same(getattr(coo, other)(), dense)
    with pytest.raises(RuntimeError, match="without batches"):
        getattr(dense, name)()
    with pytest.raises(RuntimeError, match="without batches"):
        getattr(dense.to_sparse(), name)()
    wide = dense[..., None].expand(3, 4, 2, 5)
    _same(getattr(wide, name)(dense_dim=2), wide)


@pytest.mark.parametrize("name", LAYOUTS)
def test_operators(name: str) -> None:
    dense = _dense()
    t = getattr(dense, name)(dense_dim=1)
    _same(t.transpose(0, 1), dense.transpose(0, 1))
    _same(t.permute(1, 0, 2), dense.permute(1, 0, 2))
    _same(t.permute(0, 1, 2), dense)
    _same(t + t, dense + dense)
    _same(t * t, dense * dense)
    _same(t * 3, dense * 3)
    _same(t * dense, dense * dense)
    _same(t / 2, dense / 2)
    _same(dense + t, dense + dense)
    _same(t.sqrt(), dense.sqrt())
    _same(t[2], dense[2])
    _same(t.sum(0, keepdim=True), dense.sum(0, keepdim=True))
    _same(dense.sparse_mask(t), dense)
    _same(t.float(), dense.float())
    _same(st.zeros_like(t), st.zeros_like(dense))
    assert t.sum().item() == dense.sum().item() and t.norm().item() == dense.norm().item()
    changed = t.clone().zero_()
    assert changed._nnz() == 0 and changed.shape == t.shape
    _same(changed.copy_(t), dense)
    for wrong in (
        lambda: t.transpose(0, 2),
        lambda: getattr(dense[..., None], name)(dense_dim=2).permute(0, 1, 3, 2),
        lambda: t @ st.ones(4, 2, dtype=st.float64),
        lambda: t @ st.ones(3, 4, 2, dtype=st.float64),
        lambda: st.sparse.sampled_addmm(t, st.ones(3, 2), st.ones(2, 4)),
        lambda: st.empty(2, 3, 4, layout=st.sparse_csr),
    ):
        with pytest.raises(RuntimeError):
            wrong()


@pytest.mark.parametrize("name", LAYOUTS)
def test_gradients_reach_values(name: str) -> None:
    t = getattr(_dense(), name)(dense_dim=1).requires_grad_()
    (t.to_dense() ** 2).sum().backward()
    assert t.grad is not None and t.grad.layout is t.layout
    _same(t.grad, 2 * _dense())


@pytest.mark.parametrize("name", LAYOUTS)
def test_pickled_and_saved(name: str) -> None:
    t = getattr(_dense(), name)(dense_dim=1)
    _same(pickle.loads(pickle.dumps(t)), _dense())
    file = io.BytesIO()
    st.save(t, file)
    file.seek(0)
    loaded: Any = st.load(file)
    assert loaded.layout is t.layout
    _same(loaded, _dense())


def test_wrong_indices_are_found() -> None:
    t = _dense().to_sparse_csr(dense_dim=1)
    t.col_indices()[0] = 7
    for use in (t.to_dense, t.to_sparse, lambda: t + t, lambda: _dense().sparse_mask(t)):
        with pytest.raises(RuntimeError, match="ncols"):
            use()
