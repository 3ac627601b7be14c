"""The backend mpi: values of all collectives, sub-groups, messages, and ranks that fail."""

from __future__ import annotations

import pytest
from mpi_ranks import Ranks, require_mpi

import shmtensor.distributed as dist

require_mpi()

pytestmark = pytest.mark.timeout(180)

HEAD = """
import os, sys, time
from datetime import timedelta
from pathlib import Path
import numpy as np
import waiting
import shmtensor as st
import shmtensor.distributed as dist

assert "MASTER_ADDR" not in os.environ
dist.init_process_group("mpi", timeout=timedelta(seconds=20))
rank, size = dist.get_rank(), dist.get_world_size()
"""
TAIL = """
dist.destroy_process_group()
print("good")
"""


def all_are_good(ranks: Ranks, n: int) -> None:
    status = ranks.finish()
    texts = [ranks.text(rank) for rank in range(n)]
    assert all("good" in text for text in texts), "\n---\n".join(texts)
    assert status == 0
    assert ranks.nothing_is_left()


@pytest.mark.check
@pytest.mark.parametrize("n", [1, 2, 3])
def test_reductions(job, n):
    script = f"""{HEAD}
def of(r, dtype):  # what rank r has
    values = (np.arange(1, 8) * (r + 1) + r) % 11 - (0 if dtype == st.uint8 else 3)
    return values

def combined(name, dtype):
    whole = np.stack([of(r, dtype) for r in range(size)])
    return {{"SUM": whole.sum(0), "PRODUCT": whole.prod(0), "MIN": whole.min(0),
            "MAX": whole.max(0), "AVG": np.trunc(whole.sum(0) / size),
            "BAND": np.bitwise_and.reduce(whole), "BOR": np.bitwise_or.reduce(whole),
            "BXOR": np.bitwise_xor.reduce(whole)}}[name]

floats = [st.float32, st.float64, st.float16, st.bfloat16]
whole = [st.uint8, st.int8, st.int16, st.int32, st.int64]
for dtype in floats + whole:
    names = ["SUM", "PRODUCT", "MIN", "MAX"] + (["BAND", "BOR", "BXOR", "AVG"] * (dtype in whole))
    for name in names:
        op = getattr(dist.ReduceOp, name)
        right = st.tensor(combined(name, dtype)).to(dtype).tolist()
        mine = st.tensor(of(rank, dtype)).to(dtype)
        t = mine.clone()
        dist.all_reduce(t, op)
        assert t.tolist() == right, (name, dtype, t, right)
        t = mine.clone()
        dist.reduce(t, size - 1, op)
        assert t.tolist() == (right if rank == size - 1 else mine.tolist()), (name, dtype, t)
        out = mine.new_zeros(7)
        dist.reduce_scatter(out, [mine + 0 * i for i in range(size)], op)
        assert out.tolist() == right, (name, dtype, out)
t = st.full((3,), rank + 1.0)
dist.all_reduce(t, dist.ReduceOp.AVG)
assert t.tolist() == [(size + 1) / 2] * 3
for name, right in (("SUM", [True, size == 1]), ("PRODUCT", [size == 1, size == 1]),
                    ("MIN", [size == 1, size == 1]), ("MAX", [True, size == 1])):
    t = st.tensor([rank == 0, size == 1])
    dist.all_reduce(t, getattr(dist.ReduceOp, name))
    assert t.tolist() == right, (name, t)
t = st.tensor([1 + 2j]) * (rank + 1)
dist.all_reduce(t)
assert t.tolist() == [(1 + 2j) * size * (size + 1) / 2]
# Not contiguous, and large, and with rounding: the same bits everywhere.
generator = st.Generator().manual_seed(rank)
t = st.randn(300, 400, generator=generator).t()
dist.all_reduce(t)
bits = [st.zeros(400, 300) for _ in range(size)]
dist.all_gather(bits, t)
assert all((each == t).all() for each in bits)
{TAIL}"""
    all_are_good(job(n, script), n)


@pytest.mark.parametrize("n", [1, 3])
def test_copies(job, n):
    script = f"""{HEAD}
for dtype in (st.float32, st.bfloat16, st.int64, st.bool, st.complex64):
    def of(r):
        return (st.arange(6).reshape(2, 3) + r).to(dtype)
    t = of(rank)
    dist.broadcast(t, size - 1)
    assert (t == of(size - 1)).all()
    outs = [of(9) for _ in range(size)]
    dist.all_gather(outs, of(rank))
    assert all((out == of(r)).all() for r, out in enumerate(outs))
    into = st.cat([of(9)] * size)
    dist.all_gather_into_tensor(into, of(rank))
    assert (into == st.cat([of(r) for r in range(size)])).all()
    outs = [of(9) for _ in range(size)] if rank == 0 else None
    dist.gather(of(rank), outs, 0)
    assert rank or all((out == of(r)).all() for r, out in enumerate(outs))
    out = of(9)
    dist.scatter(out, [of(r + 5) for r in range(size)] if rank == 0 else None, 0)
    assert (out == of(rank + 5)).all()
    outs = [of(9) for _ in range(size)]
    dist.all_to_all(outs, [of(10 * rank + r) for r in range(size)])
    assert all((out == of(10 * r + rank)).all() for r, out in enumerate(outs))
given = st.arange(size * (size + 1) // 2) + 100 * rank
parts = list(range(1, size + 1))  # to rank r go r + 1
out = st.zeros(size * (rank + 1), dtype=st.int64)
dist.all_to_all_single(out, given, [rank + 1] * size, parts)
first = rank * (rank + 1) // 2
assert out.tolist() == [100 * r + first + k for r in range(size) for k in range(rank + 1)]
dist.barrier()
empty = st.zeros(0)
dist.all_reduce(empty)
{TAIL}"""
    all_are_good(job(n, script), n)


def test_sub_groups_messages_and_asynchronous_work(job):
    script = f"""{HEAD}
assert dist.get_backend() == "mpi"
pair = dist.new_group([2, 0])
if rank != 1:
    t = st.tensor([rank])
    dist.all_reduce(t, group=pair)
    assert t.item() == 2
    assert dist.get_rank(pair) == (0 if rank == 0 else 1)
work = dist.all_reduce(big := st.ones(100_000), async_op=True)
work.wait()
assert (big == 3).all()
to, source = (rank + 1) % 3, (rank - 1) % 3
got = st.zeros(4, dtype=st.bfloat16)
works = [dist.isend(st.full((4,), rank, dtype=st.bfloat16), to, tag=5),
         dist.irecv(got, source, tag=5)]
for work in works:
    work.wait()
assert got.tolist() == [source] * 4
if rank == 0:
    seen = set()
    for _ in range(2):
        t = st.zeros(2)
        sender = dist.recv(t)
        assert t.tolist() == [sender] * 2
        seen.add(sender)
    assert seen == {{1, 2}}
else:
    dist.send(st.full((2,), float(rank)), 0)
dist.barrier()
{TAIL}"""
    all_are_good(job(3, script), 3)


def test_a_group_can_be_made_again(job):
    script = f"""{HEAD}
dist.destroy_process_group()
dist.init_process_group("mpi", timeout=timedelta(seconds=20))
t = st.ones(2)
dist.all_reduce(t)
assert t.tolist() == [2, 2]
{TAIL}"""
    all_are_good(job(2, script), 2)


def test_addresses_and_ranks_of_another_launcher_are_taken(job):
    script = """
import os, shmtensor as st, shmtensor.distributed as dist
rank = 1 - int(os.environ["PMI_RANK"])  # not MPI's
dist.init_process_group("mpi", init_method=f"file://{os.getcwd()}/meet", rank=rank, world_size=2)
t = st.tensor([rank])
dist.broadcast(t, 1)
assert t.item() == 1 and dist.get_rank() == rank
dist.destroy_process_group()
print("good")
"""
    all_are_good(job(2, script), 2)


FAILING = HEAD.replace("seconds=20", "seconds=3") + (
    """
def fails(call):
    try:
        call()
    except dist.DistBackendError as error:
        print("error:", error)
    else:
        print("no error")
"""
)


@pytest.mark.check
def test_a_rank_that_does_not_come_is_not_waited_for(job):
    script = f"""{FAILING}
if rank == 0:
    fails(dist.barrier)
    fails(lambda: dist.all_reduce(st.ones(3)))
    Path("told").touch()
else:
    waiting.until(Path("told").exists)
os._exit(0)
"""
    ranks = job(2, script)
    ranks.wait_for(0, "error: barrier failed on rank 0: it has taken longer than 3 s")
    ranks.wait_for(0, "error: all_reduce failed on rank 0: it has taken longer than 3 s")
    ranks.finish()
    assert ranks.nothing_is_left()


def test_a_waiting_rank_learns_that_the_group_was_aborted(job):
    script = f"""{HEAD.replace("seconds=20", "seconds=100")}
if rank == 0:
    dist.group.WORLD.abort()
    waiting.until(Path("told").exists)
else:
    try:
        dist.all_reduce(st.ones(3))
    except dist.DistBackendError as error:
        print("error:", error)
    Path("told").touch()
os._exit(0)
"""
    ranks = job(2, script)
    ranks.wait_for(1, "error: all_reduce failed on rank 1: a rank has aborted the group")
    ranks.finish()


def test_a_killed_rank_0_is_noticed(job):
    script = f"""{HEAD.replace("seconds=20", "seconds=100")}
if rank == 0:
    os.kill(os.getpid(), 9)
try:
    dist.barrier()
except dist.DistBackendError as error:
    print("error:", error)
os._exit(0)
"""
    ranks = job(2, script)
    ranks.wait_for(1, "error: barrier failed on rank 1: rank 0, which keeps the store, is lost")
    ranks.finish()
    assert ranks.nothing_is_left()


def test_an_error_ends_the_job(job):
    script = f"""{HEAD}
if rank == 1:
    raise LookupError("no such thing")
dist.barrier()
print("not reached")
"""
    ranks = job(2, script, is_plain=True)
    assert ranks.finish() != 0
    assert "no such thing" in ranks.text(1)
    assert "not reached" not in ranks.text(0)
    assert ranks.nothing_is_left()


def test_tags_and_lengths_are_checked(job):
    script = f"""{FAILING}
if rank == 0:
    dist.send(st.ones(2), 1)
    waiting.until(Path("told").exists)
else:
    try:
        dist.recv(st.ones(3), 0, tag=-1)
    except ValueError as error:
        print("error:", error)
    fails(lambda: dist.recv(st.ones(3), 0))
    Path("told").touch()
os._exit(0)
"""
    ranks = job(2, script)
    ranks.wait_for(1, "error: .*takes tags from 0 to .*, got -1")
    ranks.wait_for(1, "rank 0 sent 8 bytes, expected 12")
    ranks.finish()


def test_it_is_there():
    assert dist.is_mpi_available()
    assert dist.is_backend_available("mpi")


_DIFFERENT = {
    "dtypes": ("dist.all_reduce(f)", "dist.all_reduce(i)", "all_reduce of 24 bytes of torch.int32"),
    "complex numbers": (
        "dist.all_reduce(f)",
        "dist.all_reduce(st.zeros(3, dtype=st.complex64))",
        "all_reduce of 24 bytes of torch.complex64",
    ),
    "roots": ("dist.broadcast(f, 0)", "dist.broadcast(f, 1)", "torch.float32 with root 1"),
    "kinds": ("dist.broadcast(f, 0)", "dist.all_reduce(f)", "all_reduce of 24 bytes"),
    "barrier": ("dist.reduce(f, 0)", "dist.barrier()", "barrier"),
    "sizes": (
        "dist.all_to_all([f.clone(), f.clone()], [f, f])",
        "dist.all_to_all([f.clone(), f.clone()], [f, f[:2]])",
        None,
    ),
    "sizes of one": (
        "dist.all_to_all([f.clone(), f.clone()], [f, f])",
        "dist.all_to_all([f.clone(), f.clone()], [f[:2], f])",
        "all_to_all with 6 elements from rank 1",
    ),
}


@pytest.mark.parametrize("name", _DIFFERENT)
def test_ranks_that_call_different_things(job, name):
    one, other, said = _DIFFERENT[name]
    script = f"""{HEAD}
f, i = st.ones(6), st.ones(6, dtype=st.int32)
try:
    {one} if rank == 0 else {other}
except RuntimeError as error:
    text = str(error)
assert text.startswith("ranks do not call the same: rank "), text
assert "rank 0 calls" in text or "from rank 1" in text, text
assert {said!r} is None or {said!r} in text, text
print("good", flush=True)
os._exit(0)
"""
    ranks = job(2, script)
    ranks.finish()
    assert all("good" in ranks.text(rank) for rank in range(2)), ranks.text(0) + ranks.text(1)
