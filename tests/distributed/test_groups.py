"""Messages, asynchronous work, sub-groups, objects, threads, fork and spawn."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ranks import run, sum_of_ranks

import shmtensor as T
from shmtensor import distributed as dist


def _messages(rank: int, size: int) -> None:
    right, left = (rank + 1) % size, (rank - 1) % size
    for n in (0, 3, 100_000, 1_000_000):
        x = T.arange(n) + rank
        got = T.empty_like(x)
        sending = dist.isend(x, right)
        assert dist.recv(got, left) == left
        assert sending is not None and sending.wait()
        assert T.equal(got, T.arange(n) + left)
        # All at once, both ways, larger than what fits between two ranks.
        a, b = T.empty_like(x), T.empty_like(x)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, x, right, tag=1),
                dist.P2POp(dist.isend, x, left, tag=2),
                dist.P2POp(dist.irecv, a, left, tag=1),
                dist.P2POp(dist.irecv, b, right, tag=2),
            ]
        )
        assert all(work.wait() for work in works)
        assert T.equal(a, T.arange(n) + left) and T.equal(b, T.arange(n) + right)


@pytest.mark.check
@pytest.mark.parametrize("size", [2, 3])
def test_messages(size: int) -> None:
    run(size, _messages)


def _tags(rank: int, size: int) -> None:
    if rank == 0:
        for tag in (5, 6, 5, 7):
            dist.send(T.tensor([tag * 1.0]), 1, tag=tag)
        dist.send(T.zeros(3), 2)
    elif rank == 1:
        for tag in (7, 5, 6, 5):
            x = T.zeros(1)
            dist.recv(x, 0, tag=tag)
            assert x.item() == tag
        dist.send(T.ones(3), 2)
    else:
        senders = set()
        for _ in range(2):
            x = T.empty(3)
            sender = dist.recv(x)
            assert (x == sender).all()
            senders.add(sender)
        assert senders == {0, 1}


def test_messages_are_told_apart_by_their_tags() -> None:
    run(3, _tags)


def _works(rank: int, size: int) -> None:
    tensors = [T.full((n,), 1.0) for n in (5, 100_000, 7)]
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    last = T.ones(1)
    dist.all_reduce(last)  # comes after those that are queued
    for work, tensor in zip(works, tensors, strict=True):
        assert work is not None and work.is_completed() and work.is_success()
        assert work.wait() and work.wait(timedelta(seconds=1)) and work.exception() is None
        assert work.result()[0] is tensor and work.get_future().value()[0] is tensor
        assert (tensor == size).all()
    work = dist.barrier(async_op=True)
    assert work is not None
    work.get_future().wait()


def test_asynchronous_work_is_done_in_order() -> None:
    run(2, _works)


def _unfinished(rank: int, size: int) -> str:
    if rank == 1:
        x = T.zeros(1)
        dist.recv(x, 0)  # rank 0 has found that its work is not done
        dist.all_reduce(x)
        return "done"
    x = T.ones(1)
    work = dist.all_reduce(x, async_op=True)
    assert work is not None and not work.is_completed()
    with pytest.raises(RuntimeError, match="not done after"):
        work.wait(timedelta(milliseconds=50))
    dist.send(x.new_ones(1), 1)
    work.wait()
    return "done"


def test_a_wait_for_work_can_end_before_it() -> None:
    assert run(2, _unfinished) == ["done", "done"]


def _groups(rank: int, size: int) -> None:
    evens = dist.new_group([0, 2])
    odds = dist.new_group([3, 1])
    everybody = dist.new_group(group_desc="all")
    mine = evens if rank % 2 == 0 else odds
    other = odds if rank % 2 == 0 else evens
    assert other == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(other) == -1
    assert dist._rank_not_in_group(other)
    assert not dist._rank_not_in_group(mine) and not dist._rank_not_in_group(None)
    assert dist.get_world_size(mine) == 2 and dist.get_rank(mine) == rank // 2
    assert dist.get_process_group_ranks(mine) == [rank % 2, rank % 2 + 2]
    assert dist.get_global_rank(mine, 1) == rank % 2 + 2
    assert dist.get_group_rank(mine, rank) == rank // 2
    x = T.tensor([float(rank)])
    dist.all_reduce(x, group=mine)
    assert x.item() == 2 + 2 * (rank % 2)
    dist.broadcast(x, src=rank % 2 + 2, group=mine)
    dist.broadcast(x, group_src=0, group=mine)
    with pytest.warns(UserWarning, match="does not belong"):
        assert dist.all_reduce(x, group=other) is None
    # Two groups in turn, with work of both under way.
    for i in range(20):
        a, b = T.ones(1000), T.ones(3)
        works = [
            dist.all_reduce(a, group=everybody, async_op=True),
            dist.all_reduce(b, group=mine, async_op=True),
        ]
        assert all(work is not None and work.wait() for work in works)
        assert (a == size).all() and (b == 2).all(), i
    dist.destroy_process_group(mine)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Invalid process group"):
        dist.all_reduce(x, group=mine)
    pair, all_pairs = dist.new_subgroups(2)
    assert pair is not None and dist.get_process_group_ranks(pair) == [
        rank // 2 * 2,
        rank // 2 * 2 + 1,
    ]
    assert len(all_pairs) == 2


def test_sub_groups() -> None:
    run(4, _groups)


def _local(rank: int, size: int) -> int:
    if rank == 2:
        return 0
    made = dist.new_group([0, 1], use_local_synchronization=True)
    x = T.ones(1)
    dist.all_reduce(x, group=made)
    return int(x.item())


def test_a_group_that_only_its_members_make() -> None:
    assert run(3, _local) == [2, 2, 0]


def _objects(rank: int, size: int) -> None:
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": r, "text": "x" * r} for r in range(size)]
    several = [rank, "a" * 1000, None] if rank == 1 else [None] * 3
    dist.broadcast_object_list(several, src=1)
    assert several == [1, "a" * 1000, None]
    gathered: list[Any] | None = [None] * size if rank == 2 else None
    dist.gather_object((rank, rank), gathered, dst=2)
    assert gathered is None or gathered == [(r, r) for r in range(size)]
    output: list[Any] = [None]
    dist.scatter_object_list(
        output, [f"for {r}" for r in range(size)] if rank == 0 else None, src=0
    )
    assert output == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list([{1, 2}, b"x"], 1)
    elif rank == 1:
        got: list[Any] = [None, None]
        assert dist.recv_object_list(got, 0) == 0 and got == [{1, 2}, b"x"]


def test_objects() -> None:
    run(3, _objects)


def _threads(rank: int, size: int) -> None:
    groups = [dist.new_group() for _ in range(3)]
    failed: list[BaseException] = []

    def work(group: Any, n: int) -> None:
        try:
            for i in range(60):
                x = T.full((n,), float(i))
                dist.all_reduce(x, group=group)
                assert (x == i * size).all()
        except BaseException as error:
            failed.append(error)

    sizes = (3, 20_000, 300_000)
    threads = [threading.Thread(target=work, args=pair) for pair in zip(groups, sizes, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def test_a_group_for_each_thread() -> None:
    run(2, _threads)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_ranks_that_are_spawned(method: str) -> None:
    assert run(2, sum_of_ranks, method=method) == [3.0, 3.0]


@pytest.mark.parametrize("timeout_s", [25 * 86400.0, 1e10, 1e13])
def test_long_timeouts(timeout_s: float) -> None:
    assert run(2, sum_of_ranks, timeout_s=timeout_s) == [3.0, 3.0]


def _forks(rank: int, size: int) -> int:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ok = not dist.is_initialized()
            try:
                dist.all_reduce(T.ones(1))
            except ValueError:
                os.write(writer, b"y" if ok else b"n")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    x = T.ones(1)
    dist.all_reduce(x)  # the child has taken nothing away
    answer = os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    return answer == b"y" and x.item() == size


@pytest.mark.check
def test_a_forked_child_is_not_in_the_group() -> None:
    assert run(2, _forks) == [True, True]


def _again(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("shm", rank=rank, world_size=size, store=dist.HashStore())
    assert dist.get_backend() == "shm" and dist.get_backend_config() == "cpu:shm"
    assert dist.group.WORLD is dist.GroupMember.WORLD is not None
    dist.monitored_barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized() and dist.group.WORLD is None


def test_a_group_is_left_in_order() -> None:
    run(2, _again)


def _several_times(rank: int, size: int, path: str) -> int:
    dist.destroy_process_group()
    store = dist.FileStore(path, size)
    total = 0
    for i in range(3):
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
        dist.monitored_barrier()
        pair = dist.new_group([0, 1])
        x = T.tensor([i + rank])
        dist.all_reduce(x, group=pair)
        total += int(x.item())
        dist.destroy_process_group()
    return total


def test_a_store_serves_several_default_groups(tmp_path: Path) -> None:
    assert run(2, _several_times, str(tmp_path / "store")) == [9, 9]


def _unanswered(rank: int, size: int) -> str:
    if rank == 0:
        work = dist.irecv(T.empty(3), 1)
        dist.barrier()
        dist.destroy_process_group()
        assert work is not None and not work.is_completed()
        return "left"
    dist.barrier()
    with pytest.raises(dist.DistBackendError, match="rank 0 is lost, it has left the group"):
        dist.barrier()
    return "told"


def test_a_receive_that_nobody_answers_keeps_no_rank() -> None:
    assert run(2, _unanswered) == ["left", "told"]


def _callbacks(rank: int, size: int) -> float:
    x, y = T.ones(1), T.ones(1)

    def again(done: Any) -> None:
        dist.all_reduce(done.value()[0])  # in the thread of the group

    first = dist.all_reduce(x, async_op=True)
    assert first is not None
    future = first.get_future().then(again)
    future.wait()
    dist.all_reduce(y)
    return x.item()


def test_work_goes_on_in_callbacks() -> None:
    assert run(2, _callbacks) == [4.0, 4.0]


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo,cuda:nccl", None])
def test_a_group_of_one(backend: str | None) -> None:
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        x = T.ones(3)
        dist.all_reduce(x)
        dist.barrier()
        assert x.tolist() == [1, 1, 1] and dist.get_world_size() == 1
        assert dist.get_backend() == ("gloo" if backend else "shm")
    finally:
        dist.destroy_process_group()


# --- arguments -----------------------------------------------------------------------------------


def _arguments(rank: int, size: int) -> None:
    one = T.ones(2)
    for error, match, call in [
        (TypeError, "Expected parameter `tensor`", lambda: dist.all_reduce([one])),
        (TypeError, "Expected parameter `tensor_list`", lambda: dist.all_gather(one, one)),
        (ValueError, "different dtypes", lambda: dist.all_gather([one, one.int()], one)),
        (RuntimeError, "expected length 2, got 1", lambda: dist.all_gather([one], one)),
        (RuntimeError, r"expected \(2\), got \(3\)", lambda: dist.all_gather([T.ones(3)] * 2, one)),
        (ValueError, "Must specify", lambda: dist.broadcast(one)),
        (ValueError, "Can't specify both", lambda: dist.broadcast(one, 0, group_src=0)),
        (RuntimeError, "invalid root rank: 5", lambda: dist.reduce(one, 5)),
        (RuntimeError, "invalid input tensor list", lambda: dist.reduce_scatter(one, [one])),
        (RuntimeError, "non-integral", lambda: dist.all_reduce(one, dist.ReduceOp.BXOR)),
        (ValueError, "complex", lambda: dist.all_reduce(one + 0j, dist.ReduceOp.MAX)),
        (ValueError, "dense", lambda: dist.broadcast(one.to_sparse(), 0)),
        (TypeError, "op must be", lambda: dist.all_reduce(one, "sum")),
        (ValueError, "Invalid destination rank", lambda: dist.send(one, rank)),
        (ValueError, "p2p_op_list", lambda: dist.batch_isend_irecv([3])),  # type: ignore[list-item]
        (ValueError, "``op``", lambda: dist.P2POp(dist.all_reduce, one, 0)),
        (RuntimeError, "Split sizes", lambda: dist.all_to_all_single(one, one, [1, 1], [1, 2])),
        (RuntimeError, "splits not equal", lambda: dist.all_to_all_single(one, one, [2], [2])),
        (ValueError, "duplicate", lambda: dist.new_group([0, 0])),
        (ValueError, "out of range", lambda: dist.new_group([0, 3])),
        (AssertionError, "Unknown backend", lambda: dist.new_group(backend="foo")),
        (RuntimeError, "NCCL", lambda: dist.new_group(backend="nccl")),
        (TypeError, "timedelta", lambda: dist.new_group(timeout=3)),  # type: ignore[arg-type]
    ]:
        with pytest.raises(error, match=match):
            call()
    if rank == 0:
        with pytest.raises(ValueError, match="must be specified on destination"):
            dist.gather(one)
        with pytest.raises(ValueError, match="must be specified on source"):
            dist.scatter(one)
    else:
        with pytest.raises(ValueError, match="must NOT be specified"):
            dist.gather(one, [one, one])
    dist.all_reduce(one)  # nothing is broken by wrong arguments
    assert one.tolist() == [2.0, 2.0]


def test_wrong_arguments() -> None:
    run(2, _arguments)


def test_calls_before_there_is_a_group() -> None:
    for call in (dist.get_rank, dist.get_world_size, dist.barrier, dist.get_backend):
        with pytest.raises(ValueError, match="init_process_group"):
            call()
    with pytest.raises(AssertionError, match="cannot be None"):
        dist.destroy_process_group()
    store = dist.HashStore()
    for error, match, arguments in [
        (AssertionError, "Unknown backend type foo", {"backend": "foo"}),
        (RuntimeError, "NCCL", {"backend": "nccl"}),
        (AssertionError, "both init_method and store", {"init_method": "env://", "store": store}),
        (AssertionError, "world_size must be positive", {"store": store}),
        (RuntimeError, "No rendezvous handler for foo://", {"init_method": "foo://x"}),
        (ValueError, "rank parameter missing", {"init_method": "tcp://127.0.0.1:1"}),
        (ValueError, "port number missing", {"init_method": "tcp://h", "rank": 0, "world_size": 1}),
        (ValueError, "path missing", {"init_method": "file://", "rank": 0, "world_size": 1}),
        (TypeError, "timedelta", {"rank": 0, "world_size": 1, "store": store, "timeout": 3}),
    ]:
        with pytest.raises(error, match=match):
            dist.init_process_group(**arguments)  # type: ignore[arg-type]


def test_variables_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1")):
        with pytest.raises(ValueError, match=f"variable {name} expected"):
            dist.init_process_group("gloo")
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "0")
    dist.init_process_group("gloo")
    dist.destroy_process_group()


def test_other_backends_can_be_registered() -> None:
    from shmtensor.distributed._shm_backend import ShmCollectives

    class Wire(ShmCollectives):
        """Another name."""

    dist.Backend.register_backend("Wire", Wire)
    assert dist.is_backend_available("wire") and "wire" in dist.Backend.backend_list
    dist.init_process_group("wire", store=dist.HashStore(), rank=0, world_size=1)
    assert dist.get_backend() == "wire"
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="string-ish"):
        dist.Backend(3)  # type: ignore[arg-type]


def _reals(rank: int, size: int) -> Any:
    """The dtypes that a backend reduces which takes no complex tensors, and what it returns."""
    from shmtensor.distributed._shm_backend import ShmCollectives

    seen = []

    class Real(ShmCollectives):
        reduces_complex = False

        def all_reduce(self, tensor: Any, op: Any) -> None:
            seen.append(tensor.dtype)
            super().all_reduce(tensor, op)

    dist.Backend.register_backend("real", Real)
    z = T.tensor([1 + 2j, 3j]) * (rank + 1)
    dist.all_reduce(z, group=dist.new_group(backend="real"))
    return [str(dtype) for dtype in seen], z.tolist()


def test_backends_get_complex_tensors_as_real_ones_unless_they_want_them() -> None:
    assert run(2, _reals) == [(["torch.float32"], [3 + 6j, 9j])] * 2


def _groups_are_listed(rank: int, size: int) -> None:
    listed = dist.distributed_c10d._pg_map
    assert list(listed) == [dist.group.WORLD]
    backend, _store = listed[dist.group.WORLD]
    assert backend == dist.get_backend()
    group = dist.new_group([0, 1])
    assert list(listed) == [dist.group.WORLD, group]
    dist.destroy_process_group(group)
    assert list(listed) == [dist.group.WORLD]
    dist.barrier()
    dist.destroy_process_group()
    assert listed == {} and listed is dist.distributed_c10d._pg_map


def test_groups_of_a_process_are_listed() -> None:
    run(2, _groups_are_listed)
