"""Calls that wait several times: all their waits together have one timeout.

Not covered: timeouts that make no sense (test_store_faults), collectives (test_failures).
"""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest

from shmtensor import distributed as dist
from shmtensor.distributed import _shm_backend, _shm_steps, _tcp_store
from shmtensor.distributed._table import unpack
from shmtensor.distributed._tcp_store import HELLO

PAUSE_S = 0.05


class Slow(dist.HashStore):
    """A store that takes a while for each request, and notes how much time that had left."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[float] = []

    def _ask(self, op: Any, fields: list[bytes], limit: Any) -> list[bytes]:
        self.left.append(limit.left())
        time.sleep(PAUSE_S)
        return super()._ask(op, fields, limit)


_CALLS: dict[str, Callable[[dist.Store], object]] = {
    "multi_get": lambda store: store.multi_get(["a", "b"]),
    "multi_set": lambda store: store.multi_set(["c", "d"], ["3", "4"]),
    "barrier": lambda store: store.barrier("e", 1),
    "barrier with a timeout": lambda store: store.barrier("f", 1, timedelta(seconds=5)),
}


@pytest.mark.check
@pytest.mark.parametrize("has_prefix", [False, True])
@pytest.mark.parametrize("call", _CALLS)
def test_requests_of_one_call_share_its_timeout(call: str, has_prefix: bool) -> None:
    slow = Slow()
    store = dist.PrefixStore("p", slow) if has_prefix else slow
    store.set_timeout(timedelta(seconds=10))
    store.multi_set(["a", "b"], ["1", "2"])
    slow.left.clear()
    _CALLS[call](store)
    assert len(slow.left) >= 2
    assert slow.left[0] <= (5 if "with" in call else 10)
    for earlier, later in zip(slow.left, slow.left[1:], strict=False):
        assert later <= earlier - PAUSE_S


def test_a_key_that_comes_too_late_for_all_is_missed() -> None:
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=0.4))
    late = threading.Timer(0.3, store.set, ("a", "1"))
    late.start()
    begun = time.monotonic()
    with pytest.raises(dist.DistStoreError, match=r"after 400ms, keys: /a, /b"):
        store.multi_get(["a", "b"])
    assert time.monotonic() - begun >= 0.4
    late.join()


# --- TCP ---------------------------------------------------------------------------------------


@contextmanager
def _serving(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve the first connection; yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                serve(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_a_store_that_answers_byte_by_byte_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_tcp_store, "_ANSWER_GRACE_S", 0.1)

    def serve(connection: socket.socket) -> None:
        connection.sendall(HELLO + (1000).to_bytes(4, "little"))
        for _ in range(40):
            time.sleep(0.05)
            connection.sendall(b"\0")

    with _serving(serve) as port:
        with pytest.raises(dist.DistNetworkError, match="does not answer"):
            dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=0.3))


def test_a_store_that_greets_byte_by_byte_is_none() -> None:
    def serve(connection: socket.socket) -> None:
        for letter in HELLO:
            connection.sendall(bytes([letter]))
            time.sleep(0.1)

    with _serving(serve) as port:
        with pytest.raises(dist.DistNetworkError, match="has timed out after 300ms"):
            dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=0.3))


def test_requests_have_what_connecting_has_left_of_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_tcp_store, "_ANSWER_GRACE_S", 0.1)
    asked: list[float] = []

    def serve(connection: socket.socket) -> None:
        time.sleep(0.2)
        connection.sendall(HELLO)
        assert connection.recv(len(HELLO)) == HELLO
        message = connection.recv(1000)
        asked.append(int.from_bytes(unpack(message[4:])[1][0], "little") / 1000)
        connection.recv(1)  # until it is closed

    with _serving(serve) as port:
        with pytest.raises(dist.DistNetworkError, match="does not answer"):
            dist.TCPStore("127.0.0.1", port, timeout=timedelta(seconds=0.5))
    assert len(asked) == 1
    assert asked[0] <= 0.301


# --- groups ------------------------------------------------------------------------------------

#: Where rank 0 says how it can be reached.
_KEY = "1/group/0/memory"


def _init(store: dist.Store, rank: int, size: int, seconds: float) -> None:
    limit = timedelta(seconds=seconds)
    dist.init_process_group("shm", store=store, rank=rank, world_size=size, timeout=limit)


@contextmanager
def _rank_0(store: dist.Store) -> Iterator[socket.socket]:
    """Say in the store that rank 0 is here; yields the socket where it listens."""
    name = f"shmtensor-test-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        store.set(_KEY, name)
        yield listener


@pytest.mark.check
def test_a_rank_that_is_not_let_in_says_so() -> None:
    store = dist.HashStore()
    with _rank_0(store):
        with pytest.raises(dist.DistStoreError, match=r"after 0\.2 s rank 0 has not let rank 1 in"):
            _init(store, 1, 2, 0.2)


def test_a_rank_0_that_is_lost_in_between_is_an_error_of_the_backend() -> None:
    store = dist.HashStore()
    with _rank_0(store) as listener:

        def accept_and_end() -> None:
            connection, _ = listener.accept()
            connection.close()

        thread = threading.Thread(target=accept_and_end)
        thread.start()
        with pytest.raises(dist.DistBackendError, match="or has ended"):
            _init(store, 1, 2, 30)
        thread.join()


def test_strangers_do_not_keep_rank_0_waiting() -> None:
    store = dist.HashStore()
    is_over = threading.Event()

    def keep_coming() -> None:
        name = store.get(_KEY)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and not is_over.is_set():
            with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
                connection.connect(b"\0" + name)
        is_over.set()

    thread = threading.Thread(target=keep_coming)
    thread.start()
    with pytest.raises(dist.DistStoreError, match=r"after 0\.3 s 1 of 2 ranks"):
        _init(store, 0, 2, 0.3)
    assert not is_over.is_set()
    is_over.set()
    thread.join()


def test_the_first_barrier_has_what_meeting_has_left_of_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meet, left = _shm_backend.meet, []

    def meet_slowly(*arguments: Any) -> Any:
        memory = meet(*arguments)
        time.sleep(0.2)
        return memory

    def note(steps: Any) -> None:
        left.append(steps._deadline - time.monotonic())

    monkeypatch.setattr(_shm_backend, "meet", meet_slowly)
    monkeypatch.setattr(_shm_steps.Steps, "meet", note)
    _init(dist.HashStore(), 0, 1, 1.0)
    dist.destroy_process_group()
    assert len(left) == 1
    assert left[0] <= 0.8


def test_a_monitored_barrier_asks_the_store_within_its_own_timeout() -> None:
    store = Slow()
    _init(store, 0, 1, 30)
    store.left.clear()
    dist.monitored_barrier(timeout=timedelta(seconds=5))
    dist.destroy_process_group()
    assert store.left
    assert max(store.left) <= 5
