"""Ranks that die, stop, leave, come too late or call another thing."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path
from typing import Any

import pytest
import waiting
from ranks import LIMIT_S, Ranks, run

import shmtensor as T
from shmtensor import distributed as dist

FORK = multiprocessing.get_context("fork")


def _reduce_for_ever(rank: int, size: int, n: int, begun: Semaphore) -> str:
    x = T.ones(n)
    try:
        while True:
            dist.all_reduce(x, dist.ReduceOp.MAX)
            begun.release()
    except dist.DistBackendError as error:
        return str(error)


@pytest.mark.check
@pytest.mark.parametrize("n", [1, 2_000_000])
def test_a_rank_is_killed(n: int) -> None:
    begun = FORK.Semaphore(0)
    with Ranks(3, _reduce_for_ever, n, begun) as ranks:
        for _ in range(10):
            assert begun.acquire(timeout=LIMIT_S)
        ranks.kill(1)
        for rank in (0, 2):
            text = ranks.answer(rank)
            assert f"rank {rank}: rank 1 is lost, its process has ended" in text


def _each_way(rank: int, size: int, how: str) -> str:
    x = T.ones(100_000)
    calls: dict[str, Any] = {
        "broadcast": lambda: dist.broadcast(x, 1),
        "reduce": lambda: dist.reduce(x, 0),
        "all_gather": lambda: dist.all_gather([x.clone(), x.clone()], x),
        "barrier": dist.barrier,
        "recv": lambda: dist.recv(x, 1),
        "recv any": lambda: dist.recv(x),
        "send": lambda: [dist.send(x, 1) for _ in range(100)],
        "async": lambda: dist.all_reduce(x, async_op=True).wait(),  # type: ignore[union-attr]
    }
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            calls[how]()
    except dist.DistBackendError as error:
        text = str(error)
    with pytest.raises(dist.DistBackendError, match="rank 1 is lost"):
        dist.barrier()  # the group stays broken
    return text


@pytest.mark.parametrize(
    "how", ["broadcast", "reduce", "all_gather", "barrier", "recv", "recv any", "send", "async"]
)
def test_whoever_waits_for_a_killed_rank_is_told(how: str) -> None:
    with Ranks(2, _each_way, how) as ranks:
        assert "rank 1 is lost" in ranks.answer(0)


def _with_children(rank: int, size: int, told: Path) -> None:
    if rank == 1:
        if os.fork() == 0:  # lives on, with copies of what its parent had open
            for _ in range(600):
                if told.exists():
                    break
                time.sleep(0.05)
            os._exit(0)
        dist.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    try:
        with pytest.raises(dist.DistBackendError, match="rank 1 is lost, its process has ended"):
            dist.barrier()
    finally:
        told.touch()


def test_a_killed_rank_has_children(tmp_path: Path) -> None:
    with Ranks(2, _with_children, tmp_path / "told") as ranks:
        ranks.answer(0)


def _leaves(rank: int, size: int) -> str:
    x = T.ones(10)
    dist.all_reduce(x)
    if rank == 1:
        dist.destroy_process_group()
        return "left"
    if rank == 0:
        dist.send(x, 2)  # does not need rank 1
    else:
        dist.recv(x, 0)
    with pytest.raises(dist.DistBackendError, match="rank 1 is lost, it has left the group"):
        dist.all_reduce(x)
    return "told"


def test_a_rank_leaves() -> None:
    assert run(3, _leaves) == ["told", "left", "told"]


def _too_late(rank: int, size: int, given_up: Event) -> str:
    try:
        if rank == 1:
            assert given_up.wait(LIMIT_S)
        dist.barrier(timeout=timedelta(seconds=1))
    except dist.DistBackendError as error:
        return str(error)
    finally:
        given_up.set()
    return "came"


def test_a_rank_comes_too_late() -> None:
    answers = run(2, _too_late, FORK.Event())
    assert "barrier timed out on rank 0 after 1 s: rank 1 did not come" in answers[0]
    assert "rank 0 is lost, it has aborted" in answers[1]


def _barrier_time(rank: int, size: int, given_up: Event) -> str:
    if rank == 1:
        dist.monitored_barrier(timeout=timedelta(seconds=20))
        assert given_up.wait(LIMIT_S)
        return ""
    dist.monitored_barrier()
    with pytest.raises(RuntimeError, match="Ranks 1 have not come"):
        dist.monitored_barrier(timeout=timedelta(milliseconds=300), wait_all_ranks=True)
    with pytest.raises(dist.DistBackendError, match=r"after 0\.2 s"):
        dist.barrier(timeout=timedelta(milliseconds=200))
    given_up.set()
    return ""


def test_a_call_has_a_timeout_of_its_own() -> None:
    run(2, _barrier_time, FORK.Event())


def _another_thing(rank: int, size: int) -> str:
    x = T.ones(100)
    try:
        if rank == 0:
            dist.all_reduce(x)
        else:
            dist.all_reduce(x[:50], dist.ReduceOp.MAX)
    except dist.DistBackendError as error:
        return str(error)
    return "did not see"


def test_ranks_that_call_different_things() -> None:
    answers = run(2, _another_thing)
    said = "all_reduce of 400 bytes of torch.float32 with SUM"
    theirs = "all_reduce of 200 bytes of torch.float32 with MAX"
    assert any(f"calls {said}, rank 1 calls {theirs}" in a for a in answers) or any(
        f"calls {theirs}, rank 0 calls {said}" in a for a in answers
    ), answers
    assert "did not see" not in answers


def _wrong_length(rank: int, size: int) -> str:
    if rank == 0:
        dist.send(T.ones(3), 1)
        return ""
    with pytest.raises(
        dist.DistBackendError, match="has sent 12 bytes, rank 1 wants to receive 16"
    ):
        dist.recv(T.ones(4), 0)
    return ""


@pytest.mark.check
def test_a_message_of_another_length() -> None:
    run(2, _wrong_length)


def _aborts(rank: int, size: int) -> str:
    if rank == 1:
        time.sleep(0.3)
        assert dist.group.WORLD is not None
        dist.group.WORLD.abort()
        return ""
    with pytest.raises(dist.DistBackendError, match="rank 1 is lost, it has aborted"):
        dist.barrier()
    return ""


def test_a_rank_aborts() -> None:
    run(2, _aborts)


def _interrupted(rank: int, size: int, interrupted: Event) -> str:
    if rank == 1:
        assert interrupted.wait(LIMIT_S)
        with pytest.raises(dist.DistBackendError, match="rank 0 is lost, it has aborted"):
            dist.barrier()
        return "told"
    signal.signal(signal.SIGALRM, signal.default_int_handler)

    def wait_shortly() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        dist.barrier()

    with pytest.raises(KeyboardInterrupt):
        wait_shortly()
    interrupted.set()
    return "interrupted"


def test_a_wait_is_interrupted() -> None:
    assert run(2, _interrupted, FORK.Event()) == ["interrupted", "told"]


def _stops(rank: int, size: int) -> str:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    x = T.ones(1000)
    dist.all_reduce(x)
    return str(x[0].item())


def test_a_stopped_rank_is_waited_for() -> None:
    with Ranks(2, _stops) as ranks:
        pid = ranks.processes[1].pid
        assert pid is not None
        waiting.until(lambda: waiting.process_state(pid) == "T")
        os.kill(pid, signal.SIGCONT)
        assert ranks.answers() == ["2.0", "2.0"]


def test_nothing_is_left_of_killed_ranks() -> None:
    before = set(os.listdir("/dev/shm"))
    with Ranks(3, _reduce_for_ever, 1000) as ranks:
        time.sleep(0.3)
        for rank in range(3):
            ranks.kill(rank)
    assert waiting.nothing_new_in_dev_shm(before)
    with open("/proc/net/unix") as sockets:
        assert "@shmtensor-group-" not in sockets.read()


def _can_unshare() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    command = [unshare, "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


NAMESPACED = """
import os, sys
import shmtensor as T
from shmtensor import distributed as dist
rank, port = int(sys.argv[1]), int(sys.argv[2])
store = dist.TCPStore("127.0.0.1", port)
dist.init_process_group("shm", store=store, rank=rank, world_size=2)
x = T.ones(1000)
dist.all_reduce(x)
print(os.getpid() == 1, x[0].item(), flush=True)
try:
    while True:
        dist.all_reduce(x, dist.ReduceOp.MAX)
except dist.DistBackendError as error:
    print(error, flush=True)
"""


@pytest.mark.skipif(not _can_unshare(), reason="needs the right to make a pid namespace")
def test_a_rank_in_another_pid_namespace_is_killed() -> None:
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    program = [sys.executable, "-c", NAMESPACED]
    ranks = [
        subprocess.Popen(
            [*before, *program, str(rank), str(store.port)], stdout=subprocess.PIPE, text=True
        )
        for rank, before in enumerate(
            [[], ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]]
        )
    ]
    first = [rank.stdout.readline() for rank in ranks if rank.stdout is not None]
    assert first == ["False 2.0\n", "True 2.0\n"]
    ranks[1].kill()
    out, _ = ranks[0].communicate(timeout=60)
    assert "rank 1 is lost, its process has ended" in out
    ranks[1].communicate()


def _without_its_descriptor(rank: int, size: int, path: str) -> str:
    x = T.ones(100)
    dist.all_reduce(x)
    if rank == 1:
        (number,) = [
            int(n)
            for n in os.listdir("/proc/self/fd")
            if os.path.islink(f"/proc/self/fd/{n}")
            and "shmtensor-group" in os.readlink(f"/proc/self/fd/{n}")
        ]
        with open(path, "wb") as file:
            os.dup2(file.fileno(), number)
    try:
        dist.recv(x, 1 - rank)
        return "received"
    except dist.DistBackendError as error:
        return str(error)
    finally:
        if rank == 1:
            dist.destroy_process_group()
            assert os.fstat(number).st_ino == os.stat(path).st_ino
            assert os.stat(path).st_size == 0


def test_a_rank_without_its_descriptor_is_lost(tmp_path: Path) -> None:
    texts = run(2, _without_its_descriptor, str(tmp_path / "file"))
    assert all("rank 1 is lost" in text for text in texts), texts
