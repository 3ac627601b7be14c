"""An array to another process and back, compared with other packages that carry arrays.

Run ``python benchmarks/bench_peers.py``. Behind each channel is a process that reads an element of
the array and sends the array back. The time is the wall time until the array can be read here
again. Ours is a queue that carries NumPy arrays by handle. The others are
what their users would write: pickles through queues and pipes, blocks of shared memory that are
made for each message, mapped files, a data base in memory, sockets, and ray's object store. A
package that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
from measure import Call, Result, compare, print_table, write_json

import shmtensor.multiprocessing

SIZES = {"4 KB": 1 << 10, "1 MB": 1 << 18, "64 MB": 1 << 24}
FORK = multiprocessing.get_context("fork")

#: Makes a round trip of an array out of it.
Peer = Callable[[], "contextlib.AbstractContextManager[Callable[[Any], Call]]"]


def _echo(get: Callable[[], Any], put: Callable[[Any], Any]) -> None:
    while (value := get()) is not None:
        float(value[0])
        put(value)


@contextlib.contextmanager
def _partner(
    context: Any, get: Any, put: Any, send: Any, receive: Any, end: Any = None
) -> Iterator[Callable[[Any], Call]]:
    """A process that echoes; *get* and *put* are its ends, *send* and *receive* those here."""
    process = context.Process(target=_echo, args=(get, put), daemon=True)
    process.start()

    def round_trip(value: Any) -> Call:
        def call() -> None:
            send(value)
            float(receive()[0])

        return call

    yield round_trip
    send(end)
    process.join()


# --- channels with pickles -----------------------------------------------------------------------


def _queue_pair(make: Callable[[], Any], context: Any) -> Any:
    there, back = make(), make()
    return _partner(context, there.get, back.put, there.put, back.get)


def ours() -> Any:
    """Our queue."""
    context = shmtensor.multiprocessing.get_context("fork")
    return _queue_pair(lambda: context.SimpleQueue(adopt=["numpy"]), context)


def standard_queue() -> Any:
    """The standard library's queue."""
    return _queue_pair(FORK.SimpleQueue, FORK)


def standard_pipe() -> Any:
    """Its pipe."""
    here, there = FORK.Pipe()
    return _partner(FORK, there.recv, there.send, here.send, here.recv)


def faster_fifo() -> Any:
    """faster-fifo's queue, large enough for one message."""
    import faster_fifo

    return _queue_pair(lambda: faster_fifo.Queue(max_size_bytes=(64 << 20) + 4096), FORK)


@contextlib.contextmanager
def zmq() -> Iterator[Callable[[Any], Call]]:
    """ZeroMQ's sockets, without copies of its own."""
    import zmq

    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/socket"

        def echo() -> None:
            with zmq.Context() as own, own.socket(zmq.PAIR) as socket:
                socket.connect(address)
                while len(frame := socket.recv(copy=False)) > 1:
                    float(np.frombuffer(frame, np.float32)[0])
                    socket.send(frame, copy=False)

        process = FORK.Process(target=echo, daemon=True)
        process.start()
        with zmq.Context() as context, context.socket(zmq.PAIR) as socket:
            socket.bind(address)

            def round_trip(value: Any) -> Call:
                def call() -> None:
                    socket.send(value, copy=False)
                    float(np.frombuffer(socket.recv(copy=False), np.float32)[0])

                return call

            yield round_trip
            socket.send(b"0")
            process.join()


# --- names of memory through a pipe --------------------------------------------------------------


def _by_name(
    write: Callable[[Any], Any], read: Callable[[Any], Any], drop: Callable[[Any, Any], None]
) -> Any:
    """A pipe that carries names: *write* stores an array, *read* opens it, *drop* ends both."""
    here, there = FORK.Pipe()

    def echo() -> None:
        while (name := there.recv()) is not None:
            array = read(name)
            float(array[0])
            there.send(name)
            drop(array, None)

    @contextlib.contextmanager
    def running() -> Iterator[Callable[[Any], Call]]:
        process = FORK.Process(target=echo, daemon=True)
        process.start()

        def round_trip(value: Any) -> Call:
            def call() -> None:
                here.send(write(value))
                name = here.recv()
                array = read(name)
                float(array[0])
                drop(array, name)

            return call

        yield round_trip
        here.send(None)
        process.join()

    return running()


class _Block(np.ndarray):
    """An array over a block, which it keeps open."""

    block: SharedMemory


def standard_shared_memory() -> Any:
    """A block of `multiprocessing.shared_memory` for each message."""

    resource_tracker.ensure_running()  # one for both processes

    def write(value: Any) -> Any:
        block = SharedMemory(create=True, size=value.nbytes)
        np.ndarray(value.shape, value.dtype, block.buf)[:] = value
        block.close()
        return block.name, value.shape, value.dtype

    def read(name: Any) -> Any:
        block = SharedMemory(name[0])
        array = np.ndarray(name[1], name[2], block.buf).view(_Block)
        array.block = block
        return array

    def drop(array: Any, name: Any) -> None:
        block = array.block
        del array
        with contextlib.suppress(BufferError):  # the caller's variable still looks into it
            block.close()
        if name is not None:
            block.unlink()

    return _by_name(write, read, drop)


def shared_array() -> Any:
    """A SharedArray for each message."""
    import SharedArray

    def write(value: Any) -> Any:
        name = f"shm://bench_{uuid.uuid4().hex}"
        SharedArray.create(name, value.shape, value.dtype)[:] = value
        return name

    def drop(array: Any, name: Any) -> None:
        if name is not None:
            SharedArray.delete(name)

    return _by_name(write, SharedArray.attach, drop)


def mapped_file() -> Any:
    """A .npy file in memory that NumPy maps, as joblib does for its workers."""

    def write(value: Any) -> Any:
        path = f"/dev/shm/bench_{uuid.uuid4().hex}.npy"
        np.save(path, value)
        return path

    def drop(array: Any, name: Any) -> None:
        if name is not None:
            os.unlink(name)

    return _by_name(write, lambda path: np.load(path, mmap_mode="r"), drop)


@contextlib.contextmanager
def lmdb() -> Iterator[Callable[[Any], Call]]:
    """LMDB in memory: one key, read in place by the other process and back here."""
    import lmdb

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        environments: dict[int, Any] = {}

        def opened() -> Any:
            if os.getpid() not in environments:
                environments[os.getpid()] = lmdb.open(
                    folder, map_size=1 << 30, sync=False, writemap=True, max_readers=8
                )
            return environments[os.getpid()]

        def write(value: Any) -> Any:
            with opened().begin(write=True) as transaction:
                transaction.put(b"array", value)
            return "array"

        def read(name: Any) -> Any:
            with opened().begin(buffers=True) as transaction:
                found = np.frombuffer(transaction.get(b"array"), np.float32)
                return found[:1].copy()  # what is used of it; the view ends with the transaction

        with _by_name(write, read, lambda array, name: None) as round_trip:
            yield round_trip
        for environment in environments.values():
            environment.close()


# --- an object store -----------------------------------------------------------------------------


@contextlib.contextmanager
def ray() -> Iterator[Callable[[Any], Call]]:
    """ray's object store: a call of an actor, whose argument and result lie there."""
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:

        @ray.remote
        class Echo:
            def call(self, value: Any) -> Any:
                float(value[0])
                return value

        echo = Echo.remote()  # type: ignore[attr-defined]

        def round_trip(value: Any) -> Call:
            def call() -> None:
                float(ray.get(echo.call.remote(value))[0])

            return call

        yield round_trip
    finally:
        ray.shutdown()


PEERS: dict[str, Peer] = {
    "standard queue": standard_queue,
    "standard pipe": standard_pipe,
    "standard shared_memory": standard_shared_memory,
    "NumPy mapped file": mapped_file,
    "SharedArray": shared_array,
    "faster-fifo": faster_fifo,
    "lmdb": lmdb,
    "zmq": zmq,
    "ray": ray,
}


def main() -> None:
    """Measure and print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--sample-ms", type=float, default=20.0)
    parser.add_argument("--peer", nargs="*", choices=[*PEERS], default=[*PEERS])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args()
    results: dict[str, list[Result]] = {size: [] for size in SIZES}
    missing = []
    for name in options.peer:
        with contextlib.ExitStack() as stack:
            try:
                theirs = stack.enter_context(PEERS[name]())
            except ImportError:
                missing.append(name)
                continue
            mine = stack.enter_context(ours())
            for size, n in SIZES.items():
                value = np.ones(n, np.float32)
                found = compare(
                    f"{size}, {name}",
                    mine(value),
                    theirs(value),
                    samples=options.samples,
                    sample_ms=options.sample_ms,
                    wall=True,
                )
                results[size].append(found)
    for found_of_size in results.values():
        print_table(found_of_size, theirs="the peer")
        print()
    if missing:
        print("not installed:", ", ".join(missing))
    if options.json:
        write_json(options.json, [r for rows in results.values() for r in rows])


if __name__ == "__main__":
    main()
