"""The file of a store: who removes it, and what those find who come or go in the meantime.

Not covered: requests (test_stores), disks that fill up and forks (test_store_faults).
"""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import waiting

from shmtensor import distributed as dist


def _value(store: dist.Store, key: str) -> bytes:
    store.set_timeout(timedelta(seconds=0.2))
    return store.get(key)


@pytest.mark.check
def test_one_that_comes_when_another_has_finished_finds_its_keys(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first = dist.FileStore(str(path), 2)
    first.set("address", "here")
    del first
    second = dist.FileStore(str(path), 2)
    assert _value(second, "address") == b"here"
    del second
    assert not path.exists()


@pytest.mark.parametrize("world_size", [-1, 3])
def test_a_file_stays_until_all_have_finished(world_size: int, tmp_path: Path) -> None:
    path = tmp_path / "store"
    for i in range(2):
        store = dist.FileStore(str(path), world_size)
        store.set(str(i), "v")
        del store
    assert _value(dist.FileStore(str(path)), "0") == b"v"


def test_a_file_stays_while_somebody_uses_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    kept = dist.FileStore(str(path))
    for _ in range(3):
        dist.FileStore(str(path), 2).set("k", "v")
    assert _value(kept, "k") == b"v"


def _comes_while_it_is_removed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread come, which sets a key, when the last user is about to remove the file."""

    def come() -> None:
        dist.FileStore(path).set("k", "v")

    thread = threading.Thread(target=come)
    unlink = os.unlink

    def unlink_late(target: str) -> None:
        thread.start()
        waiting.until(lambda: waiting.process_state(thread.native_id or 0) in ("S", ""))
        time.sleep(0.1)  # it may have slept for the interpreter's lock
        unlink(target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink_late)
        store = dist.FileStore(path, 1)
        del store
    thread.join()


def test_a_key_that_is_set_while_the_file_is_removed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "store")
    _comes_while_it_is_removed(path, monkeypatch)
    assert _value(dist.FileStore(path), "k") == b"v"


def test_a_file_that_was_made_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = dist.FileStore(str(path))
    store.set("old", "1")
    os.link(path, tmp_path / "its old name")  # so that the new file is another one
    path.unlink()
    other = dist.FileStore(str(path), 1)
    other.set("new", "2")
    other.set("more", "3")
    assert store.list_keys() == other.list_keys()
    assert _value(store, "new") == b"2"
    del store  # the new file has not counted it
    assert _value(other, "more") == b"3"
    del other
    assert not path.exists()


def test_leaving_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = dist.FileStore(str(path), 2)
    path.unlink()
    del store
    assert not path.exists()


def test_a_relative_path_stays_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = dist.FileStore("store", 1)
    store.set("k", "v")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert _value(store, "k") == b"v"
    assert store.path == "store"
    del store
    assert os.listdir(tmp_path) == ["elsewhere"]
    assert os.listdir(tmp_path / "elsewhere") == []
