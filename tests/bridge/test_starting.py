"""Starts of bridges that fail or are interrupted: nothing of them goes on.

Not covered: addresses and names that cannot be (test_loopback.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import bridge_machines as machines
import pytest
import waiting

from shmtensor.bridge import Bridge
from shmtensor.service import Service

Services = tuple[Service, Service]
S = waiting.HANG_S

#: Of a bridge that shares a name of each kind.
_THREADS = (
    "shmtensor-topic-start-topic",
    "shmtensor-topic-in-start-topic",
    "shmtensor-value-start-value",
    "shmtensor-value-in-start-remote-value",
    "shmtensor-call-in-start-call",
    "shmtensor-call-start-remote-call",
    "shmtensor-reply-start-remote-call",
)


def _bridge_of_all_kinds(service: Service) -> Bridge:
    return Bridge(
        service,
        listen=machines.free_address(),
        topics=["start-topic"],
        values=["start-value"],
        remote_values=["start-remote-value"],
        calls=["start-call"],
        remote_calls=["start-remote-call"],
    )


def _start_with_too_many_threads(
    bridge: Bridge, names: Iterable[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start a bridge while threads of these names cannot be started."""
    start = threading.Thread.start

    def start_or_fail(thread: threading.Thread) -> None:
        if thread.name in names:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_or_fail)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            bridge.start()


def _running() -> set[str]:
    return {thread.name for thread in threading.enumerate()} & set(_THREADS)


@pytest.mark.check
def test_a_bridge_that_could_not_start_takes_no_requests(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    bridge = Bridge(services[0], listen=machines.free_address(), remote_calls=["slow"])
    _start_with_too_many_threads(
        bridge, {"shmtensor-reply-slow", "shmtensor-link-end"}, monkeypatch
    )
    with services[0].Client("slow") as client, services[0].Server("slow") as server:
        for n in range(20):
            future = client.submit(n)
            (request,) = server.take(timeout=S)
            request.reply(n)
            assert future.result(S) == n


@pytest.mark.parametrize("name", _THREADS)
def test_threads_end_when_one_cannot_be_started(
    services: Services, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    bridge = _bridge_of_all_kinds(services[0])
    _start_with_too_many_threads(bridge, {name}, monkeypatch)
    waiting.until(lambda: not _running(), _running)
    assert repr(bridge).endswith("closed>")
    assert len(bridge.status().names) == 5


@pytest.mark.parametrize("name", _THREADS)
def test_threads_end_when_their_start_is_interrupted(
    services: Services, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start = threading.Thread.start

    def start_and_interrupt(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == name:
            raise KeyboardInterrupt

    bridge = _bridge_of_all_kinds(services[0])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            bridge.start()
    waiting.until(lambda: not _running(), _running)


def test_a_bridge_that_is_not_started_can_be_closed_and_never_starts(services: Services) -> None:
    bridge = _bridge_of_all_kinds(services[0])
    bridge.down()
    bridge.close()
    with pytest.raises(RuntimeError, match="make another one"):
        bridge.start()
    assert not _running()
