"""Two services with a bridge each: two machines, as far as the package can tell."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import service_programs
import waiting

from shmtensor.bridge import Bridge, NameStatus
from shmtensor.service import Request, Service
from shmtensor.service._calls import Server
from shmtensor.service._topics import Topic

__all__ = ["Machine", "Pair", "free_address", "linked", "named", "pair", "served"]


def free_address() -> str:
    """An address of this machine at which nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"tcp/127.0.0.1:{unused.getsockname()[1]}"


def named(bridge: Bridge, name: str) -> NameStatus:
    """The counters of a name."""
    return next(row for row in bridge.status().names if row.name == name)


@dataclass
class Machine:
    """A service, and its bridge."""

    service: Service
    bridge: Bridge

    def topic(self, name: str, **settings: Any) -> Topic[Any]:
        """A topic to which the bridge has subscribed."""
        topic = self.service.Topic(name, **settings)
        waiting.until(lambda: topic.n_subscribers >= 1)
        return topic


@dataclass
class Pair:
    """Two machines. The first one listens, and owns values and calls."""

    here: Machine
    there: Machine
    address: str


@contextlib.contextmanager
def linked(*bridges: Bridge) -> Iterator[None]:
    """Start bridges, and wait until their links are up."""
    with contextlib.ExitStack() as stack:
        for bridge in bridges:
            stack.enter_context(bridge)
        for bridge in bridges:
            assert bridge.wait_up(waiting.HANG_S)
        yield


@contextlib.contextmanager
def pair(
    here: Service,
    there: Service,
    topics: tuple[str, ...] = (),
    values: tuple[str, ...] = (),
    calls: tuple[str, ...] = (),
    **options: Any,
) -> Iterator[Pair]:
    """Link two services."""
    address = free_address()
    first = Bridge(here, listen=address, topics=topics, values=values, calls=calls, **options)
    second = Bridge(
        there,
        connect=address,
        topics=topics,
        remote_values=values,
        remote_calls=calls,
        **options,
    )
    with linked(first, second):
        yield Pair(Machine(here, first), Machine(there, second), address)


@contextlib.contextmanager
def served(service: Service, name: str, answer: Callable[[Request], Any]) -> Iterator[Server]:
    """A server that answers until the end of the block."""

    def serve() -> None:
        for request in server:
            with request:
                request.reply(answer(request))

    with service.Server(name) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server
    thread.join()


SERVING = service_programs.serving
