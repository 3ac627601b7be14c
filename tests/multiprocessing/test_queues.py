"""The queues over rings: what they promise as queues, in one process and between several.

Not covered: kills (tests/shm/test_crash, test_queue_kill), waiting with descriptors and asyncio
(test_queue_waits), what the standard's own suite looks at.
"""

from __future__ import annotations

import gc
import math
import pickle
import threading
import time
from decimal import Decimal
from typing import Any

import mp_children
import pytest
import queue_children
import waiting

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from shmtensor.multiprocessing.queues import Empty, Full, JoinableQueue, Queue, SimpleQueue
from shmtensor.nn import Parameter

METHODS = ("fork", "spawn", "forkserver")
KINDS = (SimpleQueue, Queue, JoinableQueue)
CONTEXT = mp.get_context("fork")
HANG_S = 100


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def queue(request: pytest.FixtureRequest) -> Any:
    return request.param(ctx=CONTEXT)


@pytest.fixture
def unbounded() -> Queue:
    return Queue(ctx=CONTEXT)


# --- one process ---


@pytest.mark.check
def test_objects_come_out_in_the_order_they_went_in(queue: Any) -> None:
    items = [None, 1, "text", b"bytes", (1, 2.5), {"a": [1]}, {1, 2}, len, Queue]
    for item in items:
        queue.put(item)
    assert [queue.get() for _ in items] == items
    assert queue.empty()


def test_messages_go_round_the_end_of_the_ring_whole(queue: Any) -> None:
    for length in (10, 1000, 31_000, 17, 32_700, 20_001) * 20:
        queue.put(bytes([length % 251]) * length)
        assert queue.get() == bytes([length % 251]) * length


@pytest.mark.parametrize("length", [32_600, 32_768, 32_769, 300_000, 5_000_000])
def test_pickle_that_is_larger_than_a_message_may_be_arrives(queue: Any, length: int) -> None:
    data = bytes(range(256)) * (length // 256) + b"x" * (length % 256)
    queue.put([data, 7])
    assert queue.get() == [data, 7]


def test_tensors_share_memory_with_the_senders(queue: Any) -> None:
    base = st.arange(1000, dtype=st.float32)
    queue.put([base, base[10:20], st.ones(3, 4, dtype=st.float64).t(), base])
    whole, part, other, again = queue.get()
    assert whole.data_ptr() == base.data_ptr()
    assert again is whole
    part[0] = -1
    assert base[10] == -1
    assert other.stride() == (1, 4)
    assert other.shape == (4, 3)


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
@pytest.mark.parametrize("shares", [True, False])
def test_arrays_arrive_as_shared_memory_where_the_queue_says_so(kind: str, shares: bool) -> None:
    queue = getattr(mp, kind)(adopt="numpy" if shares else None)
    tensor = st.zeros(3, shared=True)
    queue.put(tensor.numpy())
    received = queue.get()
    received[0] = 5
    assert received.tolist() == [5, 0, 0]
    assert tensor.tolist() == [5 * shares, 0, 0]


def test_parameters_storages_meta_and_empty_tensors_arrive(queue: Any) -> None:
    leaf = st.ones(3, requires_grad=True)
    untyped = st.arange(4).untyped_storage()
    queue.put((Parameter(st.ones(2)), leaf, untyped, st.empty(5, device="meta"), st.zeros(0, 3)))
    parameter, tensor, storage, meta, empty = queue.get()
    assert isinstance(parameter, Parameter)
    assert tensor.requires_grad
    assert storage.data_ptr() == untyped.data_ptr()
    assert meta.is_meta
    assert empty.shape == (0, 3)


def test_more_tensors_than_a_message_lists_arrive(queue: Any) -> None:
    tensors = [st.full((2,), float(i)) for i in range(3000)]
    queue.put(tensors)
    assert [t[1].item() for t in queue.get()] == [float(i) for i in range(3000)]


def test_message_keeps_its_tensors_when_the_sender_lets_go(queue: Any) -> None:
    for i in range(5):
        queue.put(st.full((1000,), float(i)))
    gc.collect()
    others = [st.full((1000,), 99.0).share_memory_() for _ in range(10)]
    assert [queue.get()[500].item() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert others[0][0] == 99


class _Unreducible:
    def __reduce__(self) -> Any:
        raise ZeroDivisionError("no")


def test_what_cannot_be_pickled_raises_in_put_and_leaves_no_trace(queue: Any) -> None:
    with pytest.raises(Exception, match="pickle"):
        queue.put([st.ones(3), lambda: None])
    with pytest.raises(TypeError, match="pickle"):
        queue.put([st.ones(3), threading.Lock()])
    with pytest.raises(RuntimeError, match="non-leaf"):
        queue.put(st.ones(3, requires_grad=True) * 2)
    queue.put("good")
    assert queue.get() == "good"


def test_error_of_an_objects_own_reduction_is_printed(queue: Any, capfd: Any) -> None:
    if isinstance(queue, SimpleQueue):
        with pytest.raises(ZeroDivisionError):
            queue.put([st.ones(3), _Unreducible()])
    else:
        queue.put([st.ones(3), _Unreducible()])
        assert "ZeroDivisionError: no" in capfd.readouterr().err
    queue.put("good")
    assert queue.get() == "good"


def test_closed_queue_with_a_message_is_not_asked_whether_it_is_empty(queue: Any) -> None:
    queue.put(1)
    queue.close()
    with pytest.raises(OSError, match="is closed"):
        queue.empty()


class _Unloadable:
    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise LookupError("will not be loaded")


def test_what_cannot_be_unpickled_raises_in_get_and_is_gone(queue: Any) -> None:
    queue.put((st.ones(3), _Unloadable()))
    queue.put("next")
    with pytest.raises(LookupError):
        queue.get()
    assert queue.get() == "next"


class _Nesting:
    """Uses the queue while it is pickled, and while it is unpickled."""

    queue: Any = None

    def __reduce__(self) -> Any:
        type(self).queue.put(("inner", st.full((3,), 5.0)))
        return _nested, (st.full((3,), 6.0),)


def _nested(tensor: Any) -> Any:
    inner = _Nesting.queue.get()
    return tensor.sum().item(), inner[0], inner[1].sum().item()


def test_put_inside_put_and_get_inside_get_keep_their_messages_apart() -> None:
    outer, _Nesting.queue = Queue(ctx=CONTEXT), Queue(ctx=CONTEXT)
    try:
        outer.put([st.full((3,), 1.0), _Nesting(), st.full((3,), 2.0)])
        first, middle, last = outer.get()
    finally:
        _Nesting.queue = None
    assert (first.sum(), middle, last.sum()) == (3, (18.0, "inner", 15.0), 6)


def test_queue_is_pickled_only_while_spawning(queue: Any) -> None:
    with pytest.raises(RuntimeError, match="should only be shared between processes"):
        pickle.dumps(queue)


# --- bounds ---


def test_full_queue_refuses_at_once_or_after_the_timeout() -> None:
    queue = Queue(3, ctx=CONTEXT)
    for i in range(3):
        queue.put(i)
    assert queue.full()
    with pytest.raises(Full):
        queue.put(3, False)
    with pytest.raises(Full):
        queue.put_nowait(3)
    start = time.monotonic()
    with pytest.raises(Full):
        queue.put(3, timeout=0.2)
    assert time.monotonic() - start >= 0.2
    assert queue.get() == 0
    assert not queue.full()
    queue.put(3)
    assert queue.qsize() == 3


def test_empty_queue_raises_at_once_or_after_the_timeout(unbounded: Queue) -> None:
    with pytest.raises(Empty):
        unbounded.get(False)
    with pytest.raises(Empty):
        unbounded.get_nowait()
    start = time.monotonic()
    with pytest.raises(Empty):
        unbounded.get(timeout=0.2)
    assert time.monotonic() - start >= 0.2
    with pytest.raises(Empty):
        unbounded.get(True, -1)


def test_unbounded_queue_takes_more_than_the_ring_holds(unbounded: Queue) -> None:
    n = 400
    for i in range(n):
        unbounded.put((i, b"x" * 5000, st.full((3,), float(i)) if i % 7 == 0 else None))
    assert unbounded.qsize() == n
    for i in range(n):
        number, _, tensor = unbounded.get()
        assert number == i
        assert tensor is None or tensor[0] == i
    unbounded.close()
    unbounded.join_thread()
    assert unbounded.qsize() == 0


def test_bound_counts_what_waits_for_room() -> None:
    queue = Queue(50, ctx=CONTEXT)
    for i in range(50):
        queue.put((i, b"x" * 20_000))
    assert queue.qsize() == 50
    with pytest.raises(Full):
        queue.put(None, timeout=0.05)
    assert [queue.get()[0] for _ in range(50)] == list(range(50))
    queue.put(None)
    assert queue.get() is None


@pytest.mark.check
def test_closed_queue_refuses(unbounded: Queue) -> None:
    unbounded.put(1)
    unbounded.close()
    with pytest.raises(ValueError, match="is closed"):
        unbounded.put(1)
    with pytest.raises(ValueError, match="is closed"):
        unbounded.get()
    unbounded.join_thread()


def test_closed_simple_queue_refuses() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    queue.close()
    for call in (queue.get, queue.empty, lambda: queue.put(1), queue._reader.recv):
        with pytest.raises(OSError, match="handle is closed"):
            call()


def test_join_thread_of_an_open_queue_is_an_error(unbounded: Queue) -> None:
    with pytest.raises(AssertionError, match="not closed"):
        unbounded.join_thread()


def test_joinable_queue_knows_when_all_is_done() -> None:
    queue = JoinableQueue(ctx=CONTEXT)
    queue.join()
    for i in range(100):
        queue.put((i, b"x" * 10_000))
    joined = threading.Event()
    waiter = threading.Thread(target=lambda: (queue.join(), joined.set()), daemon=True)
    waiter.start()
    for _ in range(100):
        assert not joined.is_set()
        queue.get()
        queue.task_done()
    waiter.join(HANG_S)
    assert joined.is_set()
    with pytest.raises(ValueError, match="too many"):
        queue.task_done()


def test_many_at_once(unbounded: Queue) -> None:
    unbounded.put_many(range(10))
    assert unbounded.get_many(4) == [0, 1, 2, 3]
    assert unbounded.get_many(100, 1.0) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(Empty):
        unbounded.get_many(1, 0.01)
    with pytest.raises(ValueError, match="at least 1"):
        unbounded.get_many(0)
    bounded = Queue(3, ctx=CONTEXT)
    with pytest.raises(Full):
        bounded.put_many(range(5), timeout=0.05)
    assert bounded.get_many(9) == [0, 1, 2]
    with pytest.raises(ValueError, match="timeout must be a number of seconds, got nan"):
        bounded.put_many(range(3), timeout=math.nan)
    bounded.put_many(range(3), timeout=math.inf)
    with pytest.raises(Full):
        bounded.put_many([4], timeout=Decimal("0.05"))  # type: ignore[arg-type]
    assert bounded.get_many(9) == [0, 1, 2]


def test_batch_goes_on_where_the_ring_is_full_and_stops_where_pickling_fails(
    unbounded: Queue,
) -> None:
    unbounded.put_many((i, b"x" * 3000) for i in range(300))
    unbounded.put_many([(300, b""), (301, b"")])
    got: list[int] = []
    while len(got) < 302:
        got += [item[0] for item in unbounded.get_many(50, HANG_S)]
    assert got == list(range(302))
    with pytest.raises(TypeError, match="generator"):
        unbounded.put_many([1, 2, (i for i in range(3)), 4])
    assert unbounded.get_many(9) == [1, 2]


def test_batch_survives_a_message_that_cannot_be_unpickled(
    unbounded: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: reported.append(args.exc_type))
    unbounded.put_many([1, _Unloadable(), 3])
    assert unbounded.get_many(9) == [1, 3]
    assert reported == [LookupError]
    unbounded.put_many([_Unloadable(), _Unloadable()])
    with pytest.raises(LookupError):
        unbounded.get_many(9)
    assert unbounded.empty()


def test_hook_of_a_subclass_gets_what_cannot_be_put() -> None:
    class Hooked(Queue):
        seen: Any = None

        @staticmethod
        def _on_queue_feeder_error(e: Exception, obj: Any) -> None:
            Hooked.seen = type(e), obj

    queue = Hooked(ctx=CONTEXT)
    queue.put(_refuse_pickling := (i for i in range(3)))
    assert Hooked.seen == (TypeError, _refuse_pickling)
    queue.put(1)
    assert queue.get() == 1


# --- threads ---


def test_producers_and_consumers_in_threads_lose_and_double_nothing(queue: Any) -> None:
    n_threads, n = 3, 400
    received: list[list[tuple[int, int]]] = [[] for _ in range(n_threads)]

    def produce(number: int) -> None:
        for i in range(n):
            queue.put((number, i, b"x" * (i * 37 % 2000)))

    def consume(number: int) -> None:
        while (item := queue.get()) is not None:
            received[number].append(item[:2])

    consumers = [threading.Thread(target=consume, args=(i,)) for i in range(n_threads)]
    producers = [threading.Thread(target=produce, args=(i,)) for i in range(n_threads)]
    for thread in consumers + producers:
        thread.start()
    for thread in producers:
        thread.join(HANG_S)
    for _ in consumers:
        queue.put(None)
    for thread in consumers:
        thread.join(HANG_S)
    everything = [item for items in received for item in items]
    assert sorted(everything) == [(t, i) for t in range(n_threads) for i in range(n)]
    for items in received:  # in the order of each producer
        for t in range(n_threads):
            mine = [i for number, i in items if number == t]
            assert mine == sorted(mine)


# --- several processes ---


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_child_of_any_start_method_sends_everything_back(
    kind: Any, method: str, children: list[Any]
) -> None:
    context = mp.get_context(method)
    there, back = kind(ctx=context), kind(ctx=context)
    child = context.Process(target=mp_children.echo, args=(there, back))
    children.append(child)
    child.start()
    for item in (1, "text", b"x" * 100_000, {"t": st.arange(10)}, st.ones(2, requires_grad=True)):
        there.put(item)
        answer = back.get()
        if isinstance(item, dict):
            answer["t"][0] = 77
            assert item["t"][0] == 77
        elif not isinstance(item, st.Tensor):
            assert answer == item
    there.put(None)
    child.join(HANG_S)
    assert child.exitcode == 0


def test_sender_may_exit_right_after_it_put(children: list[Any]) -> None:
    queue = Queue(ctx=CONTEXT)
    child = CONTEXT.Process(target=mp_children.put_and_leave, args=(queue, "simple"))
    children.append(child)
    child.start()
    child.join(HANG_S)
    base, part, other = queue.get(timeout=HANG_S)
    assert base.sum().item() == sum(range(1000))
    assert part[0] == 10
    assert other.shape == (4, 3)


def test_child_feeds_what_did_not_fit_before_it_exits(children: list[Any]) -> None:
    queue = Queue(ctx=CONTEXT)
    child = CONTEXT.Process(target=queue_children.put_numbers, args=(queue, 300, 5000))
    children.append(child)
    child.start()
    assert [queue.get(timeout=HANG_S)[0] for _ in range(300)] == list(range(300))
    child.join(HANG_S)
    assert child.exitcode == 0


def test_child_that_cancels_the_join_exits_at_once(children: list[Any]) -> None:
    queue = Queue(ctx=CONTEXT)
    child = CONTEXT.Process(target=queue_children.put_and_cancel, args=(queue, 300, 5000))
    children.append(child)
    child.start()
    child.join(HANG_S)
    assert child.exitcode == 0
    assert queue.get(timeout=HANG_S)[0] == 0


def test_last_end_of_a_simple_queue_is_noticed(children: list[Any]) -> None:
    there, back = SimpleQueue(ctx=CONTEXT), SimpleQueue(ctx=CONTEXT)
    child = CONTEXT.Process(target=queue_children.echo_until_alone, args=(there, back))
    children.append(child)
    child.start()
    there.put(1)
    assert back.get() == 1
    there._writer.close()
    child.join(HANG_S)
    assert child.exitcode == 0
    back._writer.close()
    with pytest.raises(EOFError):
        back.get()


def test_queues_that_are_gone_leave_no_memory(queue: Any) -> None:
    gc.collect()
    before = sharing.status()["n_held"]
    leases_before = sharing.status()["n_leases"]
    more = [type(queue)(ctx=CONTEXT) for _ in range(3)]
    for made in more:
        made.put([st.zeros(100_000), b"x" * 100_000])
    assert sharing.status()["n_held"] > before
    del more, made
    gc.collect()
    assert sharing.status()["n_held"] == before
    waiting.until(  # the manager counts what the rings still hold
        lambda: sharing.status()["n_leases"] <= leases_before, sharing.status
    )


# --- what a queue shows of itself ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_repr_says_how_full_a_queue_is(kind: str) -> None:
    bounded, unbounded = getattr(mp, kind)(2), getattr(mp, kind)()
    bounded.put(1)
    assert repr(bounded) == f"<{kind} at {id(bounded):#x}, 1 message of at most 2>"
    assert repr(unbounded) == f"<{kind} at {id(unbounded):#x}, 0 messages>"
    bounded.close()
    assert repr(bounded).endswith("1 message of at most 2, closed>")
    with pytest.raises(ValueError, match=r"Queue <\w+ at .*, closed> is closed"):
        bounded.put(2)


def test_repr_of_a_simple_queue() -> None:
    queue = mp.SimpleQueue()
    queue.put(1)
    queue.put(2)
    assert repr(queue) == f"<SimpleQueue at {id(queue):#x}, 2 messages>"
    queue.close()
    assert repr(queue).endswith("2 messages, closed>")


@pytest.mark.parametrize("cls", [Queue, JoinableQueue, SimpleQueue])
def test_repr_of_a_queue_that_was_never_made(cls: Any) -> None:
    queue = cls.__new__(cls)
    assert repr(queue) == f"<{cls.__name__} at {id(queue):#x}, not open>"


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_a_with_block_closes_a_queue(kind: str) -> None:
    with getattr(mp, kind)() as queue:
        queue.put(1)
        assert queue.get() == 1
    with pytest.raises((ValueError, OSError), match="closed"):
        queue.put(2)
    with pytest.raises(KeyError), getattr(mp, kind)() as queue:
        raise KeyError
    with pytest.raises((ValueError, OSError), match="closed"):
        queue.put(2)
