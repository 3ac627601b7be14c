"""Pools whose calls are interrupted by exceptions, as handlers of signals raise them.

Not covered: workers that are interrupted or end (test_pool).
"""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import mp_pool_tasks as tasks
import pytest
from interrupts import at_random, everywhere
from waiting import process_state, until

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from shmtensor._core._interrupts import Condition, Event
from shmtensor.multiprocessing.pool import Pool

HANG_S = 30
N_SIGNALS = 400


@pytest.fixture
def pool() -> Iterator[Pool]:
    with mp.get_context("fork").Pool(2) as made:
        yield made
    made.join()
    made._pool.clear()  # pytest keeps the pool for a while; its processes have descriptors


def _works(pool: Pool) -> None:
    """See that both workers work, and each result is that of its task."""
    assert pool.map_async(tasks.square, range(8), 1).get(HANG_S) == [i * i for i in range(8)]
    assert [pool.apply_async(tasks.same, (i,)).get(HANG_S) for i in range(3)] == [0, 1, 2]


def _ends(pool: Pool) -> None:
    pool.close()
    _joins(pool)


def _joins(pool: Pool) -> None:
    joining = threading.Thread(target=pool.join, daemon=True)
    joining.start()
    joining.join(HANG_S)
    assert not joining.is_alive(), _seen(pool)


def _seen(pool: Pool) -> str:
    """What a pool that does not end waits for."""
    group = pool._workers
    workers = [
        f"{worker.child.pid} {process_state(worker.child.pid)} ready={worker.is_ready}"
        f" busy={worker.channel.sender.is_busy} unsent={worker.channel.sender.has_unsent}"
        for worker in group._workers
    ]
    return (
        f"{workers}, results {dict(group._cache)}, tasks {group._taskqueue._items} {group._ready}"
    )


_numbers = itertools.count()


def _apply(pool: Pool) -> None:
    number = next(_numbers)
    assert pool.apply_async(tasks.same, (number,)).get(HANG_S) == number


def _map(pool: Pool) -> None:
    number = next(_numbers)
    assert pool.map_async(tasks.same, [number, -number], 1).get(HANG_S) == [number, -number]


def _imap(pool: Pool) -> None:
    number = next(_numbers)
    assert list(pool.imap(tasks.same, [number, -number])) == [number, -number]


def _fail(pool: Pool) -> None:
    with pytest.raises(TypeError, match="cannot pickle"):
        pool.apply(tasks.same, (threading.Lock(),))


CALLS = pytest.mark.parametrize("call", [_apply, _map, _imap, _fail])


@pytest.mark.check
@CALLS
def test_interrupted_call_gives_nobody_the_result_of_another(
    call: Callable[[Pool], None], pool: Pool
) -> None:
    points = list(everywhere(lambda: call(pool), undo=lambda: _works(pool)))
    assert any(point.came_out for point in points)
    _ends(pool)


@CALLS
def test_signals_during_calls_leave_the_pool_whole(
    call: Callable[[Pool], None], pool: Pool
) -> None:
    for _ in at_random(lambda: call(pool), N_SIGNALS, seed=1):
        pass
    _works(pool)
    _ends(pool)


def test_pool_ends_after_a_call_that_was_interrupted_before_the_feeder_heard_of_it(
    pool: Pool,
) -> None:
    queue = pool._workers._taskqueue
    bell = queue._bell

    def put(item: object) -> None:
        raise KeyboardInterrupt

    queue._bell = SimpleNamespace(put=put)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        pool.map_async(tasks.square, range(2), 1)
    queue._bell = bell
    _ends(pool)


@pytest.mark.parametrize("how", ["close", "terminate"])
def test_interrupted_end_can_be_repeated(how: str) -> None:
    made = [mp.get_context("fork").Pool(1)]

    def end_again() -> None:
        getattr(made[-1], how)()
        _joins(made[-1])
        made.append(mp.get_context("fork").Pool(1))

    for _ in everywhere(lambda: getattr(made[-1], how)(), undo=end_again):
        pass
    end_again()
    made[-1].terminate()


def test_handler_that_gives_tasks_itself(pool: Pool) -> None:
    given: list[Any] = []

    def apply_within() -> None:
        try:
            _apply(pool)
        except BaseException:  # as a handler, at the same place
            given.append(pool.apply_async(tasks.same, (len(given),)))
            raise

    for _ in at_random(apply_within, N_SIGNALS, seed=2):
        pass
    assert [result.get(HANG_S) for result in given] == list(range(len(given)))
    _works(pool)


@pytest.mark.check
def test_tensors_of_interrupted_calls_are_freed(pool: Pool) -> None:
    tensor = st.ones(1000).share_memory_()
    pool.apply(tasks.same, (1,))
    before = sharing.status()["n_leases"]  # of messages that other tests have dropped
    for _ in everywhere(lambda: pool.apply(tasks.same, (tensor,)), undo=lambda: _works(pool)):
        pass
    _ends(pool)
    gc.collect()
    # The manager has to see that the pool is gone.
    until(lambda: sharing.status()["n_leases"] <= before, sharing.status)


# --- what they wait with ---


def test_interrupted_wait_leaves_an_event_usable() -> None:
    event: Any = None

    def wait() -> None:
        nonlocal event
        event = Event()
        event.wait(1e-4)

    def is_usable() -> None:
        setting = threading.Thread(target=event.set, daemon=True)
        setting.start()
        assert event.wait(HANG_S)
        setting.join(HANG_S)
        assert not setting.is_alive()
        assert all(event.wait(HANG_S) for _ in range(2))

    for _ in everywhere(wait, undo=is_usable):
        pass


def test_interrupted_block_leaves_a_condition_free() -> None:
    condition = Condition()

    def wait() -> None:
        with condition:
            condition.wait(1e-4)

    def notify() -> None:
        with condition:
            condition.notify_all()

    def is_free() -> None:
        notifying = threading.Thread(target=notify, daemon=True)
        notifying.start()
        notifying.join(HANG_S)
        assert not notifying.is_alive()
        assert not condition._waiters

    for _ in everywhere(wait, undo=is_free):
        pass
    for _ in at_random(wait, N_SIGNALS, seed=4):
        is_free()


def test_all_that_wait_for_an_event_go_on() -> None:
    event = Event()
    assert not event.wait(-1)
    assert not event.wait(0)
    waiting = [threading.Thread(target=event.wait, daemon=True) for _ in range(8)]
    for thread in waiting:
        thread.start()
    event.set()
    event.set()
    for thread in waiting:
        thread.join(HANG_S)
        assert not thread.is_alive()
    assert event.is_set()
