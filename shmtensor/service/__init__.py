"""Named tensors, locks and barriers for unrelated processes.

The functions here are the methods of the user's default `Service`. The first process that needs
that service starts it. ``docs/service.md`` shows two programs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shmtensor._boundary.service import Counters, Entry
from shmtensor.service._calls import Client as _Client
from shmtensor.service._calls import Request
from shmtensor.service._calls import Server as _Server
from shmtensor.service._deliveries import Delivery
from shmtensor.service._events import Event as _Event
from shmtensor.service._libraries import Library
from shmtensor.service._locks import Barrier as _Barrier
from shmtensor.service._locks import Lock as _Lock
from shmtensor.service._locks import Semaphore as _Semaphore
from shmtensor.service._queues import Queue as _Queue
from shmtensor.service._service import Service, Versioned
from shmtensor.service._topics import Loan, Subscription
from shmtensor.service._topics import Topic as _Topic
from shmtensor.service._waiting import await_any, wait_any

__all__ = [
    "Barrier",
    "Client",
    "Counters",
    "Delivery",
    "Entry",
    "Event",
    "Loan",
    "Lock",
    "Queue",
    "Request",
    "Semaphore",
    "Server",
    "Service",
    "Subscription",
    "Topic",
    "Versioned",
    "attach",
    "attach_module",
    "await_any",
    "empty",
    "info",
    "latest",
    "list",
    "publish",
    "publish_module",
    "status",
    "unpublish",
    "version",
    "wait_any",
    "wait_newer",
]

_default = Service()

publish = _default.publish
publish_module = _default.publish_module
unpublish = _default.unpublish
attach = _default.attach
attach_module = _default.attach_module
latest = _default.latest
wait_newer = _default.wait_newer
version = _default.version
info = _default.info
list = _default.list
empty = _default.empty
status = _default.status


def Lock(name: str) -> _Lock:
    """Return the `Lock` of this name in the default service."""
    return _default.Lock(name)


def Semaphore(name: str, n: int | None = None) -> _Semaphore:
    """Return the `Semaphore` of this name with *n* permits in the default service."""
    return _default.Semaphore(name, n)


def Queue(
    name: str,
    maxsize: int = 0,
    *,
    max_deliveries: int = 0,
    persist: bool = False,
    adopt: str | Iterable[str] | None = None,
    as_: Library = "shmtensor",
) -> _Queue[Any]:
    """Return the `Queue` of this name in the default service, which is made if need be."""
    return _default.Queue(
        name, maxsize, max_deliveries=max_deliveries, persist=persist, adopt=adopt, as_=as_
    )


def Topic(
    name: str,
    *,
    history: int | None = None,
    depth: int | None = None,
    overflow: str | None = None,
    persist: bool = False,
) -> _Topic[Any]:
    """Return the `Topic` of this name in the default service, which is made if need be."""
    return _default.Topic(name, history=history, depth=depth, overflow=overflow, persist=persist)


def Server(
    name: str,
    maxsize: int = 0,
    *,
    persist: bool = False,
    mode: str = "rw",
    as_: Library = "shmtensor",
) -> _Server:
    """Return a `Server` of this name in the default service; several share the requests."""
    return _default.Server(name, maxsize, persist=persist, mode=mode, as_=as_)


def Client(name: str, *, as_: Library = "shmtensor") -> _Client:
    """Return a `Client` of the servers of this name in the default service."""
    return _default.Client(name, as_=as_)


def Event(name: str, *, persist: bool = False) -> _Event:
    """Return the `Event` of this name in the default service, which is made if need be."""
    return _default.Event(name, persist=persist)


def Barrier(name: str, parties: int) -> _Barrier:
    """Return the `Barrier` of this name for *parties* in the default service."""
    return _default.Barrier(name, parties)
