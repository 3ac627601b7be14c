"""Waiting for queues: descriptors for select, asyncio, executors, signals.

Not covered: what the queues promise otherwise (test_queues), kills (test_queue_kill).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import select
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import mp_children
import pytest
import queue_children
import waiting

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing.queues import Empty, Queue, SimpleQueue

CONTEXT = mp.get_context("fork")
HANG_S = 100


def _n_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.check
@pytest.mark.parametrize("kind", [SimpleQueue, Queue])
def test_descriptor_is_readable_while_there_is_a_message(kind: Any) -> None:
    queue = kind(ctx=CONTEXT)
    fd = queue.fileno()
    assert queue.fileno() == fd
    assert not waiting.is_readable(fd)
    for _ in range(3):
        queue.put(1)
        assert waiting.is_readable(fd)
        queue.put(2)
        queue.get()
        assert waiting.is_readable(fd)
        queue.get()
        assert not waiting.is_readable(fd)


def test_descriptor_follows_what_other_processes_do(start_child: Callable[..., Any]) -> None:
    there, back = SimpleQueue(ctx=CONTEXT), SimpleQueue(ctx=CONTEXT)
    fd = back.fileno()
    start_child(mp_children.echo, there, back)
    for i in range(20):
        there.put(i)
        assert select.select([fd], [], [], HANG_S)[0] == [fd]
        assert back.get() == i
        assert not waiting.is_readable(fd)
    watched = there.fileno()
    there.put("taken by the child")
    assert back.get() == "taken by the child"
    waiting.until(lambda: not waiting.is_readable(watched))


def test_child_after_fork_has_descriptors_of_its_own(start_child: Callable[..., Any]) -> None:
    there, back = SimpleQueue(ctx=CONTEXT), SimpleQueue(ctx=CONTEXT)
    mine = there.fileno(), back.fileno()
    start_child(queue_children.echo_when_readable, there, back)
    for i in range(20):
        there.put(i)
        assert wait([back._reader], HANG_S) == [back._reader]
        assert back.get() == i
    assert (there.fileno(), back.fileno()) == mine


def test_descriptor_is_closed_with_its_queue() -> None:
    queue = Queue(ctx=CONTEXT)
    queue.put(1)
    before = _n_descriptors()
    queue.fileno()
    assert _n_descriptors() == before + 1
    del queue
    gc.collect()
    waiting.until(lambda: _n_descriptors() == before)


def _n_watchers() -> int:
    tasks = "/proc/self/task"
    names = []
    for task in os.listdir(tasks):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            names.append(Path(tasks, task, "comm").read_text().strip())
    return names.count("shmtensor-ready")


def test_a_few_threads_watch_hundreds_of_queues(start_child: Callable[..., Any]) -> None:
    before = _n_watchers()
    pairs = [(SimpleQueue(ctx=CONTEXT), SimpleQueue(ctx=CONTEXT)) for _ in range(150)]
    readable = {back.fileno(): back for _, back in pairs}
    assert _n_watchers() <= before + 3
    start_child(queue_children.answer_all, pairs)
    for turn in range(3):
        for i, (there, _) in enumerate(pairs):
            there.put((turn, i))
        missing = set(readable)
        while missing:
            ready, _, _ = select.select(list(missing), [], [], HANG_S)
            assert ready, f"{len(missing)} descriptors never became readable"
            for fd in ready:
                assert readable[fd].get()[0] == turn
                missing.discard(fd)
    for there, _ in pairs:
        there.put(None)
    del readable, pairs, there, _
    gc.collect()
    waiting.until(
        lambda: _n_watchers() <= before, lambda: f"{_n_watchers()} threads, {before} before"
    )


def test_reader_has_what_the_standard_pool_asks_of_a_connection() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    reader, writer = queue._reader, queue._writer
    assert (reader.readable, reader.writable, writer.readable, writer.writable) == (
        True,
        False,
        False,
        True,
    )
    assert not reader.poll()
    assert not reader.poll(0.01)
    writer.send((1, 2))
    assert reader.poll()
    assert reader.poll(None)
    assert reader.recv() == (1, 2)
    writer.close()
    assert writer.closed
    with pytest.raises(OSError, match="handle is closed"):
        writer.send(1)


# --- asyncio ---


def test_tasks_await_messages_and_room(start_child: Callable[..., Any]) -> None:
    there, back = Queue(2, ctx=CONTEXT), Queue(2, ctx=CONTEXT)
    start_child(mp_children.echo, there, back)
    n = 50

    async def produce() -> None:
        for i in range(n):
            await there.aput((i, st.full((3,), float(i))))

    async def consume() -> list[int]:
        got = []
        for _ in range(n):
            number, tensor = await back.aget()
            assert tensor[0] == number
            got.append(number)
        return got

    async def both() -> list[int]:
        _, got = await asyncio.gather(produce(), consume())
        return got

    assert asyncio.run(asyncio.wait_for(both(), HANG_S)) == list(range(n))
    there.put(None)


class _RaisesEmpty:
    def __reduce__(self) -> Any:
        return _raise_empty, ()


def _raise_empty() -> None:
    raise Empty("of the message")


def test_awaited_message_that_raises_empty_is_an_error() -> None:
    queue = Queue(ctx=CONTEXT)
    queue.put_many([_RaisesEmpty(), 1])

    async def run() -> int:
        with pytest.raises(Empty, match="of the message"):
            await queue.aget()
        return await queue.aget()

    assert asyncio.run(asyncio.wait_for(run(), HANG_S)) == 1


class _CountsPickling:
    n_pickled = 0

    def __reduce__(self) -> Any:
        type(self).n_pickled += 1
        return int, (7,)


def test_what_waits_for_room_is_pickled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_CountsPickling, "n_pickled", 0)
    queue = Queue(1, ctx=CONTEXT)
    queue.put(0)

    async def run() -> list[Any]:
        several = [asyncio.ensure_future(queue.aput(_CountsPickling())) for _ in range(3)]
        await asyncio.sleep(0.01)
        got = [await queue.aget() for _ in range(4)]
        await asyncio.gather(*several)
        return got

    assert asyncio.run(asyncio.wait_for(run(), HANG_S)) == [0, 7, 7, 7]
    assert _CountsPickling.n_pickled == 3


@pytest.mark.check
def test_aput_says_what_put_says() -> None:
    queue = Queue(1, ctx=CONTEXT)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        asyncio.run(queue.aput(lambda: None))
    asyncio.run(queue.aput(1))
    assert queue.get() == 1
    queue.close()
    with pytest.raises(ValueError, match="is closed"):
        asyncio.run(queue.aput(1))


def test_several_tasks_share_one_queue_and_may_be_cancelled() -> None:
    queue = Queue(ctx=CONTEXT)

    async def run() -> list[Any]:
        tasks = [asyncio.ensure_future(queue.aget()) for _ in range(4)]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        for i in range(3):
            queue.put(i)
        return await asyncio.wait_for(asyncio.gather(*tasks[1:]), HANG_S)

    before = _n_descriptors()
    assert sorted(asyncio.run(run())) == [0, 1, 2]
    assert _n_descriptors() <= before + 1


# --- executors ---


def test_executor_of_the_standard_library_works_over_our_queues() -> None:
    tensor = st.arange(10, dtype=st.float32).share_memory_()
    with ProcessPoolExecutor(2, mp_context=mp.get_context("fork")) as executor:
        results = list(executor.map(mp_children.double, [tensor + i for i in range(20)]))
    assert [r[0].item() for r in results] == [2.0 * i for i in range(20)]


# --- signals and time ---


class _StopError(Exception):
    pass


def test_signal_handler_runs_while_get_waits() -> None:
    queue = Queue(ctx=CONTEXT)

    def stop(number: int, frame: Any) -> None:
        raise _StopError

    old = signal.signal(signal.SIGUSR1, stop)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1))
    try:
        timer.start()
        with pytest.raises(_StopError):
            queue.get(timeout=HANG_S)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, old)
    queue.put(1)
    assert queue.get() == 1


def test_handler_that_returns_lets_get_go_on() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    seen: list[int] = []
    old = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    main = threading.main_thread().ident
    assert main is not None
    timers = [
        threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1)),
        threading.Timer(0.2, queue.put, ("late",)),
    ]
    try:
        for timer in timers:
            timer.start()
        assert queue.get() == "late"
    finally:
        for timer in timers:
            timer.join()
        signal.signal(signal.SIGUSR1, old)
    assert seen == [signal.SIGUSR1]


_GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent
import shmtensor.multiprocessing as mp

queue, bounded, simple = mp.Queue(), mp.Queue(1), mp.get_context("fork").SimpleQueue()
ticks = []

def tick():
    while True:
        ticks.append(1)
        gevent.sleep(0)

gevent.spawn(tick)
try:
    queue.get(timeout=0.05)
except mp.queues.Empty:
    print(len(ticks) > 2)
consumer = gevent.spawn(queue.get)
gevent.sleep(0.01)
queue.put("from another greenlet")
print(consumer.get(timeout=30))
bounded.put(1)
producer = gevent.spawn(bounded.put, 2)
gevent.sleep(0.01)
print(bounded.get(), bounded.get(timeout=30), producer.get(timeout=30))
for _ in range(12):
    queue.put(bytes(31_000))  # more than the ring holds
print(sum(len(queue.get(timeout=30)) for _ in range(12)))
simple._writer.close()
try:
    simple.get()
except EOFError:
    print("alone")
"""


def test_other_greenlets_run_while_one_waits(scripts: Any) -> None:
    pytest.importorskip("gevent")
    assert scripts(_GEVENT).finish().split("\n")[:5] == [
        "True",
        "from another greenlet",
        "1 2 None",
        "372000",
        "alone",
    ]


def test_timeout_holds_while_a_stopped_process_has_the_lock(
    start_child: Callable[..., Any],
) -> None:
    queue = Queue(ctx=CONTEXT)
    child = start_child(queue_children.put_for_ever, queue)
    for _ in range(100):
        queue.get()
    os.kill(child.pid, signal.SIGSTOP)
    try:
        while True:  # whatever it holds, no call may take longer than it was given
            queue.get(timeout=0.2)
    except Empty:
        pass
    finally:
        os.kill(child.pid, signal.SIGCONT)
