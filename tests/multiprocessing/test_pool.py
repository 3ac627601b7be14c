"""Pools: tensors through them, and what becomes of tasks whose workers do not live to the end.

Not covered: the behaviour of the standard pool (``make cpython-suite``).
"""

from __future__ import annotations

import gc
import multiprocessing.pool as standard
import os
import signal
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import mp_pool_tasks as tasks
import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing._channel import Channel
from shmtensor.multiprocessing.pool import BrokenPoolError, Pool, ThreadPool, WorkerLostError

METHODS = ("fork", "spawn", "forkserver")
WAIT_S = 60  # against hangs; nothing here takes long


@pytest.fixture
def pool() -> Iterator[Pool]:
    with mp.get_context("fork").Pool(2) as made:
        yield made
    made.join()
    made._pool.clear()  # pytest keeps the pool for a while; its processes have descriptors


# --- use --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_arguments_and_results_are_shared_memory(method: str) -> None:
    tensor = st.zeros(4)
    with mp.get_context(method).Pool(1) as pool:
        back = pool.apply(tasks.add_one, (tensor,))
        pool.close()
        pool.join()
    assert back.data_ptr() == tensor.data_ptr()
    assert tensor.tolist() == [1.0] * 4


@pytest.mark.check
def test_result_outlives_the_worker_that_made_it() -> None:
    with mp.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        results = pool.map(tasks.full, range(8), chunksize=1)
        pool.close()
        pool.join()
    assert [r.tolist() for r in results] == [[float(i)] * 100 for i in range(8)]


def test_pool_of_the_module_needs_no_context_and_can_be_subclassed() -> None:
    class Mine(Pool):
        def describe(self) -> str:
            return f"{len(self._pool)} workers"

    with Mine(2) as pool:
        assert isinstance(pool, standard.Pool)
        assert pool.describe() == "2 workers"
        assert pool.starmap(tasks.add, [(1, 2), (st.ones(2), 1)])[0] == 3
    assert ThreadPool is standard.ThreadPool


def test_results_come_by_every_method(pool: Pool) -> None:
    squares = [i * i for i in range(30)]
    assert pool.map(tasks.square, range(30)) == squares
    assert pool.map_async(tasks.square, range(30), chunksize=7).get(WAIT_S) == squares
    assert list(pool.imap(tasks.square, range(30))) == squares
    assert list(pool.imap(tasks.square, range(30), chunksize=4)) == squares
    assert sorted(pool.imap_unordered(tasks.square, range(30))) == squares
    assert pool.map(tasks.square, []) == []


def test_large_messages_pass_both_ways(pool: Pool) -> None:
    sent = [bytes([i]) * (3 << 20) for i in range(4)]
    assert pool.map(tasks.same, sent, chunksize=1) == sent


def _collect(held: list[Any]) -> None:
    held.clear()
    gc.collect()


def test_pool_that_nobody_refers_to_is_collected_with_its_workers() -> None:
    pool = mp.get_context("fork").Pool(1)
    pid = pool.apply(os.getpid)
    seen = weakref.ref(pool)
    held = [pool]
    del pool
    with pytest.warns(ResourceWarning, match="unclosed running multiprocessing pool"):
        _collect(held)
    assert seen() is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# --- workers that end -------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_killed_worker_fails_its_task_and_no_other(method: str) -> None:
    with mp.get_context(method).Pool(2) as pool:
        results = [pool.apply_async(tasks.die_of, (i == 3,)) for i in range(8)]
        assert [r.get(WAIT_S) for i, r in enumerate(results) if i != 3] == [False] * 7
        with pytest.raises(WorkerLostError, match=r"process \d+ of .* killed by SIGKILL") as lost:
            results[3].get(WAIT_S)
        assert lost.value.exitcode == -signal.SIGKILL
        assert lost.value.signal_name == "SIGKILL"
        assert isinstance(lost.value, RuntimeError)
        assert pool.map(tasks.square, range(5)) == [0, 1, 4, 9, 16]
        assert lost.value.pid not in [w.pid for w in pool._pool]


def test_map_raises_what_became_of_its_lost_part(pool: Pool) -> None:
    with pytest.raises(WorkerLostError):
        pool.map_async(tasks.die_of, [False, True, False]).get(WAIT_S)
    outcomes = []
    lost = pool.imap(tasks.die_of, [False, True, False])
    for _ in range(3):
        try:
            outcomes.append(lost.next(WAIT_S))
        except WorkerLostError:
            outcomes.append("lost")
    assert outcomes == [False, "lost", False]


def test_worker_that_exits_in_a_task_is_named_with_its_code(pool: Pool) -> None:
    with pytest.raises(WorkerLostError, match="exited with code 7") as lost:
        pool.apply_async(os._exit, (7,)).get(WAIT_S)
    assert lost.value.signal_name is None
    errors: list[BaseException] = []
    pending = pool.apply_async(os._exit, (8,), error_callback=errors.append)
    pending.wait(WAIT_S)
    assert [type(e) for e in errors] == [WorkerLostError]


def test_idle_workers_that_are_killed_are_replaced_without_a_word(pool: Pool) -> None:
    for worker in list(pool._pool):
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    # A task may still go to a worker whose death is not seen yet.
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            assert pool.map_async(tasks.square, range(4)).get(WAIT_S) == [0, 1, 4, 9]
            break
        except WorkerLostError:
            continue


def test_map_while_no_worker_is_alive(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_pool", [])  # as in the moment before killed ones are replaced
    assert pool.map(tasks.square, iter(range(9))) == [i * i for i in range(9)]
    assert pool.map(tasks.square, []) == []


def test_worker_killed_inside_a_large_result_fails_its_task(pool: Pool) -> None:
    pending = pool.apply_async(tasks.die_while_sending)
    with pytest.raises(WorkerLostError):
        pending.get(WAIT_S)
    assert pool.apply_async(tasks.square, (3,)).get(WAIT_S) == 9


@pytest.mark.parametrize("nbytes", [2**62, 2**64 - 1])
def test_result_for_which_there_is_no_memory_fails_its_task(nbytes: int, pool: Pool) -> None:
    with pytest.raises(WorkerLostError):
        pool.apply_async(tasks.announce, (nbytes,)).get(WAIT_S)
    assert pool.map_async(tasks.same, [1, 2, 3]).get(WAIT_S) == [1, 2, 3]


def test_initializer_that_always_fails_breaks_the_pool(capfd: Any) -> None:
    with mp.get_context("fork").Pool(2, initializer=tasks.refuse) as pool:
        with pytest.raises(BrokenPoolError, match="in a row ended before they were ready"):
            pool.map_async(tasks.square, range(3)).get(WAIT_S)
        with pytest.raises(BrokenPoolError, match="the pool is broken"):
            pool.apply_async(tasks.square, (1,))
    pool.join()
    assert "refused" in capfd.readouterr().err


# --- tasks that cannot be sent, and callbacks -------------------------------------------------


@pytest.mark.parametrize(
    ("function", "argument", "error"),
    [
        (tasks.same, tasks.Unloadable(), ValueError),
        (tasks.make_unloadable, None, ValueError),
        (tasks.make_unpicklable, None, standard.MaybeEncodingError),  # type: ignore[attr-defined]
        (tasks.same, lambda: None, Exception),
    ],
)
def test_what_cannot_be_pickled_fails_its_task(
    function: Any, argument: Any, error: type[Exception], pool: Pool
) -> None:
    with pytest.raises(error):
        pool.apply_async(function, (argument,)).get(WAIT_S)
    assert pool.apply_async(tasks.square, (3,)).get(WAIT_S) == 9


@pytest.mark.check
def test_callback_that_raises_does_not_hold_up_the_result(pool: Pool, capfd: Any) -> None:
    def fail(value: object) -> None:
        raise KeyError("of the callback")

    assert pool.apply_async(tasks.square, (3,), callback=fail).get(WAIT_S) == 9
    assert pool.apply_async(tasks.square, (4,)).get(WAIT_S) == 16
    assert "of the callback" in capfd.readouterr().err


# --- the end ----------------------------------------------------------------------------------


def test_results_missing_at_terminate_raise() -> None:
    pool = mp.get_context("fork").Pool(2)
    pending = pool.map_async(time.sleep, [1000] * 4, chunksize=1)
    one_by_one = pool.imap(time.sleep, [1000] * 100)
    pool.terminate()
    pool.join()
    with pytest.raises(BrokenPoolError, match="terminated"):
        pending.get(WAIT_S)
    with pytest.raises(BrokenPoolError, match="terminated"):
        one_by_one.next(WAIT_S)
    with pytest.raises(ValueError, match="Pool not running"):
        pool.apply_async(tasks.square, (1,))


def test_stopped_worker_does_not_stop_terminate() -> None:
    pool = mp.get_context("fork").Pool(1)
    pid = pool.apply(os.getpid)
    os.kill(pid, signal.SIGSTOP)
    pool.terminate()
    pool.join()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_endless_iterator_does_not_stop_terminate() -> None:
    pool = mp.get_context("fork").Pool(1)
    endless = pool.imap(tasks.square, iter(lambda: 2, None))
    assert next(endless) == 4
    pool.terminate()
    pool.join()


_PARENT = """
import os, sys
import mp_pool_tasks as tasks
import numpy as np
import shmtensor.multiprocessing as mp
if __name__ == "__main__":
    pool = mp.get_context(sys.argv[1]).Pool(3)
    print(*[w.pid for w in pool._pool], flush=True)
    pool.map(tasks.square, range(10))
    sys.stdin.readline()
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_leave_when_the_pools_process_is_killed(method: str, scripts: Any) -> None:
    script = scripts(_PARENT, method)
    watched = [os.pidfd_open(int(pid)) for pid in script.line().split()]
    try:
        script.process.kill()
        script.process.wait()
        for pidfd in watched:
            assert mp.connection.wait([pidfd], timeout=WAIT_S) == [pidfd]
    finally:
        for pidfd in watched:
            os.close(pidfd)


# --- user code that is called in between ------------------------------------------------------


def test_arguments_may_ask_the_pool_while_they_are_pickled(pool: Pool) -> None:
    pool.apply(tasks.square, (2,))  # a worker is ready
    assert pool.apply_async(tasks.same, (tasks.AsksPool(pool),)).get(WAIT_S) == 9


def test_arguments_may_wait_for_results_while_they_are_pickled(pool: Pool) -> None:
    before = pool.map_async(tasks.square, range(40), chunksize=1)
    first = pool.apply_async(tasks.square, (5,))
    after = pool.map_async(tasks.same, [tasks.WaitsForResult(first)] * 3, chunksize=1)
    assert after.get(WAIT_S) == [25, 25, 25]
    assert before.get(WAIT_S) == [i * i for i in range(40)]


@pytest.mark.parametrize("name", ["imap", "imap_unordered"])
def test_a_stop_iteration_of_a_task_does_not_end_the_results(pool: Pool, name: str) -> None:
    results = getattr(pool, name)(tasks.stop_at_three, range(6))
    found: list[Any] = []
    for _ in range(6):
        try:
            found.append(next(results))
        except RuntimeError as error:
            found.append((str(error), type(error.__cause__)))
    failure = ("a task of the pool raised StopIteration", StopIteration)
    assert sorted(found, key=str) == [failure, 0, 1, 2, 4, 5]
    with pytest.raises(StopIteration):
        next(results)


@pytest.mark.parametrize("chunksize", [1, 2, 6])
def test_a_stop_iteration_in_a_chunk_is_an_error(pool: Pool, chunksize: int) -> None:
    said = pytest.raises(RuntimeError, match="a task of the pool raised StopIteration")
    with said:
        pool.map(tasks.stop_at_three, range(6), chunksize)
    with said:
        pool.starmap(tasks.stop_at_three, [(i,) for i in range(6)], chunksize)
    for name in ("imap", "imap_unordered"):
        with said:
            list(getattr(pool, name)(tasks.stop_at_three, range(6), chunksize))


def test_a_stop_iteration_of_a_single_task_is_its_own(pool: Pool) -> None:
    with pytest.raises(StopIteration, match="no more"):
        pool.apply(tasks.stop_at_three, (3,))


# --- the supervisor's end of a connection -----------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4095, 1 << 16, (1 << 16) + 1, 1 << 20])
def test_channel_and_connection_understand_each_other(size: int) -> None:
    channel = Channel()
    try:
        message = os.urandom(size)
        assert channel.sender.begin("task", message)
        assert not channel.sender.begin("another", b"while it has one")
        received = b""
        while channel.sender.has_unsent:  # more than the socket's buffer takes
            received += os.read(channel.worker_end.fileno(), 1 << 16)
            channel.sender.flush()
        if not received:
            assert channel.worker_end.recv_bytes() == message
        else:
            while len(received) < size + 4:
                received += os.read(channel.worker_end.fileno(), 1 << 16)
            assert received[4:] == message
        assert channel.sender.end() == "task"
        assert channel.sender.end() is None
        assert channel.receive() == []
        messages: list[bytearray] = []
        for part in (message[:1000], b"", b"x" * 70000):
            channel.worker_end.send_bytes(part)
            messages += channel.receive()
        assert messages == [message[:1000], b"", b"x" * 70000]
        channel.close_worker_end()
        assert channel.receive() == []
        assert channel.is_at_end
    finally:
        channel.close()


class _Lookalike:
    """A program's own stand-in for a process, with a part of the documented methods."""

    made: ClassVar[list[_Lookalike]] = []

    def __init__(self, **_: object) -> None:
        self.name = "lookalike"
        self.exitcode: int | None = None
        self.state = "made"
        self.made.append(self)

    def start(self) -> None:
        if len(self.made) == 3:
            raise OSError("no more")
        self.state = "runs"

    def is_alive(self) -> bool:
        return self.state == "runs"

    def terminate(self) -> None:
        self.state = "ended"

    def join(self) -> None:
        assert self.state == "ended"


class _LookalikeContext:
    Process = _Lookalike


def test_start_that_fails_ends_processes_of_any_kind() -> None:
    with pytest.raises(OSError, match="no more"):
        Pool(4, context=_LookalikeContext())
    assert [process.state for process in _Lookalike.made] == ["ended", "ended", "made"]


# --- where and how many -----------------------------------------------------------------------


@pytest.mark.check
def test_forked_child_is_told_that_the_pool_is_its_parents(pool: Pool) -> None:
    calls: list[Callable[[], object]] = [
        lambda: pool.apply_async(tasks.same, (1,)),
        lambda: pool.map_async(tasks.same, [1]),
        lambda: pool.imap(tasks.same, [1]),
    ]
    child = os.fork()
    if not child:
        for call in calls:
            try:
                call()
            except ValueError as error:
                if f"it is process {os.getppid()}'s" in str(error):
                    continue
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pool.apply_async(tasks.same, (1,)).get(WAIT_S) == 1


@pytest.mark.parametrize("wrong", [float("nan"), 1.5, "2"])
def test_number_of_processes_is_an_integer(wrong: Any) -> None:
    with pytest.raises(TypeError, match="integer"):
        Pool(wrong)


@pytest.mark.parametrize("timeout", [1e300, float("inf")])
def test_a_result_may_be_waited_for_without_end(timeout: float, pool: Pool) -> None:
    assert pool.apply_async(tasks.same, (1,)).get(timeout) == 1
    assert pool.imap(tasks.same, [1]).next(timeout) == 1


def test_numbers_may_be_of_any_library() -> None:
    with mp.get_context("fork").Pool(np.int64(1), maxtasksperchild=np.int32(1)) as pool:
        first, second = (pool.apply_async(os.getpid).get(WAIT_S) for _ in range(2))
        assert first != second
    pool._pool.clear()
