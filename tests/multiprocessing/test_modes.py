"""Lent and copy-on-write tensors: what a receiver can do with them, and what others see of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mp_modes
import pytest

import shmtensor as T
import shmtensor.multiprocessing as mp


@contextmanager
def _peer(method: str, target: Callable[..., None]) -> Iterator[tuple[Any, Any, Any]]:
    context = mp.get_context(method)
    (their_inbox, outbox), (inbox, their_outbox) = context.Pipe(False), context.Pipe(False)
    process = context.Process(target=target, args=(their_inbox, their_outbox))
    process.start()
    their_inbox.close()
    their_outbox.close()
    try:
        yield outbox, inbox, process
        process.join(60)
    finally:
        process.kill()
        process.join()
        process.close()
        outbox.close()
        inbox.close()


@pytest.fixture(params=["file_system", "file_descriptor"])
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(request.param)
    yield request.param
    mp.set_sharing_strategy(before)


@pytest.mark.check
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_lent_tensor_is_read_and_not_written(method: str, strategy: str) -> None:
    t = T.arange(6).view(3, 2).t()[:, 1:]
    with _peer(method, mp_modes.read_lent) as (outbox, inbox, _):
        outbox.send(mp.lend(t))
        values, is_shared, stride, offset, is_writable = inbox.recv()
        assert values == t.tolist()
        assert is_shared
        assert (stride, offset) == (t.stride(), t.storage_offset())
        assert not is_writable
        for text in inbox.recv():
            assert "cannot write to a read-only tensor" in text
        assert inbox.recv() != "done"
        t.fill_(9)
        outbox.send(None)
        assert inbox.recv() == [[9, 9], [9, 9]]


def test_lent_tensor_gives_no_way_to_write(strategy: str) -> None:
    t = T.arange(4.0)
    with _peer("fork", mp_modes.look_for_a_way_to_write) as (outbox, inbox, process):
        outbox.send(mp.lend(t))
        answers = inbox.recv()
        assert "done" not in answers, answers
        assert all("read-only" in a or "not resizable" in a for a in answers), answers
        assert inbox.recv() == [False] * 4
        process.join(60)
        assert process.exitcode == 0
    assert t.tolist() == [0, 1, 2, 3]


def test_copy_on_write_tensor_is_the_receivers_own(strategy: str) -> None:
    t = T.zeros(3)
    with _peer("fork", mp_modes.write_privately) as (outbox, inbox, _):
        outbox.send(mp.cow(t))
        assert inbox.recv() == ([5.0, 0.0, 0.0], False)
    assert t.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.check
def test_kernel_stops_writes_to_a_lent_tensor(strategy: str) -> None:
    with _peer("fork", mp_modes.write_past_everything) as (outbox, inbox, process):
        outbox.send(mp.lend(T.ones(3)))
        assert inbox.recv() == "received"
        process.join(60)
        # A sanitizer reports the signal and ends the process itself.
        sanitized = "SHMTENSOR_SANITIZER" in os.environ
        assert process.exitcode == (1 if sanitized else -signal.SIGSEGV)


def test_queue_carries_modes_beside_each_other() -> None:
    t = T.ones(3)
    with _peer("fork", mp_modes.receive_all_modes) as (outbox, inbox, _):
        outbox.send({"lent": mp.lend(t), "own": [mp.cow(t)], "shared": t})
        assert inbox.recv() == ([3.0, 3.0, 3.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0])
    assert t.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("wrap", [mp.lend, mp.cow])
@pytest.mark.parametrize(
    "tensor", [T.ones(2, requires_grad=True), T.empty(0, 3), T.empty(2, device="meta")]
)
def test_modes_keep_what_a_tensor_is(wrap: Callable[[Any], object], tensor: T.Tensor) -> None:
    with _peer("fork", mp_modes.describe) as (outbox, inbox, _):
        outbox.send(wrap(tensor))
        assert inbox.recv() == (tuple(tensor.shape), tensor.requires_grad, tensor.is_meta)


@pytest.mark.parametrize("wrap", [mp.lend, mp.cow])
def test_only_tensors_have_modes(wrap: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"expected a tensor or an array, got list"):
        wrap([1])
    assert repr(wrap(T.ones(1))) == f"{wrap.__name__}(tensor([1.]))"
