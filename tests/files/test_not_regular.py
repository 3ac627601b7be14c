"""Paths at which a pipe, a device or a link is, or another file by the time they are mapped."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import files
from shmtensor.distributed import FileStore
from shmtensor.service import _modules
from shmtensor.storage import from_files
from shmtensor.utils import safetensors


def _open_published(path: Path) -> Any:
    """Open a published file, in whose place there is something else."""
    status = path.stat()
    identity = {
        "path": str(path),
        "device": status.st_dev,
        "inode": status.st_ino,
        "nbytes": status.st_size,
        "changed_ns": status.st_mtime_ns,
    }
    return _modules.open_file(identity, False)


_READERS: dict[str, Callable[[Path], Any]] = {
    "from_file": lambda path: st.from_file(str(path), False, 4),
    "from_file shared": lambda path: st.from_file(str(path), True, 4),
    "storage": lambda path: st.UntypedStorage.from_file(path, True, 4),
    "load": st.load,
    "load mmap": lambda path: st.load(path, mmap=True),
    "globals": lambda path: st.serialization.get_unsafe_globals_in_checkpoint(str(path)),
    "npy": files.load_npy,
    "npz": files.load_npz,
    "safetensors": safetensors.load_file,
    "metadata": safetensors.read_metadata,
    "publish": _modules.file_identity,
    "attach": _open_published,
    "store": lambda path: FileStore(str(path), 1),
}

_WRITERS: dict[str, Callable[[Path], Any]] = {
    "npy": lambda path: files.save_npy(path, st.ones(3)),
    "npz": lambda path: files.save_npz(path, {"a": st.ones(3)}),
    "safetensors": lambda path: safetensors.save_file({"a": st.ones(3)}, path),
}


@pytest.mark.parametrize("reader", _READERS)
def test_pipe_is_refused_and_nobody_waits(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises((RuntimeError, ValueError), match=r"pipe"):
        _READERS[reader](path)


@pytest.mark.parametrize("reader", _READERS)
def test_device_is_refused(reader: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=r"/dev/zero"):
        _READERS[reader](Path("/dev/zero"))


@pytest.mark.check
def test_published_file_whose_place_a_pipe_has_taken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    safetensors.save_file({"a": st.ones(3)}, path)
    identity = json.loads(json.dumps(_modules.file_identity(path)))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RuntimeError, match="has changed"):
        _modules.open_file(identity, False)


@pytest.mark.parametrize("mode", ["r", "c", "r+"])
def test_file_that_was_replaced_after_its_header_was_read_is_not_mapped(
    mode: str, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    np.save(path.with_suffix(".npy"), np.arange(4.0))
    with from_files.open_regular(path.with_suffix(".npy")) as (file, size):
        shutil.copy(path.with_suffix(".npy"), path)
        path.rename(path.with_suffix(".npy"))
        with pytest.raises(RuntimeError, match="another file by now"):
            from_files.mapped(file, 0, size, mode)


# --- writing -----------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("writer", _WRITERS)
def test_pipe_is_not_replaced(writer: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    (tmp_path / "link").symlink_to(path)
    for name in ("pipe", "link"):
        with pytest.raises(ValueError, match=rf"{name}: not a regular file"):
            _WRITERS[writer](tmp_path / name)
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


@pytest.mark.parametrize("writer", _WRITERS)
def test_device_is_not_replaced(writer: str, tmp_path: Path) -> None:
    path = tmp_path / "device"
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this user may not make devices")
    with pytest.raises(ValueError, match="device: not a regular file"):
        _WRITERS[writer](path)
    assert stat.S_ISCHR(path.stat().st_mode)


@pytest.mark.parametrize("writer", _WRITERS)
def test_pipe_that_is_only_a_descriptor_is_refused(writer: str) -> None:
    reader, target = os.pipe()
    try:
        with pytest.raises(ValueError, match="not a regular file"):
            _WRITERS[writer](Path(f"/dev/fd/{target}"))
    finally:
        os.close(reader)
        os.close(target)


def test_directory_is_not_replaced(tmp_path: Path) -> None:
    for name in (str(tmp_path), f"{tmp_path}/"):
        with pytest.raises(IsADirectoryError):
            files.save_npy(name, st.ones(3))
    with pytest.raises(FileNotFoundError):
        files.save_npy(f"{tmp_path}/none/", st.ones(3))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("writer", _WRITERS)
@pytest.mark.parametrize("is_there", [True, False])
def test_link_stays_and_its_file_is_replaced(writer: str, is_there: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if is_there:
        (folder / "data").write_bytes(b"old")
    (tmp_path / "link").symlink_to("folder/data")
    (tmp_path / "link to link").symlink_to(tmp_path / "link")
    _WRITERS[writer](tmp_path / "link to link")
    assert os.readlink(tmp_path / "link") == "folder/data"
    assert os.listdir(folder) == ["data"]
    assert not (folder / "data").is_symlink()
    assert _READERS[writer](folder / "data") is not None
    assert (folder / "data").stat().st_size > 12


@pytest.mark.parametrize("writer", _WRITERS)
@pytest.mark.parametrize("name", ["a" * 255, "ä" * 127, "\U0001f40d" * 63], ids=len)
def test_longest_names_are_written(writer: str, name: str, tmp_path: Path) -> None:
    _WRITERS[writer](tmp_path / name)
    assert os.listdir(tmp_path) == [name]
