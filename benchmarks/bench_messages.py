"""Messages between unrelated programs, compared with other packages for them.

Run ``python benchmarks/bench_messages.py``; the peers are iceoryx2, pyzmq and the standard library.
One that is not installed is named and left out. Each channel is two programs: this one, and one
that answers. All waits are event driven: nobody polls. The rows are

- a round trip of an array of 4 KB, and of our own tensor;
- a round trip in which 1 MB or 16 MB are written here and summed there, in memory of the channel
  where it lends some;
- the time of `publish` with 1, 4 and 32 subscribers of 1 MB, and the memory that it takes;
- a named queue against a queue of a family, a call against two messages of named queues, and how
  many calls a server answers in a second when it takes them in batches.

Samples of both sides alternate. All are wall times of two or more processes: compare ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from measure import Result, compare, print_table, write_json

from shmtensor import multiprocessing
from shmtensor.service import Service

SMALL = 4 << 10
LARGE = {"1 MB": 1 << 20, "16 MB": 16 << 20}
SUBSCRIBERS = (1, 4, 32)
PEERS = ("iceoryx2", "pyzmq", "standard")
READY = "ready"
#: After a rest, the first trips take as long as the processors need to wake up.
SAMPLE_MS = 60.0


class Channel(Protocol):
    """One end of a channel between two programs."""

    def send(self, array: Any) -> None:
        """Send an array."""

    def write(self, nbytes: int, value: int) -> None:
        """Send an array that is written for it, in memory of the channel if it has any to lend."""

    def receive(self, use: Callable[[Any], int]) -> int:
        """Wait for an array, and return what *use* says of it."""


# --- channels -----------------------------------------------------------------------------------


class _OurQueue:
    """Named queues: of NumPy arrays, or of tensors."""

    as_: Any = "numpy"

    def __init__(self, name: str, is_here: bool) -> None:
        self._service = Service(name, start=is_here)
        queues = [self._service.Queue(end, as_=self.as_) for end in ("there", "back")]
        self._out, self._in = queues if is_here else reversed(queues)

    def send(self, array: Any) -> None:
        self._out.put(array)

    def write(self, nbytes: int, value: int) -> None:
        memory = self._service.empty(nbytes, dtype="uint8", as_="numpy")
        memory[:] = value
        self._out.put(memory)

    def receive(self, use: Callable[[Any], int]) -> int:
        return use(self._in.get())


class _OurTensors(_OurQueue):
    """Named queues of this package's tensors."""

    as_ = "shmtensor"


class _OurTopic:
    """Two topics."""

    def __init__(self, name: str, is_here: bool) -> None:
        service = Service(name, start=is_here)
        topics = [service.Topic(end) for end in ("there", "back")]
        self._out, inward = topics if is_here else reversed(topics)
        self._in = inward.subscribe(as_="numpy")

    def send(self, array: Any) -> None:
        self._out.publish(array)

    def write(self, nbytes: int, value: int) -> None:
        with self._out.loan(nbytes, dtype="uint8", as_="numpy") as memory:
            memory[:] = value

    def receive(self, use: Callable[[Any], int]) -> int:
        return use(self._in.get())


class _Iceoryx:
    """Two publish-subscribe services of iceoryx2, each with an event that wakes the subscriber."""

    def __init__(self, name: str, is_here: bool, publishes: bool = True) -> None:
        import iceoryx2 as iox

        iox.set_log_level_from_env_or(iox.LogLevel.Error)
        self._node = iox.NodeBuilder.new().create(iox.ServiceType.Ipc)
        self._wait_s = iox.Duration.from_secs(60)
        ends = [self._open(iox, f"{name}/{end}") for end in ("there", "back")]
        outward, inward = ends if is_here else reversed(ends)
        if publishes:
            factory = outward[0].publisher_builder().initial_max_slice_len(max(LARGE.values()))
            self._publisher = factory.create()
            self._notifier = outward[1].notifier_builder().create()
        self._subscriber = inward[0].subscriber_builder().create()
        self._listener = inward[1].listener_builder().create()

    def _open(self, iox: Any, name: str) -> tuple[Any, Any]:
        named = iox.ServiceName.new(name)
        most = max(SUBSCRIBERS) + 1
        slices = self._node.service_builder(named).publish_subscribe(iox.Slice[ctypes.c_uint8])
        events = self._node.service_builder(named).event()
        return (
            slices.max_subscribers(most).max_nodes(most).open_or_create(),
            events.max_listeners(most).max_nodes(most).open_or_create(),
        )

    def _loan(self, nbytes: int) -> tuple[Any, Any]:
        sample = self._publisher.loan_slice_uninit(nbytes)
        return sample, np.frombuffer(sample.payload().as_memory_view(), np.uint8)

    def send(self, array: Any) -> None:
        sample, memory = self._loan(array.nbytes)
        memory[:] = array.view(np.uint8)
        sample.assume_init().send()
        self._notifier.notify()

    def write(self, nbytes: int, value: int) -> None:
        sample, memory = self._loan(nbytes)
        memory[:] = value
        sample.assume_init().send()
        self._notifier.notify()

    def receive(self, use: Callable[[Any], int]) -> int:
        while (sample := self._subscriber.receive()) is None:
            self._listener.timed_wait(self._wait_s)
        return use(np.frombuffer(sample.payload().as_memory_view(), np.uint8))


class _Zmq:
    """A pair of ZeroMQ's sockets over a Unix socket, without a copy where it can be had."""

    def __init__(self, name: str, is_here: bool) -> None:
        import zmq

        self._socket = zmq.Context().socket(zmq.PAIR)
        address = f"ipc:///tmp/{name}.zmq"
        (self._socket.bind if is_here else self._socket.connect)(address)

    def send(self, array: Any) -> None:
        self._socket.send(array, copy=False)

    def write(self, nbytes: int, value: int) -> None:
        memory = np.empty(nbytes, np.uint8)
        memory[:] = value
        self._socket.send(memory, copy=False)

    def receive(self, use: Callable[[Any], int]) -> int:
        return use(np.frombuffer(self._socket.recv(copy=False).buffer, np.uint8))


class _Standard:
    """Connections of the standard library, which unrelated programs open by an address."""

    def __init__(self, name: str, is_here: bool) -> None:
        from multiprocessing.connection import Client, Listener

        address = f"/tmp/{name}.standard"
        self._listener = Listener(address, "AF_UNIX") if is_here else None
        self._connection: Any = None if is_here else Client(address, "AF_UNIX")

    def _end(self) -> Any:
        if self._connection is None and self._listener is not None:
            self._connection = self._listener.accept()
        return self._connection

    def send(self, array: Any) -> None:
        self._end().send(array)

    def write(self, nbytes: int, value: int) -> None:
        memory = np.empty(nbytes, np.uint8)
        memory[:] = value
        self._end().send(memory)

    def receive(self, use: Callable[[Any], int]) -> int:
        return use(self._end().recv())


CHANNELS: dict[str, tuple[Callable[[str, bool], Channel], str]] = {
    "queue": (_OurQueue, "shmtensor"),
    "tensors": (_OurTensors, "shmtensor"),
    "topic": (_OurTopic, "shmtensor"),
    "iceoryx2": (_Iceoryx, "iceoryx2"),
    "pyzmq": (_Zmq, "zmq"),
    "standard": (_Standard, "multiprocessing"),
}


# --- the program at the other end ---------------------------------------------------------------


def _first(array: Any) -> int:
    return int(array[0])


def _sum(array: Any) -> int:
    return int(array.sum(dtype=np.int64))


def _answer(channel: str, name: str) -> None:
    """Send back what comes: small arrays as they are, of large ones a small one with their sum."""
    end = CHANNELS[channel][0](name, False)
    print(READY, flush=True)

    def answered(array: Any) -> int:
        if array.nbytes <= SMALL:
            end.send(array)
        else:
            end.send(np.array([_sum(array)], np.int64))
        return 0

    while True:
        end.receive(answered)


def _subscribe(channel: str, name: str) -> None:
    """Take what is published, and keep nothing."""
    if channel == "iceoryx2":
        end: Any = _Iceoryx(name, False, publishes=False)
        print(READY, flush=True)
        while True:
            end.receive(_first)
    subscription = Service(name).Topic("frames").subscribe(as_="numpy")
    print(READY, flush=True)
    for frame in subscription:
        _first(frame)


def _serve(name: str, most: str) -> None:
    server = Service(name).Server("sum")
    print(READY, flush=True)
    while True:
        for request in server.take(int(most)):
            request.reply(request.value)


def _echo_queue(name: str) -> None:
    service = Service(name)
    there, back = service.Queue("there"), service.Queue("back")
    print(READY, flush=True)
    while True:
        back.put(there.get())


ROLES: dict[str, Callable[..., None]] = {
    "answer": _answer,
    "subscribe": _subscribe,
    "serve": _serve,
    "echo": _echo_queue,
}


@contextlib.contextmanager
def _program(*arguments: str) -> Iterator[None]:
    command = [sys.executable, __file__, "--role", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline().strip() != READY:
                raise RuntimeError(f"{' '.join(arguments)} did not start")
            yield
        finally:
            process.kill()


@contextlib.contextmanager
def _channel(channel: str, name: str) -> Iterator[Channel]:
    """Return this program's end; the other program answers at the other."""
    own = f"{name}-{channel}"
    made = CHANNELS[channel][0](own, True)
    with _program("answer", channel, own):
        yield made


# --- rows ---------------------------------------------------------------------------------------


def _small_trip(end: Channel, array: Any) -> Callable[[], object]:
    def call() -> None:
        end.send(array)
        end.receive(_first)

    return call


def _large_trip(end: Channel, nbytes: int) -> Callable[[], object]:
    def received(array: Any) -> int:
        return int(array.view(np.int64)[0])

    def call() -> None:
        end.write(nbytes, 3)
        if end.receive(received) != 3 * nbytes:
            raise ValueError("the other program read another sum")

    return call


def round_trips(name: str, peer: str, ours: str, samples: int) -> list[Result]:
    """Return the rows of one of our channels against a peer's."""
    small = np.ones(SMALL // 4, np.float32)
    with _channel(ours, name) as mine, _channel(peer, name) as theirs:
        rows = [
            compare(
                f"{ours}, 4 KB, {peer}",
                _small_trip(mine, small),
                _small_trip(theirs, small),
                samples=samples,
                sample_ms=SAMPLE_MS,
                wall=True,
            )
        ]
        for label, nbytes in LARGE.items():
            rows.append(
                compare(
                    f"{ours}, {label} written and summed, {peer}",
                    _large_trip(mine, nbytes),
                    _large_trip(theirs, nbytes),
                    samples=samples,
                    sample_ms=SAMPLE_MS,
                    wall=True,
                )
            )
    return rows


def arrays_against_tensors(name: str, samples: int) -> Result:
    """Return the row of an array of 4 KB against a tensor of the service."""
    array = np.ones(SMALL // 4, np.float32)
    with _channel("queue", name) as arrays, _channel("tensors", name) as tensors:
        service = Service(f"{name}-tensors")
        tensor = service.empty(SMALL // 4).fill_(1)
        return compare(
            "4 KB array, own tensor",
            _small_trip(arrays, array),
            _small_trip(tensors, tensor),
            samples=samples,
            sample_ms=SAMPLE_MS,
            wall=True,
        )


def publishing(name: str, peer: str | None, samples: int) -> list[str]:
    """Say what `publish` of 1 MB takes by the number of subscribers: time, and memory."""
    lines, first = [], 0.0
    for count in SUBSCRIBERS:
        us, grown = _own_publish(f"{name}-{count}", count, samples)
        first = first or us
        lines.append(
            f"publish, 1 MB, {count:2} subscribers: {us:6.1f} us, {us - first:+6.1f} us, "
            f"memory {grown / 1024:+.0f} KiB"
        )
        if peer is not None:
            lines[-1] += f"; {peer}: {_peer_publish(f'{name}-{count}', count, samples):6.1f} us"
    return lines


def _own_publish(name: str, count: int, samples: int) -> tuple[float, int]:
    """Return the microseconds of `publish`, and the bytes that the service takes for it."""
    service = Service(name, start=True)
    topic = service.Topic("frames", depth=16)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(_program("subscribe", "topic", name))
        value = service.empty(LARGE["1 MB"], dtype="uint8", as_="numpy")
        before = service.status().resident_bytes
        us = _publish_us(lambda: topic.publish(value), samples)
        return us, service.status().resident_bytes - before


def _publish_us(publish: Callable[[], object], samples: int) -> float:
    """Return the median of single calls, each made after the subscribers have slept again."""
    taken = []
    for _ in range(samples * 20):
        time.sleep(0.002)
        start = time.perf_counter()
        publish()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1e6


def _peer_publish(name: str, count: int, samples: int) -> float:
    end = _Iceoryx(name, True)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(_program("subscribe", "iceoryx2", name))

        def publish() -> None:
            sample, _ = end._loan(LARGE["1 MB"])
            sample.assume_init().send()
            end._notifier.notify()

        return _publish_us(publish, samples)


def _echo_family(there: Any, back: Any) -> None:
    while (value := there.get()) is not None:
        back.put(value)


def named_against_family(name: str, samples: int) -> list[Result]:
    """Return the rows of a named queue against `shmtensor.multiprocessing.Queue`."""
    context = multiprocessing.get_context("fork")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=_echo_family, args=(there, back), daemon=True)
    process.start()
    own = f"{name}-family"
    service = Service(own, start=True)
    named_there, named_back = service.Queue("there"), service.Queue("back")
    rows = []
    with _program("echo", own):
        for label, value in (("tuple of 8", tuple(range(8))), ("1 KB of bytes", b"x" * 1024)):

            def ours(value: Any = value) -> None:
                named_there.put(value)
                named_back.get()

            def theirs(value: Any = value) -> None:
                there.put(value)
                back.get()

            rows.append(
                compare(
                    f"named Queue, {label}, mp.Queue",
                    ours,
                    theirs,
                    samples=samples,
                    sample_ms=SAMPLE_MS,
                    wall=True,
                )
            )
    there.put(None)
    process.join()
    return rows


def calls(name: str, samples: int) -> tuple[Result, float]:
    """Return the row of a call against two messages, and the calls per second with batches."""
    own = f"{name}-calls"
    service = Service(own, start=True)
    client = service.Client("sum")
    there, back = service.Queue("there"), service.Queue("back")

    def two_messages() -> None:
        there.put(7)
        back.get()

    with _program("serve", own, "1"), _program("echo", own):
        row = compare(
            "call, two messages",
            lambda: client.call(7),
            two_messages,
            samples=samples,
            sample_ms=SAMPLE_MS,
            wall=True,
        )
    rates = []
    with _program("serve", own, "256"):
        for _ in range(samples):
            start = time.perf_counter()
            futures = [client.submit(i) for i in range(5000)]
            for future in futures:
                future.result()
            rates.append(5000 / (time.perf_counter() - start))
    return row, float(np.median(rates))


#: Of the rows' names: their ends, and at most what part of the other side's time.
GOALS = (
    ("4 KB, iceoryx2", 0.5),
    ("4 KB, pyzmq", 0.3),
    ("own tensor", 1.5),
    ("summed, iceoryx2", 0.8),
    ("mp.Queue", 1.05),
    ("two messages", 1.2),
)
CALLS_PER_SECOND = 50_000


def _missed(rows: list[Result]) -> list[str]:
    return [
        f"{row.name}: {row.ratio:.2f}, goal {goal}"
        for row in rows
        for end, goal in GOALS
        if row.name.endswith(end) and row.ratio > goal
    ]


def main() -> int:
    """Measure all rows; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--role", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        ROLES[options.role[0]](*options.role[1:])
        return 0
    name = f"bench-{os.getpid()}"
    peers = [
        p for p in ("iceoryx2", "pyzmq", "standard") if importlib.util.find_spec(CHANNELS[p][1])
    ]
    for absent in set(PEERS) - set(peers):
        print(f"{absent} is not installed")
    rows: list[Result] = []
    for peer in peers:
        for ours in ("queue", "topic"):
            rows += round_trips(f"{name}-{peer}-{ours}", peer, ours, options.samples)
    rows.append(arrays_against_tensors(name, options.samples))
    rows += named_against_family(name, options.samples)
    row, rate = calls(name, options.samples)
    rows.append(row)
    print_table(rows, theirs="against")
    print(f"calls in batches: {rate:.0f} in a second, goal {CALLS_PER_SECOND}")
    for line in publishing(name, "iceoryx2" if "iceoryx2" in peers else None, options.samples):
        print(line)
    missed = _missed(rows)
    for line in missed:
        print(f"missed: {line}")
    if options.json:
        write_json(options.json, rows)
    return int(bool(missed) or rate < CALLS_PER_SECOND)


if __name__ == "__main__":
    sys.exit(main())
