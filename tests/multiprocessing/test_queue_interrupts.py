"""Queues whose calls are interrupted by exceptions, as handlers of signals raise them.

Not covered: signals whose handlers return (test_queue_waits), processes that end
(test_queue_kill).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Full
from typing import Any

import pytest
import waiting
from interrupts import Interrupt, at_random, everywhere

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from shmtensor.multiprocessing.queues import JoinableQueue, Queue, SimpleQueue

CONTEXT = mp.get_context("fork")
HANG_S = 20
#: So many messages of so many bytes fill a ring; another one waits for room.
N_FILLING, FILLING = 8, b"x" * 31_000


def _fill(queue: Any) -> None:
    for _ in range(N_FILLING):
        queue.put(FILLING)


def _drain(queue: JoinableQueue) -> int:
    """Take what the queue counts; returns how many that were. Then it is empty and joined."""
    n = queue.qsize()
    for _ in range(n):
        assert queue.get(timeout=HANG_S) == FILLING
        queue.task_done()
    assert queue.qsize() == 0
    assert queue.empty()
    assert queue._ring.join(HANG_S)
    return n


# --- putting ---


@pytest.mark.check
@pytest.mark.parametrize("maxsize", [0, N_FILLING + 1])
@pytest.mark.parametrize(
    "put",
    [
        lambda queue: queue.put(FILLING, False),
        lambda queue: queue.put(FILLING),
        lambda queue: queue.put_many([FILLING]),
    ],
    ids=["put_nowait", "put", "put_many"],
)
def test_interrupted_put_into_a_full_ring_is_counted_if_it_arrives(
    put: Callable[[Any], None], maxsize: int
) -> None:
    queue = JoinableQueue(maxsize, ctx=CONTEXT)
    _fill(queue)
    drained: list[int] = []

    def undo() -> None:
        drained.append(_drain(queue))
        _fill(queue)

    points = list(everywhere(lambda: put(queue), undo=undo))
    # The first run and the last are not interrupted.
    assert drained[0] == drained[-1] == N_FILLING + 1
    assert set(drained) == {N_FILLING, N_FILLING + 1}
    assert any(point.came_out for point in points)
    queue.close()
    queue.join_thread()


def test_messages_behind_an_interrupted_put_keep_their_order() -> None:
    queue = Queue(ctx=CONTEXT)

    def put() -> None:
        _fill(queue)
        for number in range(3):
            queue.put((number, FILLING))

    def undo() -> None:
        numbers = [item[0] for item in _take_all(queue) if item != FILLING]
        assert numbers == sorted(set(numbers))

    for _ in everywhere(put, undo=undo):
        pass


def test_signals_during_put_leave_the_counts_right() -> None:
    queue = JoinableQueue(ctx=CONTEXT)
    _fill(queue)
    for came_out in at_random(lambda: queue.put(FILLING), 300, seed=1, longest_s=3e-3):
        n = _drain(queue)
        assert n == N_FILLING + 1 or (came_out and n == N_FILLING)
        _fill(queue)
    queue.cancel_join_thread()


def _raise_keyboard_interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.check
@pytest.mark.parametrize("timeout", [None, 1.0])
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "TimedOut"])
def test_interrupt_in_the_iterable_of_put_many_waits_for_no_room(
    error: str, timeout: float | None, install: Callable[[Any], object]
) -> None:
    install(_raise_timed_out)
    kind, interrupt = {
        "KeyboardInterrupt": (KeyboardInterrupt, _raise_keyboard_interrupt),
        "TimedOut": (TimedOut, _interrupt_here),
    }[error]
    queue = Queue(2, ctx=CONTEXT)
    queue.put(0)

    def items() -> Iterator[int]:
        yield from (1, 2, 3)
        interrupt()

    with pytest.raises(kind):
        queue.put_many(items(), timeout=timeout)
    assert _take_all(queue) == [0, 1]


def test_error_in_the_iterable_of_put_many_comes_when_the_objects_before_it_are_put() -> None:
    queue = Queue(1, ctx=CONTEXT)
    got: list[int] = []

    def items() -> Iterator[int]:
        yield from range(3)
        raise TimedOut  # of no handler

    taker = threading.Thread(target=lambda: got.extend(queue.get(timeout=HANG_S) for _ in range(3)))
    taker.start()
    with pytest.raises(TimedOut):
        queue.put_many(items())
    taker.join(HANG_S)
    assert got == [0, 1, 2]


# --- getting ---


def _take_all(queue: Any) -> list[Any]:
    taken = []
    while queue.qsize() if isinstance(queue, Queue) else not queue.empty():
        taken.append(queue.get())
    return taken


def _await(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits, though there is a message")


GETS = {
    "get": (Queue, lambda queue, got: got.append(queue.get())),
    "get_nowait": (Queue, lambda queue, got: got.append(queue.get_nowait())),
    "get_many": (Queue, lambda queue, got: got.extend(queue.get_many(2))),
    "aget": (Queue, lambda queue, got: got.append(_await(queue.aget()))),
    "simple": (SimpleQueue, lambda queue, got: got.append(queue.get())),
    "recv": (SimpleQueue, lambda queue, got: got.append(queue._reader.recv())),
}


@pytest.mark.parametrize("name", GETS)
def test_interrupted_get_loses_nothing(name: str) -> None:
    kind, get = GETS[name]
    queue = kind(ctx=CONTEXT)
    # The second one is unpickled by Python code.
    items = [0, st.nn.Parameter(st.ones(2)), "text", st.arange(3)]
    got: list[Any] = []

    def put_all() -> None:
        for item in items:
            queue.put(item)

    def undo() -> None:
        got.extend(_take_all(queue))
        assert [type(item) for item in got] == [type(item) for item in items]
        assert got[0] == 0
        assert got[1].data_ptr() == items[1].data_ptr()
        assert got[3].tolist() == [0, 1, 2]
        got.clear()
        put_all()

    def call() -> None:
        get(queue, got)
        get(queue, got)

    put_all()
    points = list(everywhere(call, undo=undo))
    assert any(point.came_out for point in points)


def test_kept_message_counts_as_one_of_the_queue() -> None:
    queue = Queue(ctx=CONTEXT)
    queue.put("first")
    queue.put("second")
    taken = [queue._ring[0.0]]
    assert taken == ["first"]
    assert waiting.is_readable(queue.fileno())
    queue.get()
    assert not waiting.is_readable(queue.fileno())
    queue.put("second")
    queue._ring.give_back(taken)
    assert waiting.is_readable(queue.fileno())
    assert queue.qsize() == 2
    assert not queue.empty()
    assert queue._reader.poll()
    assert queue.get_many(5) == ["first"]
    assert queue.get() == "second"
    assert queue.empty()
    queue._ring.give_back(["alone"])
    assert waiting.is_readable(queue.fileno())
    assert queue.get() == "alone"
    assert not waiting.is_readable(queue.fileno())


def test_forked_child_has_not_what_its_parent_kept() -> None:
    queue, answers = Queue(ctx=CONTEXT), SimpleQueue(ctx=CONTEXT)
    queue.put("kept")
    queue._ring.give_back([queue._ring[0.0]])
    child = CONTEXT.Process(target=lambda: answers.put((queue.qsize(), queue.empty())))
    child.start()
    try:
        assert answers.get() == (0, True)
    finally:
        child.join()
    assert queue.get() == "kept"


class _Interrupting:
    """Unpickling it interrupts the first time."""

    n_left = 1

    def __reduce__(self) -> Any:
        return _made_second_time, ()


def _made_second_time() -> str:
    if _Interrupting.n_left:
        _Interrupting.n_left -= 1
        raise Interrupt
    return "made"


@pytest.mark.check
@pytest.mark.parametrize("n", [1, 3])
def test_message_whose_unpickling_was_interrupted_is_unpickled_again(n: int) -> None:
    queue = Queue(ctx=CONTEXT)
    queue.put_many(["before", _Interrupting(), st.ones(2), "last"])
    assert queue.get() == "before"
    _Interrupting.n_left = 1
    with pytest.raises(Interrupt):
        queue.get() if n == 1 else queue.get_many(n)
    assert queue.qsize() == 3
    assert queue.get() == "made"
    assert queue.get().tolist() == [1, 1]
    assert queue.get() == "last"


class _Exiting:
    """Unpickling it exits each time, as a program without a guard that is imported for a class."""

    def __reduce__(self) -> Any:
        return sys.exit, (5,)


@pytest.mark.check
@pytest.mark.parametrize("n", [1, 3])
def test_message_whose_unpickling_exits_is_dropped_the_second_time(n: int) -> None:
    queue = Queue(ctx=CONTEXT)
    queue.put_many([_Exiting(), "last"])
    for _ in range(2):
        with pytest.raises(SystemExit):
            queue.get() if n == 1 else queue.get_many(n)
    assert queue.get() == "last"
    assert queue.empty()


def test_message_whose_unpickling_exits_is_dropped_at_once_where_no_handler_runs() -> None:
    queue = Queue(ctx=CONTEXT)
    queue.put_many([_Exiting(), "last"])
    seen: list[object] = []

    def get_twice() -> None:
        for _ in range(2):
            try:
                seen.append(queue.get(timeout=HANG_S))
            except SystemExit as error:
                seen.append(error.code)

    thread = threading.Thread(target=get_twice)
    thread.start()
    thread.join(HANG_S)
    assert seen == [5, "last"]


class TimedOut(Exception):
    """What handlers of programs raise, an ordinary error."""


class _HandlerObject:
    def __call__(self, *_: object) -> None:
        raise TimedOut

    def method(self, *_: object) -> None:
        raise TimedOut


def _raise_timed_out(*_: object) -> None:
    raise TimedOut


def _interrupt_here() -> None:
    signal.raise_signal(signal.SIGUSR1)


def _interrupt_and_hide() -> None:
    try:
        _interrupt_here()
    except TimedOut as error:
        raise ValueError("the bytes are wrong") from error


class _Signalling:
    """Unpickling it sends a signal, the first times."""

    n_left = 0
    send = staticmethod(_interrupt_here)

    def __reduce__(self) -> Any:
        return _made_after_signals, ()


def _made_after_signals() -> str:
    if _Signalling.n_left:
        _Signalling.n_left -= 1
        _Signalling.send()
    return "made"


HANDLERS = {
    "function": _raise_timed_out,
    "method": _HandlerObject().method,
    "object": _HandlerObject(),
    "partial": functools.partial(_raise_timed_out, 1),
}


@pytest.fixture
def install() -> Iterator[Callable[[Any], object]]:
    before = signal.getsignal(signal.SIGUSR1)
    yield lambda handler: signal.signal(signal.SIGUSR1, handler)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("handler", HANDLERS)
def test_an_error_of_a_handler_keeps_the_message(
    handler: str, n: int, install: Callable[[Any], object]
) -> None:
    install(HANDLERS[handler])
    queue = Queue(ctx=CONTEXT)
    queue.put_many([_Signalling(), st.ones(2), "last"])
    _Signalling.n_left = 2
    for _ in range(2):
        with pytest.raises(TimedOut):
            queue.get() if n == 1 else queue.get_many(n)
        assert queue.qsize() == 3
    assert queue.get() == "made"
    assert queue.get().tolist() == [1, 1]
    assert queue.get() == "last"


def test_an_error_that_a_handler_led_to_keeps_the_message(
    install: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(_raise_timed_out)
    monkeypatch.setattr(_Signalling, "send", staticmethod(_interrupt_and_hide))
    queue = SimpleQueue(ctx=CONTEXT)
    queue.put(_Signalling())
    _Signalling.n_left = 1
    with pytest.raises(ValueError, match="the bytes are wrong"):
        queue.get()
    assert queue.get() == "made"


class _Bad:
    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_bad_message_is_dropped_at_once_also_while_a_handlers_error_is_handled(
    install: Callable[[Any], object],
) -> None:
    install(_raise_timed_out)
    queue = Queue(ctx=CONTEXT)
    queue.put_many([_Bad(), _Bad(), "next"])
    with pytest.raises(ValueError, match="no number"):
        queue.get()
    try:
        _interrupt_here()
    except TimedOut:
        with pytest.raises(ValueError, match="no number"):
            queue.get()
    assert queue.qsize() == 1
    assert queue.get() == "next"


def test_real_signals_with_an_ordinary_error_lose_nothing() -> None:
    queue = Queue(ctx=CONTEXT)
    got: list[Any] = []

    def work() -> None:
        for _ in range(3):
            got.append(queue.get())

    def put_all() -> None:
        for number in range(3):
            queue.put((number, st.nn.Parameter(st.ones(1))))  # by Python code

    put_all()
    n = 0
    for came_out in at_random(work, 3000, seed=7, longest_s=300e-6, raises=TimedOut):
        n += came_out
        got.extend(_take_all(queue))
        assert [number for number, _ in got] == [0, 1, 2]
        got.clear()
        put_all()
    assert n > 100


GET_LOCK, PUT_LOCK = 192, 128  # in csrc/ipc/ring/message_layout.h


@contextlib.contextmanager
def _locked(queue: Any, at: int) -> Iterator[None]:
    """The lock of the queue's ring is taken, by a process that lives."""
    library = ctypes.CDLL(str(Path(st.__file__).parent / "lib" / "libshmtensor.so.0"))
    library.shmt_storage_data.restype = ctypes.c_void_p
    header = library.shmt_storage_data(ctypes.c_void_p(queue._ring.storage))
    lock = ctypes.c_uint32.from_address(header + at)
    lock.value = 5 << 14 | 1
    try:
        yield
    finally:
        lock.value = 0


def _with_an_alarm(call: Callable[[], object]) -> None:
    """Call until the alarm comes before the call has given up, after 10 ms."""
    while True:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        with contextlib.suppress(Empty, Full):
            call()


def test_signal_while_a_call_that_does_not_wait_waits_for_a_lock() -> None:
    queue = Queue(ctx=CONTEXT)
    queue.put(1)
    before = signal.signal(signal.SIGALRM, _raise_timed_out)
    try:
        for at, call in (
            (GET_LOCK, queue.get_nowait),
            (PUT_LOCK, lambda: queue.put_nowait(2)),
            (PUT_LOCK, lambda: queue.put_many([2, 3], timeout=0)),
        ):
            with _locked(queue, at), pytest.raises(TimedOut):
                _with_an_alarm(call)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert queue.get_nowait() == 1
    assert queue.empty()


def test_calls_end_while_signals_come_all_the_time_and_a_lock_is_taken() -> None:
    queue = Queue(ctx=CONTEXT)
    queue.put(1)
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        for at, call, late in (
            (GET_LOCK, queue.get_nowait, Empty),
            (GET_LOCK, lambda: queue.get(timeout=0.05), Empty),
            (PUT_LOCK, lambda: queue.put_nowait(2), Full),
            (PUT_LOCK, lambda: queue.put(2, timeout=0.05), Full),
        ):
            with _locked(queue, at), pytest.raises(late):
                call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert queue.get_nowait() == 1


@pytest.mark.parametrize("name", ["get", "get_nowait", "simple", "recv"])
def test_signals_during_get_lose_nothing(name: str) -> None:
    kind, get = GETS[name]
    queue = kind(ctx=CONTEXT)
    got: list[Any] = []

    def work() -> None:
        for _ in range(3):
            get(queue, got)

    def put_all() -> None:
        for number in range(3):
            queue.put((number, st.ones(1)))

    put_all()
    for _ in at_random(work, 3000, seed=2, longest_s=20e-6):
        got.extend(_take_all(queue))
        assert [number for number, _ in got] == [0, 1, 2]
        got.clear()
        put_all()


# --- pipes ---


@pytest.mark.parametrize("n", [4, 20_000], ids=["short", "long"])
def test_interrupted_send_keeps_no_memory_unless_it_was_sent(n: int) -> None:
    reader, writer = CONTEXT.Pipe(False)
    # The second one is pickled by Python code. The text makes the message short or long.
    message = [st.ones(4), st.nn.Parameter(st.ones(2)), "x" * n]
    # Those of messages that other tests have dropped end meanwhile.
    n_leases = [sharing.status()["n_leases"]]
    arrived = []

    def undo() -> None:
        arrived.append(reader.poll())
        if arrived[-1]:
            first, second, text = reader.recv()
            assert first.tolist() == [1, 1, 1, 1]
            assert second.data_ptr() == message[1].data_ptr()
            assert text == message[2]
        assert not reader.poll()
        n_leases.append(sharing.status()["n_leases"])
        assert n_leases[-1] <= n_leases[-2]

    points = list(everywhere(lambda: writer.send(message), undo=undo))
    assert any(point.came_out for point in points)
    assert arrived[0]
    assert not all(arrived)


def test_message_is_written_as_the_standard_library_writes_it() -> None:
    reader, writer = CONTEXT.Pipe(False)
    for n in (0, 1, 16_000, 17_000, 60_000):
        writer.send(bytes(n))
        assert pickle.loads(reader.recv_bytes()) == bytes(n)
    with pytest.raises(OSError, match="read-only"):
        reader.send(1)
    reader.close()
    with pytest.raises(BrokenPipeError):
        writer.send(1)
    writer.close()
    with pytest.raises(OSError, match="closed"):
        writer.send(1)


@pytest.mark.parametrize("n", [-5, 1 << 20])
def test_write_that_says_an_impossible_number_is_not_believed(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = CONTEXT.Pipe(False)
    with monkeypatch.context() as patch:
        patch.setattr("os.write", lambda fd, data: n)
        with pytest.raises(OSError, match=f"wrote {n} of"):
            writer.send(1)
    reader.close()
    writer.close()


# --- the end ---


def test_interrupted_close_can_be_repeated() -> None:
    queues: list[Any] = []

    def undo() -> None:
        queue = queues[0]
        queue.close()
        with pytest.raises(OSError, match="closed"):
            queue.put(1)
        with pytest.raises(OSError, match="closed"):
            queue.get()
        assert queue._ring.poll(HANG_S)  # nobody can put: get would not wait
        queues[:] = [SimpleQueue(ctx=CONTEXT)]

    queues.append(SimpleQueue(ctx=CONTEXT))
    for _ in everywhere(lambda: queues[0].close(), undo=undo):
        pass
