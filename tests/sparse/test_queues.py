"""Sparse tensors between processes: parts go as handles, and are the same memory at both ends."""

from __future__ import annotations

from typing import Any

import pytest
import sparse_children as children

import shmtensor as st
from shmtensor import multiprocessing as mp


def _make(layout: Any) -> Any:
    dense = st.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    return dense.to_sparse(layout=layout)


@pytest.mark.check
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("layout", [st.sparse_coo, st.sparse_csr, st.sparse_csc])
def test_a_queue_carries_the_memory_of_the_parts(method: str, layout: Any) -> None:
    context = mp.get_context(method)
    given, back = context.Queue(), context.Queue()
    child = context.Process(target=children.double, args=(given, back))
    child.start()
    try:
        t = _make(layout).requires_grad_()
        given.put(t)
        assert back.get(timeout=60) == (str(layout), (2, 3), 3, True)
        # The child has written into this process's values.
        assert t.to_dense().tolist() == [[0, 4, 0], [6, 0, 8]]
        returned = back.get(timeout=60)
        assert st.equal(returned.to_dense(), t.to_dense())
        (returned._values() if returned.is_sparse else returned.detach().values()).zero_()
        assert t.detach().to_dense().sum() == 0
        given.put("done")
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()
        for queue in (given, back):
            queue.close()
            queue.join_thread()


def test_a_simple_queue_and_a_structure() -> None:
    queue: Any = mp.SimpleQueue()
    t = st.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, 3.0], (4,))
    queue.put({"uncoalesced": t, "coalesced": t.coalesce(), "dense": st.ones(2)})
    got = queue.get()
    queue.close()
    assert not got["uncoalesced"].is_coalesced()
    assert got["uncoalesced"]._nnz() == 3
    assert got["coalesced"].is_coalesced()
    assert got["coalesced"].to_dense().tolist() == [3, 3, 0, 0]
    assert got["dense"].tolist() == [1, 1]


@pytest.mark.parametrize("layout", [st.sparse_coo, st.sparse_csr])
def test_sharing_in_place_moves_all_parts(layout: Any) -> None:
    t = _make(layout)
    assert not t.is_shared()
    assert t.share_memory_() is t
    assert t.is_shared()
    parts = (
        [t._indices(), t._values()] if layout is st.sparse_coo else [t.crow_indices(), t.values()]
    )
    assert all(part.is_shared() for part in parts)
    assert t.to_dense().tolist() == [[0, 2, 0], [3, 0, 4]]


@pytest.mark.check
def test_a_process_argument_is_shared() -> None:
    t = _make(st.sparse_coo).share_memory_()
    child = mp.get_context("spawn").Process(target=children.write, args=(t,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert t.to_dense()[1, 0] == 10


def test_an_index_that_another_process_breaks_is_reported_here() -> None:
    t = _make(st.sparse_coo).share_memory_()
    child = mp.get_context("fork").Process(target=children.break_index, args=(t,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    with pytest.raises(RuntimeError, match="but found index 1099511627776"):
        t.to_dense()


def test_a_tensor_with_history_is_not_sent() -> None:
    t = _make(st.sparse_coo).requires_grad_() * 2
    queue: Any = mp.SimpleQueue()
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        queue.put(t)
    queue.close()
