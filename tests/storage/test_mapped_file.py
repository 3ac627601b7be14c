"""Storages over files: private and shared maps, creation, growth, clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest

import shmtensor
from shmtensor.storage import UntypedStorage


@pytest.mark.check
def test_private_map_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"abcdef")
    storage = UntypedStorage.from_file(path, shared=False, nbytes=4)
    assert storage.tolist() == list(b"abcd")
    storage.fill_(0)
    assert path.read_bytes() == b"abcdef"
    with pytest.raises(RuntimeError, match="not resizable"):
        storage.resize_(6)


def test_shared_map_writes_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"abcdef")
    UntypedStorage.from_file(path, shared=True, nbytes=6)[0] = ord("x")
    assert path.read_bytes() == b"xbcdef"


def test_shared_map_makes_and_grows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new"
    storage = UntypedStorage.from_file(path, shared=True, nbytes=16)
    assert storage.tolist() == [0] * 16
    storage[15] = 1
    assert path.stat().st_size == 16
    grown = UntypedStorage.from_file(path, shared=True, nbytes=32)
    assert grown.tolist() == [0] * 15 + [1] + [0] * 16


def test_private_map_of_short_file_states_both_sizes(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"abc")
    with pytest.raises(
        RuntimeError, match=r"size <3> is smaller than the required mapping size <10>"
    ):
        UntypedStorage.from_file(path, nbytes=10)


@pytest.mark.check
def test_missing_file_names_path_and_reason(tmp_path: Path) -> None:
    with pytest.raises(
        RuntimeError, match=r"unable to open file <.*missing> in read-only mode: No such"
    ):
        UntypedStorage.from_file(tmp_path / "missing", nbytes=1)
    with pytest.raises(RuntimeError, match="read-write"):
        UntypedStorage.from_file(tmp_path / "no" / "folder", shared=True, nbytes=1)


def test_zero_bytes_need_no_file_size(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"")
    assert len(UntypedStorage.from_file(path, nbytes=0)) == 0


def test_tensor_over_mapped_file(tmp_path: Path) -> None:
    path = tmp_path / "floats"
    tensor = shmtensor.empty(0)
    tensor.set_(UntypedStorage.from_file(path, shared=True, nbytes=16), 0, (2, 2))
    tensor.copy_(shmtensor.tensor([[1.0, 2.0], [3.0, 4.0]]))
    again = UntypedStorage.from_file(path, nbytes=16)
    assert shmtensor.empty(0).set_(again, 0, (4,)).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_from_file_shares_or_keeps_its_writes(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    shared = shmtensor.from_file(path, shared=True, size=4, dtype=shmtensor.float64)
    shared[1] = 2.5
    private = shmtensor.from_file(path, size=4, dtype=shmtensor.float64)
    private[0] = 1
    assert shared.tolist() == [0, 2.5, 0, 0]
    assert private.tolist() == [1, 2.5, 0, 0]
    assert shared.is_shared()
    assert not private.is_shared()
    assert shmtensor.from_file(path, True, 2, requires_grad=True).requires_grad


def test_from_file_refuses_what_it_cannot_map(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    with pytest.raises(RuntimeError, match=r"No such file or directory \(2\)"):
        shmtensor.from_file(path, size=1)
    with pytest.raises(RuntimeError, match="size -1 is negative"):
        shmtensor.from_file(path, True, -1)
    with pytest.raises(TypeError, match="must be str, not int"):
        shmtensor.from_file(3, True, 1)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="meta"):
        shmtensor.from_file(path, True, 1, device="meta")


@pytest.mark.check
def test_a_path_is_never_cut_and_may_be_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    for function in (shmtensor.from_file, UntypedStorage.from_file):
        with pytest.raises(ValueError, match="must not contain a zero byte"):
            function(f"{path}\0more", True, 8)
    assert not list(tmp_path.iterdir())
    storage = UntypedStorage.from_file(path.encode(), True, 8)  # type: ignore[arg-type]
    assert storage.filename == path
    shared = UntypedStorage(8)
    manager, handle, size = shared._share_filename_()
    with pytest.raises(ValueError, match="must not contain a zero byte"):
        UntypedStorage._new_shared_filename(manager, handle + b"\0more", size)
    UntypedStorage._new_shared_filename(manager, handle, size)
