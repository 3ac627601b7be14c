"""Sparse tensors and sparse gradients of the ranks of a group."""

from __future__ import annotations

from typing import Any

import pytest
from ranks import Ranks, run

import shmtensor as T
from shmtensor import distributed as dist
from shmtensor import nn
from shmtensor.nn.parallel import DistributedDataParallel


def entries(rank: int, dtype: Any) -> Any:
    """Rank r has r entries in place r - 1, and one more at the end, which is not coalesced."""
    places = T.tensor([[rank - 1] * rank + [4]])
    values = T.arange(3.0 * (rank + 1)).reshape(rank + 1, 3).to(dtype) + rank
    return T.sparse_coo_tensor(places, values, (5, 3))


def sums(rank: int, size: int, dtype: Any, async_op: bool) -> bytes:
    tensor = entries(rank, dtype)
    work = dist.all_reduce(tensor, async_op=async_op)
    if work is not None:
        work.wait()
    assert tensor.is_coalesced()
    dense = sum(entries(each, dtype).to_dense() for each in range(size))
    T.testing.assert_close(tensor.to_dense(), dense)
    empty = T.sparse_coo_tensor(T.zeros(1, 0, dtype=T.int64), T.zeros(0, 3, dtype=dtype), (5, 3))
    dist.all_reduce(empty)
    assert empty._nnz() == 0
    return tensor.to_dense().numpy().tobytes()


@pytest.mark.check
@pytest.mark.parametrize("async_op", [False, True])
@pytest.mark.parametrize("dtype", [T.float32, T.complex64, T.int64], ids=str)
def test_sums_of_different_entries(dtype: Any, async_op: bool) -> None:
    answers = run(3, sums, dtype, async_op)
    assert all(answer == answers[0] for answer in answers)


def refusals(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="needs ReduceOp"):
        dist.all_reduce(entries(1, T.float32), dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match="dense"):
        dist.all_reduce(T.eye(2).to_sparse_csr())
    with pytest.raises(RuntimeError, match=r"shape \(2, \d\).*rank [01] has shape \(2, \d\)"):
        dist.all_reduce(T.eye(2, 2 + rank).to_sparse())
    dist.barrier()


def test_what_is_refused() -> None:
    run(2, refusals)


def dies(rank: int, size: int) -> str:
    if rank == 1:
        import os

        os._exit(3)
    try:
        dist.all_reduce(entries(1, T.float32))
    except dist.DistBackendError as error:
        return str(error)
    return "fine"


def test_a_rank_that_dies_is_an_error() -> None:
    with Ranks(2, dies) as ranks:
        assert "rank 1" in ranks.answer(0)


# --- gradients ---------------------------------------------------------------------------------


class Net(nn.Module):
    """Two tables, one of which can be left out."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 4, sparse=sparse)
        self.bags = nn.EmbeddingBag(20, 4, mode="sum", sparse=sparse)
        self.out = nn.Linear(4, 2)

    def forward(self, x: Any, both: bool) -> Any:
        """Look up *x*, ``(N, L)``."""
        h = self.words(x).sum(1)
        return self.out(h + self.bags(x) if both else h)


def places(rank: int, i: int) -> Any:
    return T.randint(0, 20, (3, 4), generator=T.Generator().manual_seed(7 * rank + i))


def trained(model: Any, ranks: Any, n: int, both: bool) -> Any:
    optimizer = T.optim.Adagrad(model.parameters(), lr=0.1)
    for i in range(n):
        optimizer.zero_grad()
        for rank in ranks:
            (model(places(rank, i), both).square().mean() / len(ranks)).backward()
        optimizer.step()
    return T.cat([p.detach().reshape(-1) for p in model.parameters()])


def trains(rank: int, size: int, both: bool) -> Any:
    T.manual_seed(3)
    model = DistributedDataParallel(Net(True), find_unused_parameters=not both)
    T.manual_seed(3)
    expected = trained(Net(False), range(size), 4, both)
    with model.join():
        found = trained(model, [rank], 4, both)
    assert model.module.words.weight.grad.is_sparse
    assert (model.module.bags.weight.grad is None) == (not both)
    T.testing.assert_close(found, expected)
    return found.tolist()


@pytest.mark.check
@pytest.mark.parametrize("both", [True, False])
def test_averages_of_sparse_gradients(both: bool) -> None:
    first, second = run(2, trains, both)
    assert first == second


def unequal(rank: int, size: int) -> Any:
    T.manual_seed(3)
    model = DistributedDataParallel(Net(True))
    with model.join():
        trained(model, [rank], 2 + rank, True)
    return [p.tolist() for p in model.parameters()]


def test_a_rank_without_batches_adds_no_entries() -> None:
    first, second = run(2, unequal)
    assert first == second


def by_hook(rank: int, size: int) -> None:
    model = DistributedDataParallel(Net(True))
    seen = []

    def hook(state: None, bucket: Any) -> Any:
        seen.append(bucket.buffer().is_sparse)
        work = dist.all_reduce(bucket.buffer() / size, async_op=True)
        assert work is not None
        return work.get_future()

    model.register_comm_hook(None, hook)
    model(places(rank, 0), True).sum().backward()
    assert sorted(seen) == [False, True, True]
    plain = DistributedDataParallel(Net(False), init_sync=False)
    plain.load_state_dict(model.state_dict())
    plain(places(rank, 0), True).sum().backward()
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        T.testing.assert_close(p.grad.to_dense(), q.grad)


def test_a_hook_reduces_sparse_gradients() -> None:
    run(2, by_hook)
