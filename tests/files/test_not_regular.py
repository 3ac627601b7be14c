"""Paths at which a pipe or a device is, or another file by the time they are mapped."""

from __future__ import annotations

import json
import os
import shutil
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
