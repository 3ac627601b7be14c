"""Errors of signals' handlers that come while values are packed and shown: they reach the program.

Note [Errors of handlers] in shmtensor/_core/_signal_handlers.py.
"""

from __future__ import annotations

import base64
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import alarms
import pytest
import service_programs as programs
import waiting
from alarms import Alarm, Interrupting, InterruptingLater, interrupt

import shmtensor as st
from shmtensor import nn
from shmtensor.errors import ServerLostError
from shmtensor.service import Service, _calls, _encoding, _messages, _modules


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    with alarms.handled():
        yield


class Late(Exception):
    def __reduce__(self) -> Any:
        return interrupt()


def skeleton_that_interrupts() -> str:
    return base64.b64encode(pickle.dumps(InterruptingLater())).decode()


def module_that_interrupts() -> nn.Module:
    module = nn.Linear(2, 2)
    module.extra = Interrupting()  # type: ignore[assignment]
    return module


CALLS: dict[str, Callable[[], Any]] = {
    "pickle a module": lambda: _modules.pack_skeleton(module_that_interrupts(), {}),
    "unpickle a module": lambda: _modules.rebuild(skeleton_that_interrupts(), {}, "shmtensor"),
    "pickle an error": lambda: _calls._pickled(Late()),
    "unpickle an error": lambda: _calls._unpickled(pickle.dumps(InterruptingLater())),
}


@pytest.mark.check
@pytest.mark.parametrize("what", CALLS)
def test_error_of_a_handler_reaches_the_program(what: str) -> None:
    with pytest.raises(Alarm, match="of the program"):
        CALLS[what]()


def test_published_value_that_is_read_as_a_signal_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_encoding.json, "loads", interrupt)
    with pytest.raises(Alarm, match="of the program"):
        _encoding.read(b"{}", [])


def test_memory_error_of_a_handler_is_not_taken_for_a_service_without_room() -> None:
    n_attempts = 0

    def raise_memory_error(*_: object) -> None:
        raise MemoryError("of the program")

    def attempt() -> None:
        nonlocal n_attempts
        n_attempts += 1
        interrupt()

    signal.signal(signal.SIGUSR1, raise_memory_error)
    with pytest.raises(MemoryError, match="of the program"):
        Service._with_room(attempt, time.monotonic() + 0.1)
    assert n_attempts == 1


def channel(service: Service, kind: str) -> tuple[Callable[[Any], object], Any]:
    """What puts values into a queue or a topic, and who takes them as NumPy's."""
    if kind == "queue":
        queue = service.Queue("q", as_="numpy")
        return queue.put, queue
    topic = service.Topic("t")
    return topic.publish, topic.subscribe(as_="numpy")


def interrupt_at(call: int) -> Callable[[Any, Any], Any]:
    """`received`, with a signal at one of its calls."""
    calls = iter(range(100))
    real = _messages._libraries.given

    def given(value: Any, library: Any) -> Any:
        if next(calls) == call:
            interrupt()
        return real(value, library)

    return given


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_messages_that_are_shown_as_a_signal_comes_are_returned_later(
    kind: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, taker = channel(service, kind)
    for number in range(4):
        put([number])
    monkeypatch.setattr(_messages._libraries, "given", interrupt_at(2))
    with pytest.raises(Alarm, match="of the program"):
        taker.get_many(4, 5)
    monkeypatch.setattr(_messages._libraries, "given", interrupt_at(0))
    assert [taker.get(timeout=5) for _ in range(2)] == [[0], [1]]  # they were shown before
    with pytest.raises(Alarm, match="of the program"):
        taker.get(timeout=5)
    assert [taker.get(timeout=5) for _ in range(2)] == [[2], [3]]


@pytest.mark.check
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("error", [Alarm, KeyboardInterrupt])
def test_request_that_is_unpickled_as_a_signal_comes(
    n: int, error: type[BaseException], service: Service
) -> None:
    """The server gets the error, and the clients learn that it let go of what it had taken."""
    server, client = service.Server("s"), service.Client("s")
    if error is KeyboardInterrupt:
        signal.signal(signal.SIGUSR1, signal.default_int_handler)
    futures = [client.submit(value) for value in [InterruptingLater(), [1], [2]][:n]]
    waiting.until(lambda: server.qsize() == n)
    with pytest.raises(error):
        server.take(n)
    for future in futures:
        with pytest.raises(ServerLostError):
            future.result(programs.WAIT_S)
    assert server.qsize() == 0


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_value_that_the_library_cannot_show_takes_no_other_with_it(
    kind: str, service: Service
) -> None:
    put, taker = channel(service, kind)
    for value in ([0], st.zeros(2, dtype=st.bfloat16), [2]):
        put(value)
    with pytest.raises(TypeError, match="NumPy has no dtype bfloat16"):
        taker.get_many(3, 5)
    assert taker.get_many(3, 5) == [[0], [2]]
