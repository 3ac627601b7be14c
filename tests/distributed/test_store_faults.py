"""Stores whose users fork, whose disks fill up, and which are given senseless timeouts."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import alarms
import numpy as np
import pytest

from shmtensor import distributed as dist
from shmtensor.distributed._table import MAX_MESSAGE, Op, pack
from shmtensor.distributed._tcp_store import HELLO

LIMIT_S = 60
KINDS = ["hash", "tcp", "file", "prefix"]


def make(kind: str, folder: Path) -> dist.Store:
    if kind == "tcp":
        return dist.TCPStore("127.0.0.1", 0, 1, True)
    if kind == "file":
        return dist.FileStore(str(folder / "store"), 1)
    if kind == "prefix":
        return dist.PrefixStore("a", dist.HashStore())
    return dist.HashStore()


def in_child(call: Callable[[], object]) -> int:
    """Fork a child that does *call*; return its pid."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        try:
            call()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return pid


# --- timeouts --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("timeout", [timedelta(days=25), timedelta(days=40000), timedelta.max])
def test_long_timeouts(kind: str, timeout: timedelta, tmp_path: Path) -> None:
    store = make(kind, tmp_path)
    store.set_timeout(timeout)
    other = dist.TCPStore("127.0.0.1", store.port) if isinstance(store, dist.TCPStore) else store
    thread = threading.Thread(target=lambda: other.set("late", "1"))
    thread.start()
    assert store.get("late") == b"1"
    store.wait(["late"], timeout)
    thread.join()
    assert store.timeout == timeout


@pytest.mark.parametrize("kind", KINDS)
def test_negative_timeouts_are_over_at_once(kind: str, tmp_path: Path) -> None:
    store = make(kind, tmp_path)
    for timeout in (timedelta(0), timedelta(seconds=-5), timedelta.min):
        with pytest.raises(dist.DistStoreError, match="timeout"):
            store.wait(["none"], timeout)
    store.set("k", "v")
    assert store.get("k") == b"v"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_timeout_is_refused(kind: str, tmp_path: Path) -> None:
    store = make(kind, tmp_path)
    for bad in (5, 0.5, "1"):
        with pytest.raises(TypeError, match=r"datetime\.timedelta, got"):
            store.set_timeout(bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"datetime\.timedelta, got"):
            store.wait(["none"], bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"datetime\.timedelta, got"):
        dist.TCPStore("127.0.0.1", 0, 1, True, timeout=5)  # type: ignore[arg-type]


@pytest.mark.check
@pytest.mark.parametrize("milliseconds", [2**31, 2**40, 2**63, 2**64 - 1])
def test_a_strangers_long_timeout_ends_nobody(milliseconds: int) -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    store.set_timeout(timedelta(seconds=LIMIT_S))
    with socket.create_connection(("127.0.0.1", store.port)) as stranger:
        stranger.sendall(HELLO + pack(Op.GET, [milliseconds.to_bytes(8, "little"), b"none"]))
        assert stranger.recv(len(HELLO)) == HELLO
        store.set("k", "v")
        assert store.get("k") == b"v"
        store.set("none", "there")  # the stranger's request is answered, too
        assert b"there" in stranger.recv(1 << 10)
    assert dist.TCPStore("127.0.0.1", store.port).get("k") == b"v"


def test_a_request_with_very_many_fields_costs_its_connection() -> None:
    store = dist.TCPStore("127.0.0.1", 0, 1, True)
    with socket.create_connection(("127.0.0.1", store.port)) as stranger:
        stranger.sendall(HELLO + pack(Op.WAIT, [bytes(8), *[b"none"] * 100_000]))
        assert stranger.recv(len(HELLO)) == HELLO
        assert stranger.recv(1) == b""
    store.set("k", "v")
    assert store.get("k") == b"v"


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_does_not_grow_beyond_a_reply(kind: str, tmp_path: Path) -> None:
    store = make(kind, tmp_path)
    half = bytes(MAX_MESSAGE // 2)
    store.append("k", half)
    with pytest.raises(ValueError, match=f"append: a value has at most .* has {len(half)} and"):
        store.append("k", half)
    assert store.get("k") == half


# --- files ----------------------------------------------------------------------------------


@contextmanager
def largest_file(nbytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1, 3, 4, 100])
def test_a_write_that_does_not_fit_changes_nothing(room: int, tmp_path: Path) -> None:
    path = tmp_path / "store"
    store, other = dist.FileStore(str(path)), dist.FileStore(str(path))
    store.set("k", "old")
    before = path.read_bytes()
    with largest_file(len(before) + room):
        with pytest.raises(OSError, match="File too large") as caught:
            store.set("k", "new" * 100)
        assert caught.value.filename == str(path)
        assert path.read_bytes() == before
        assert store.get("k") == other.get("k") == b"old"
        with pytest.raises(OSError, match="File too large"):
            store.add("n" * 100, 1)
        assert not store.check(["n" * 100])
    store.set("k", "new")
    assert store.add("n", 1) == 1 and other.add("n", 1) == 2
    assert other.get("k") == store.get("k") == dist.FileStore(str(path)).get("k") == b"new"


@pytest.mark.parametrize("size", [1, 3, 4, 5, 20])
def test_a_half_record_of_a_killed_writer_is_cut_off(size: int, tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = dist.FileStore(str(path))
    store.set("k", "v")
    with path.open("ab") as file:
        file.write(pack(Op.SET, [b"k", b"a value that was never written"])[:size])
    assert store.get("k") == b"v"
    store.set("j", "w")
    assert dist.FileStore(str(path)).multi_get(["k", "j"]) == [b"v", b"w"]


def _finishes(call: Callable[[], object]) -> bool:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return not thread.is_alive()


@pytest.mark.check
@pytest.mark.parametrize("parent_dies", [False, True])
def test_a_child_that_was_forked_inside_a_request_blocks_nobody(
    parent_dies: bool, tmp_path: Path
) -> None:
    path = str(tmp_path / "store")
    store = dist.FileStore(path)
    reader, writer = os.pipe()

    def fork_inside() -> None:
        with dist.FileStore(path)._log._locked():
            if os.fork() == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(LIMIT_S)
                os.close(writer)
                os.read(reader, 1)  # lives as long as the test
                os._exit(0)
            if parent_dies:
                os._exit(0)

    pid = in_child(fork_inside)
    assert os.waitpid(pid, 0)[1] == 0
    try:
        assert _finishes(lambda: store.set("k", "v"))
    finally:
        os.close(writer)
        os.close(reader)
    assert store.get("k") == b"v"


def test_a_child_of_a_file_store_sees_what_the_file_has(tmp_path: Path) -> None:
    store = dist.FileStore(str(tmp_path / "store"))
    assert store.add("n", 1) == 1

    def count() -> None:
        assert store.add("n", 1) == 2

    assert os.waitpid(in_child(count), 0)[1] == 0
    assert store.add("n", 1) == 3


# --- forks while another thread uses the store ----------------------------------------------


@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_a_child_uses_a_store_in_which_its_parents_thread_waits(kind: str, tmp_path: Path) -> None:
    store = make(kind, tmp_path)
    store.set_timeout(timedelta(seconds=LIMIT_S))
    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(store.get("late")))
    thread.start()
    if isinstance(store, dist.TCPStore):
        while not store._lock.locked():
            pass
    pid = in_child(lambda: (store.set("k", "v"), store.set("late", store.get("k"))))
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()
    assert got == [b"v"] and store.get("k") == b"v"


def test_a_child_uses_its_copy_of_a_store_in_memory() -> None:
    store = dist.HashStore()
    store.set("k", "v")
    reader, writer = os.pipe()

    def hold() -> None:
        with store._changed:
            os.write(writer, b"x")
            os.read(reader_2, 1)

    reader_2, writer_2 = os.pipe()
    thread = threading.Thread(target=hold)
    thread.start()
    os.read(reader, 1)
    pid = in_child(lambda: store.compare_set("k", "v", "w"))
    assert os.waitpid(pid, 0)[1] == 0
    os.write(writer_2, b"x")
    thread.join()
    assert store.get("k") == b"v"
    for fd in (reader, writer, reader_2, writer_2):
        os.close(fd)


# --- what no store takes -----------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("kind", KINDS)
def test_one_text_is_no_list_of_keys(kind: str, tmp_path: Path) -> None:
    store = make(kind, tmp_path)
    store.set("a", b"1")
    store.set("b", b"2")
    calls: list[Callable[[], object]] = [
        lambda: store.wait("ab"),
        lambda: store.check("ab"),
        lambda: store.multi_get("ab"),
        lambda: store.multi_set("ab", ["3", "4"]),
        lambda: store.multi_set(["a", "b"], "34"),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"got the one text '(ab|34)'"):
            call()
    assert store.multi_get(["a", "b"]) == [b"1", b"2"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_store_refuses_leaves_nothing(kind: str, tmp_path: Path) -> None:
    store = make(kind, tmp_path)
    before = store.num_keys()
    with pytest.raises(TypeError, match="a value of a store must be text or bytes, got int"):
        store.multi_set(["a", "b"], ["1", 2])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="integer"):
        store.barrier("a", "2")  # type: ignore[arg-type]
    for wrong in ("1", 1.5, None):
        with pytest.raises(TypeError, match="integer"):
            store.add("a", wrong)  # type: ignore[arg-type]
    for number in (2**63, -(2**63) - 1, 2**80):
        with pytest.raises(ValueError, match=f"64 bits, got {number}"):
            store.add("a", number)
    assert store.num_keys() == before
    assert store.add("a", np.int64(2**62)) == 2**62


def test_the_path_of_a_file_may_be_bytes(tmp_path: Path) -> None:
    store = dist.FileStore(os.fsencode(tmp_path / "store"), 1)  # type: ignore[arg-type]
    assert store.path == str(tmp_path / "store")


def test_a_store_in_a_cycle_closes_its_connection(tmp_path: Path) -> None:
    for _ in range(20):  # the order of what the collector ends varies
        cycle: list[Any] = [make("tcp", tmp_path)]
        cycle[0].set("a", b"1")
        cycle[0].itself = cycle
        del cycle
    gc.collect()  # a connection that is open would be a ResourceWarning, which fails


def test_finalizers_in_a_thread_that_begins_hold_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = threading.Thread

    class Begins(plain):  # type: ignore[valid-type, misc]
        def start(self) -> None:
            other = plain(target=before.clear)
            other.start()
            other.join(LIMIT_S)
            assert not other.is_alive()
            super().start()

    before = [make("tcp", tmp_path)]
    monkeypatch.setattr(threading, "Thread", Begins)
    make("tcp", tmp_path).set("a", b"1")


def test_a_store_for_which_there_is_no_thread_gives_up_its_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", no_more)
        with pytest.raises(RuntimeError, match="start new thread"):
            dist.TCPStore("127.0.0.1", port, 1, True, multi_tenant=True)
    store = dist.TCPStore("127.0.0.1", port, 1, True, multi_tenant=True)
    store.set("a", b"1")
    assert store.get("a") == b"1"


# --- what a signal's handler raises ------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [TimeoutError, ConnectionResetError, ValueError])
def test_an_alarm_of_the_program_is_not_the_stores(
    kind: str, error: type[Exception], tmp_path: Path
) -> None:
    store = make(kind, tmp_path)
    store.set("a", b"1")
    with alarms.comes(0.3, error("of the program")), pytest.raises(error, match="of the program"):
        store.get("missing")
    assert store.get("a") == b"1"


def test_an_alarm_while_a_store_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*args: object, **options: object) -> None:
        time.sleep(LIMIT_S)

    monkeypatch.setattr(socket, "create_connection", hang)
    with alarms.comes(0.3, TimeoutError("of the program")), pytest.raises(TimeoutError) as told:
        dist.TCPStore("127.0.0.1", 1)
    assert str(told.value) == "of the program"


def test_an_alarm_in_a_request_leaves_what_the_file_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make("file", tmp_path)
    store.set("a", b"1")
    with monkeypatch.context() as patch, alarms.handled():
        patch.setattr(os, "pwrite", alarms.interrupt)
        with pytest.raises(alarms.Alarm):
            store.set("a", b"2")
    assert store.get("a") == b"1"
