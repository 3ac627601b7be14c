"""Waits with a deadline, while other processes do all they can to be noticed: they send what nobody
waits for, take what came, wake whoever sleeps, and signals come a thousand times a second.

Not covered: managers that are stopped (test_serve.py), what wakes a wait in time (tests/capi).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Full
from typing import Any

import pytest
import service_programs as programs

from shmtensor.errors import WaitTimeoutError
from shmtensor.service import Service, wait_any

_TIMEOUT_S, _LATE_S = 0.2, 10.0  # late: a busy machine, and not a wait without end

_STORM = """
import ctypes, json, os, re, struct, sys
from queue import Empty, Full
from shmtensor import _C
from shmtensor.service import Service

class Message(ctypes.Structure):
    _fields_ = [("storages", ctypes.c_void_p), ("n_storages", ctypes.c_uint32),
                ("flags", ctypes.c_uint32), ("parts", ctypes.c_char_p * 2),
                ("part_bytes", ctypes.c_uint32 * 2)]

class Unreadable:
    def __reduce__(self):
        return int, ("no number",)

LIB = ctypes.CDLL(re.search(r"/\\S*libshmtensor\\S*", open("/proc/self/maps").read())[0])
NONE = struct.pack("=IIB", 0, 1, 1)

KEPT = []

def ring_of(thing):  # of a _Ring or an _Event
    KEPT.append(thing)
    return ctypes.c_void_p.from_address(id(thing) + object.__basicsize__)

def line_of(request):
    KEPT.append(request)
    return ctypes.c_void_p(id(request) + object.__basicsize__)

def storm(step):
    step()
    print("storm", flush=True)
    while True:
        step()

def flood(ring, flags):
    many = [Message(None, 0, flags, (NONE, None), (len(NONE), 0)) for _ in range(500)]
    many, n = (Message * 500)(*many), ctypes.c_uint32()
    storm(lambda: LIB.shmt__ring_put_many(ring, many, 500, ctypes.byref(n)))

def wake(ring):
    storm(lambda: [LIB.shmt__ring_signal_data(ring) for _ in range(100)])

def attempt(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except (Empty, Full, TimeoutError):
        return None

for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        try:
            name, text = json.loads(line)
            service = Service(name)
            exec(text, globals())
        except BaseException as error:
            print(repr(error), flush=True)
        os._exit(1)
    sys.stdin.readline()
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    print("over", flush=True)
"""

#: What the other process does, by a name.
_STORMS = {
    "replies": "flood(line_of(service.Server('name').take()[0]), 99 << 8)",
    "wakes a caller": "wake(line_of(service.Server('name').take()[0]))",
    "requests of nobody": "flood(ring_of(service.Server('name')._ring), 2)",
    "requests that cannot be read": """
client = service.Client('name')
packed, line, serial = client._ring.pack(Unreadable()), _C._new_line(client._ring, 504), 0
def step():
    global serial
    for _ in range(100):
        serial = serial % 9_999_999 + 1
        attempt(line.begin, client._ring, packed, serial, 0.0)
    while attempt(line.wait, 0, 0.0, 0):
        pass
storm(step)
""",
    "wakes a server": "wake(ring_of(service.Server('name')._ring))",
    "takes what it puts": """
queue = service.Queue('name')
def step():
    for _ in range(100):
        queue.put(1)
        attempt(queue.get, timeout=0.0)
storm(step)
""",
    "wakes a taker": "wake(ring_of(service.Queue('name')._ring))",
    "puts": "queue = service.Queue('name')\nstorm(lambda: attempt(queue.put, 1, timeout=0.0))",
    "publishes": """
topic = service.Topic('name')
slow = topic.subscribe()
storm(lambda: attempt(topic.publish, 1, timeout=0.0))
""",
    "sets": "event = service.Event('name')\nstorm(lambda: (event.set(), event.clear()))",
    "clears": "event = service.Event('name')\nstorm(event.clear)",
    "wakes a waiter": "wake(ring_of(service.Event('name')._event))",
    "wants the lock": """
lock = service.Lock('lock')
lock.acquire()
other = service.Lock('lock')
storm(lambda: other.acquire(timeout=0.0))
""",
    "arrives": "barrier = service.Barrier('barrier', 3)\n"
    "storm(lambda: attempt(barrier.wait, timeout=0.0))",
    "publishes values": "storm(lambda: service.publish('another', 1))",
}


def _call(service: Service) -> Any:
    return service.Client("name").call(1, timeout=_TIMEOUT_S)


def _acall(service: Service) -> Any:
    n_ticks = 0

    async def tick() -> None:
        nonlocal n_ticks
        while True:
            await asyncio.sleep(0.002)
            n_ticks += 1

    async def both() -> Any:
        ticking = asyncio.create_task(tick())
        try:
            return await service.Client("name").acall(1, timeout=_TIMEOUT_S)
        finally:
            ticking.cancel()
            assert n_ticks >= 5, "other tasks run"

    return asyncio.run(both())


def _submit(service: Service) -> Any:
    return service.Client("name").submit(1, timeout=_TIMEOUT_S).result(programs.WAIT_S)


def _wait_any(service: Service) -> Any:
    return wait_any([service.Event("name"), service.Queue("other")], _TIMEOUT_S)


def _publish(service: Service) -> Any:
    topic = service.Topic("name", depth=1, overflow="block")
    for _ in range(2):
        topic.publish(2, timeout=_TIMEOUT_S)


def _put(service: Service) -> Any:
    for _ in range(2):
        service.Queue("name", maxsize=1).put(2, timeout=_TIMEOUT_S)


class _Options(ctypes.Structure):
    """Of shmtensor_service_open()."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("socket", ctypes.c_char_p),
        ("manager", ctypes.c_char_p),
        ("start", ctypes.c_int),
        ("is_of_owner", ctypes.c_int),
        ("owner", ctypes.c_uint32),
    ]


def _in_c(what: str, wait: str, *more: Any) -> Callable[[Service], Any]:
    """Wait in a handle of the C interface, which this process has loaded."""
    found = re.search(r"/\S*libshmtensor\S*", Path("/proc/self/maps").read_text())
    assert found is not None
    library = ctypes.CDLL(found[0])
    open_, wait_, close = (
        getattr(library, f"shmtensor_{name}") for name in (f"{what}_open", wait, f"{what}_close")
    )

    def call(service: Service) -> None:
        options = _Options(ctypes.sizeof(_Options), service._name.encode())
        joined, handle, value = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        others = [ctypes.c_void_p() for _ in range(2)]
        assert library.shmtensor_service_open(ctypes.byref(options), ctypes.byref(joined)) == 0
        empty = [] if what == "client" else [ctypes.c_void_p()]
        assert open_(joined, b"name", *empty, ctypes.byref(handle)) == 0
        assert library.shmtensor_none(ctypes.byref(value)) == 0
        given = [value] if what == "client" else []
        outs = [ctypes.byref(out) for out in others]
        wait_(handle, *given, ctypes.c_double(_TIMEOUT_S), *outs, *more)
        for out in others[:1]:
            library.shmtensor_value_free(out)
        library.shmtensor_value_free(value)
        assert close(handle) == 0 and library.shmtensor_service_close(joined) == 0

    return call


_WAITS: dict[str, tuple[Callable[[Service], Any], list[str]]] = {
    "call": (_call, ["replies", "wakes a caller"]),
    "acall": (_acall, ["replies", "wakes a caller"]),
    "submit": (_submit, ["replies", "wakes a caller"]),
    "Server.take": (
        lambda s: s.Server("name").take(timeout=_TIMEOUT_S),
        ["requests of nobody", "requests that cannot be read", "wakes a server"],
    ),
    "Server.take of many": (
        lambda s: s.Server("name").take(9999, _TIMEOUT_S, _TIMEOUT_S),
        ["requests of nobody", "requests that cannot be read", "wakes a server"],
    ),
    "Queue.get": (
        lambda s: s.Queue("name").get(timeout=_TIMEOUT_S),
        ["takes what it puts", "wakes a taker"],
    ),
    "Queue.get with ack": (
        lambda s: s.Queue("name").get(timeout=_TIMEOUT_S, ack=True),
        ["takes what it puts", "wakes a taker"],
    ),
    "Queue.put": (_put, ["puts"]),
    "Topic.publish": (_publish, ["publishes"]),
    "Event.wait": (lambda s: s.Event("name").wait(_TIMEOUT_S), ["clears", "wakes a waiter"]),
    "Event.wait_pulse": (
        lambda s: s.Event("name").wait_pulse(_TIMEOUT_S),
        ["sets", "wakes a waiter"],
    ),
    "wait_any": (_wait_any, ["clears", "wakes a waiter"]),
    "Lock.acquire": (lambda s: s.Lock("lock").acquire(timeout=_TIMEOUT_S), ["wants the lock"]),
    "Barrier.wait": (lambda s: s.Barrier("barrier", 3).wait(_TIMEOUT_S), ["arrives"]),
    "wait_newer": (lambda s: s.wait_newer("name", 0, _TIMEOUT_S), ["publishes values"]),
    "call of C": (_in_c("client", "client_call"), ["replies", "wakes a caller"]),
    "take of C": (
        _in_c("server", "server_take"),
        ["requests of nobody", "requests that cannot be read", "wakes a server"],
    ),
    "get of C": (_in_c("queue", "queue_get"), ["takes what it puts", "wakes a taker"]),
    "get with ack of C": (
        _in_c("queue", "queue_get_delivery", None),
        ["takes what it puts", "wakes a taker"],
    ),
}
_CASES = [
    pytest.param(how, storm, id=f"{how}, {storm}")
    for how, (_, storms) in _WAITS.items()
    for storm in storms
]
_NEEDS_A_CALL = ("replies", "wakes a caller")  # these begin when there is one


@contextlib.contextmanager
def _signals(is_on: bool) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        if is_on:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def stormy() -> Iterator[programs.Program]:
    """A program that makes one storm after another, each in a child of its own."""
    with programs.reaped() as made:
        yield made(_STORM)


@contextlib.contextmanager
def _raging(stormy: programs.Program, service: Service, storm: str) -> Iterator[None]:
    stormy.say(json.dumps([service._name, _STORMS[storm]]))
    if storm not in _NEEDS_A_CALL:
        assert stormy.line() == "storm"
    try:
        yield
    finally:
        stormy.say()
        while stormy.line() != "over":
            pass


@pytest.mark.parametrize(("how", "storm"), _CASES)
def test_deadline_is_kept(service: Service, stormy: programs.Program, how: str, storm: str) -> None:
    with _raging(stormy, service, storm):
        for with_signals in False, True:
            begun_s = time.monotonic()
            with _signals(with_signals), contextlib.suppress(Empty, Full, WaitTimeoutError):
                _WAITS[how][0](service)
            assert time.monotonic() - begun_s < _TIMEOUT_S + _LATE_S


@pytest.mark.check
@pytest.mark.parametrize(
    ("wait", "storm"),
    [
        (lambda s: s.Client("name").call(1, timeout=programs.WAIT_S), "replies"),
        (lambda s: s.Server("name").take(timeout=programs.WAIT_S), "requests of nobody"),
        (lambda s: s.Queue("name").get(timeout=programs.WAIT_S), "wakes a taker"),
    ],
    ids=["call", "take", "get"],
)
def test_ctrl_c_ends_a_wait(
    service: Service, stormy: programs.Program, wait: Callable[[Service], Any], storm: str
) -> None:
    with _raging(stormy, service, storm):
        interrupt = lambda: os.kill(os.getpid(), signal.SIGINT)  # noqa: E731
        timer = threading.Timer(0.5, interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            wait(service)
        timer.join()
