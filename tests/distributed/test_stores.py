"""Stores, alone and shared; connections that are silent, wrong or hostile."""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from shmtensor import distributed as dist
from shmtensor.distributed._table import MAX_MESSAGE, Op, pack
from shmtensor.distributed._tcp_store import HELLO

KINDS = ["hash", "tcp", "file", "prefix"]


def make(kind: str, folder: Path) -> dist.Store:
    if kind == "tcp":
        return dist.TCPStore("127.0.0.1", 0, 1, True)
    if kind == "file":
        return dist.FileStore(str(folder / "store"), 1)
    if kind == "prefix":
        return dist.PrefixStore("a", dist.HashStore())
    return dist.HashStore()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> dist.Store:
    made = make(request.param, tmp_path)
    made.set_timeout(timedelta(seconds=0.2))
    return made


@pytest.mark.check
def test_values(store: dist.Store) -> None:
    before = store.num_keys()
    assert store.add("n", 3) == 3 and store.add("n", -1) == 2 and store.get("n") == b"2"
    store.set("k", "v")
    store.set("k", b"v\xff")
    assert store.get("k") == b"v\xff"
    assert store.compare_set("k", "other", "new") == b"v\xff"
    assert store.compare_set("none", "z", "y") == b"z" and not store.check(["none"])
    assert store.compare_set("first", "", "y") == b"y"
    assert store.compare_set("first", "y", "x") == b"x"
    assert store.check(["k", "n"]) and not store.check(["k", "zz"])
    assert store.num_keys() == before + 3
    assert store.delete_key("k") and not store.delete_key("k")
    store.append("text", "ab")
    store.append("text", "cd")
    assert store.multi_get(["text", "n"]) == [b"abcd", b"2"]
    store.multi_set(["p", "q"], ["1", "2"])
    store.wait(["p", "q"])
    assert any(key.endswith("p") for key in store.list_keys())
    store.queue_push("queue", "1")
    store.queue_push("queue", "2")
    assert store.queue_len("queue") == 2
    assert store.queue_pop("queue") == b"1" and store.queue_pop("queue") == b"2"
    with pytest.raises(dist.QueueEmptyError, match="empty"):
        store.queue_pop("queue", False)
    store.barrier("b", 1)


def test_what_is_missing(store: dist.Store) -> None:
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 200ms, keys: /.*none"):
        store.get("none")
    with pytest.raises(dist.DistStoreError, match=r"after 100ms, keys: /.*x, /.*y"):
        store.wait(["x", "y"], timedelta(milliseconds=100))
    store.set("text", "abc")
    with pytest.raises(ValueError, match="not a number"):
        store.add("text", 1)
    with pytest.raises(ValueError, match="64 bits"):
        store.add("n", 2**63 - 1) and store.add("n", 1)
    with pytest.raises(TypeError, match="text or bytes"):
        store.set("k", 3)  # type: ignore[arg-type]
    assert store.get("text") == b"abc"


def test_a_waiting_thread_is_woken(store: dist.Store) -> None:
    if isinstance(store, dist.TCPStore):
        other: dist.Store = dist.TCPStore("127.0.0.1", store.port)
    else:
        other = store
    store.set_timeout(timedelta(seconds=30))
    thread = threading.Thread(target=lambda: (time.sleep(0.1), other.set("late", "1")))
    thread.start()
    assert store.get("late") == b"1"
    thread.join()


def test_prefixes() -> None:
    inner = dist.HashStore()
    a, b = dist.PrefixStore("a", inner), dist.PrefixStore("b", inner)
    a.set("k", "1")
    assert not b.check(["k"]) and inner.list_keys() == ["a/k"]
    assert a.underlying_store is inner
    a.set_timeout(timedelta(seconds=1))
    assert inner.timeout == b.timeout == timedelta(seconds=1)


def _add(kind: str, where: str, n: int) -> None:
    store: dist.Store
    if kind == "tcp":
        store = dist.TCPStore("127.0.0.1", int(where))
    else:
        store = dist.FileStore(where, 4)
    for _ in range(n):
        store.add("sum", 1)
    store.barrier("end", 4)


@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_several_processes_share_a_store(kind: str, tmp_path: Path) -> None:
    store = make(kind, tmp_path)
    where = str(store.port) if isinstance(store, dist.TCPStore) else str(tmp_path / "store")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(kind, where, 100)) for _ in range(3)]
    for process in processes:
        process.start()
    store.barrier("end", 4)
    for process in processes:
        process.join()
        process.close()
    assert store.get("sum") == b"300"


def test_a_file_is_removed_with_its_last_user(tmp_path: Path) -> None:
    path = tmp_path / "store"
    a, b = dist.FileStore(str(path), 2), dist.FileStore(str(path), 2)
    a.set("k", "v")
    del a
    assert b.get("k") == b"v" and path.exists()
    del b
    assert not path.exists()


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"\xff" * 100)
    with pytest.raises(dist.DistStoreError, match="not a store file"):
        dist.FileStore(str(path), 1)
    path.write_bytes(pack(77, []))
    with pytest.raises(dist.DistStoreError, match="no operation 77"):
        dist.FileStore(str(path), 1)
    # A writer that was killed in the middle: its request has not been made.
    path.write_bytes(pack(Op.SET, [b"k", b"v"]) + pack(Op.SET, [b"x", b"y"])[:-1])
    store = dist.FileStore(str(path), 1)
    assert store.get("k") == b"v" and not store.check(["x"])
    with pytest.raises(OSError, match="No such file"):
        dist.FileStore(str(tmp_path / "none" / "store"), 1)


# --- TCP -----------------------------------------------------------------------------------------


def test_a_port_in_use() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    with pytest.raises(dist.DistNetworkError, match=rf"port: {store.port}.*EADDRINUSE"):
        dist.TCPStore("127.0.0.1", store.port, 1, True)
    again = dist.TCPStore("127.0.0.1", store.port, 1, True, multi_tenant=True)
    store.set("k", "v")
    assert again.get("k") == b"v"
    port = store.port
    del store, again
    dist.TCPStore("127.0.0.1", port, 1, True)  # the port is free again


def test_nobody_answers() -> None:
    short = timedelta(milliseconds=300)
    with pytest.raises(dist.DistNetworkError, match=r"timed out after 300ms.*127\.0\.0\.1, 1"):
        dist.TCPStore("127.0.0.1", 1, None, False, short)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        with pytest.raises(dist.DistNetworkError, match="timed out after 300ms"):
            dist.TCPStore("127.0.0.1", silent.getsockname()[1], None, False, short)


@pytest.mark.check
def test_something_else_has_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(dist.DistNetworkError, match="is not a store"):
            dist.TCPStore("127.0.0.1", server.getsockname()[1], None, False)
        thread.join()


def test_workers_that_do_not_come() -> None:
    with pytest.raises(dist.DistStoreError, match="wait timeout after 200ms"):
        dist.TCPStore("127.0.0.1", 0, 3, True, timedelta(milliseconds=200))


def test_the_server_ends() -> None:
    server = dist.TCPStore("127.0.0.1", 0, 1, True)
    client = dist.TCPStore("127.0.0.1", server.port, None, False, timedelta(milliseconds=300))
    client.set("k", "v")
    del server
    with pytest.raises(dist.DistNetworkError, match="Has rank 0 ended"):
        client.get("k")
    with pytest.raises(dist.DistNetworkError, match="timed out"):
        client.get("k")


def test_a_forked_child_has_a_connection_of_its_own() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    store.set("k", "v")
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            os._exit(0 if store.get("k") == b"v" and store.add("n", 1) else 1)
        assert store.get("k") == b"v"
        assert os.waitpid(pid, 0)[1] == 0
    assert store.get("n") == b"3"


def _hostile_bytes(generator: random.Random) -> bytes:
    noise = generator.randbytes(generator.randrange(200))
    hello = HELLO
    timeout = struct.pack("<q", generator.choice([0, 50, -1, 2**62]))
    field = generator.randbytes(generator.randrange(20))
    op = generator.randrange(256)
    return generator.choice(
        [
            noise,
            hello[: generator.randrange(8)],
            hello + noise,
            hello + struct.pack("<I", MAX_MESSAGE + 1),
            hello + struct.pack("<I", MAX_MESSAGE) + noise,
            hello + pack(op, [timeout, field, field][: generator.randrange(4)]),
            hello + pack(Op.WAIT, [timeout, b"never"]) * 20,
            hello + pack(Op.ADD, [timeout, b"keys", b"xxxxxxxx"]),
            hello + struct.pack("<I", 9) + bytes([Op.GET]) + struct.pack("<I", 2**32 - 1) + b"abcd",
            b"GET / HTTP/1.1\r\n\r\n",
        ]
    )


def test_hostile_connections_harm_nobody() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    generator = random.Random(5)
    with ExitStack() as stack:
        kept = []
        for i in range(400):
            connection = socket.create_connection(("127.0.0.1", store.port), timeout=5)
            with suppress(OSError):  # the server may have closed it
                connection.sendall(_hostile_bytes(generator))
            if i % 3 == 0:
                kept.append(stack.enter_context(connection))  # silent from now on
            else:
                connection.close()
            if i % 20 == 0:
                store.set("k", str(i))
                assert store.get("k") == str(i).encode()
        other = dist.TCPStore("127.0.0.1", store.port, None, False)
        other.set("other", "1")
        assert store.get("other") == b"1"


def test_replies_that_nobody_reads() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    store.set("large", b"x" * (8 << 20))
    with socket.create_connection(("127.0.0.1", store.port), timeout=5) as connection:
        request = pack(Op.GET, [struct.pack("<q", 1000), b"large"])
        with suppress(OSError):
            connection.sendall(HELLO + request * 50)
        # Still served; after some rounds the server has seen the requests above.
        assert [store.add("n", 1) for _ in range(4)] == [1, 2, 3, 4]
        total = 0
        connection.settimeout(20)
        with suppress(OSError):
            while data := connection.recv(1 << 20):
                total += len(data)
        assert total < 50 * (8 << 20)  # it was closed instead of keeping them all


def test_silent_connections_are_bounded() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", store.port), timeout=20))
            for _ in range(100)
        ]
        assert store.add("n", 1) == 1
        # The oldest ones are closed.
        assert silent[0].recv(1) == b""


def test_too_much_at_a_time() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    with pytest.raises(ValueError, match=f"at most {MAX_MESSAGE} bytes"):
        store.set("k", b"x" * (MAX_MESSAGE + 1))
    store.set("k", "v")
    assert store.get("k") == b"v"


# --- init_method ---------------------------------------------------------------------------------


def _init(method: str, rank: int) -> None:
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=2)
    objects: list[int] = [0, 0]
    dist.all_gather_object(objects, rank)
    os._exit(0 if objects == [0, 1] else 1)


@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_ways_to_meet(kind: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    method = f"tcp://127.0.0.1:{port}" if kind == "tcp" else f"file://{tmp_path}/meeting"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_init, args=(method, rank)) for rank in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
        process.close()


def test_handlers_for_other_schemes() -> None:
    def handler(url: str, **options: object) -> Iterator[tuple[dist.Store, int, int]]:
        yield dist.HashStore(), 0, 1

    dist.register_rendezvous_handler("here", handler)
    dist.init_process_group("shm", init_method="here://")
    assert dist.get_world_size() == 1
    dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="already registered"):
        dist.register_rendezvous_handler("here", handler)
    with pytest.raises(RuntimeError, match="No rendezvous handler"):
        next(dist.rendezvous("nowhere://"))
