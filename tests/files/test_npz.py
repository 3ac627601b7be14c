"""`.npz` files: what NumPy wrote and reads, mapping, and archives that lie."""

from __future__ import annotations

import contextlib
import io
import random
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import shmtensor as T
from shmtensor.files import load_npz, save_npz


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.check
@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_go_both_ways(compressed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    tensors = {
        "x": T.arange(5),
        "y": T.rand(2, 3).t(),
        "scalar": T.tensor(2.5),
        "none": T.empty(0, 3),
        "z.w": T.tensor([1j]),
    }
    save_npz(path, tensors, compressed=compressed)
    with np.load(path) as seen:
        assert {name: seen[name].tolist() for name in seen.files} == {
            name: t.tolist() for name, t in tensors.items()
        }
    for options in ({}, {"mode": None}, {"shared": True}):
        back = load_npz(path, **options)
        assert list(back) == list(tensors)
        assert all(T.equal(back[name], tensors[name]) for name in tensors)
        assert all(t.is_shared() is ("shared" in options) for t in back.values())
    if compressed:
        with pytest.raises(ValueError, match="cannot be mapped: it is compressed"):
            load_npz(path, "r")


def test_ours_are_aligned_and_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    save_npz(path, {"odd name": T.ones(3, dtype=T.uint8), "x": T.arange(4.0)})
    tensors = load_npz(path, "r")
    with pytest.raises(RuntimeError, match="read-only"):
        tensors["x"].fill_(1)
    assert all(t.data_ptr() % 64 == 0 for t in tensors.values())
    private = load_npz(path)
    private["x"].fill_(7)
    assert load_npz(path)["x"].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_numpys_are_read_wherever_arrays_lie(write: object, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write(path, a=np.arange(3), bb=np.eye(2), ccc=np.arange(3, dtype=">i2"))  # type: ignore[operator]
    back = load_npz(path)
    assert back["a"].tolist() == [0, 1, 2]
    assert back["bb"].tolist() == np.eye(2).tolist()
    assert back["ccc"].tolist() == [0, 1, 2]


def test_archives_that_lie_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"

    def refused(message: str, mode: str | None = "c") -> None:
        with pytest.raises(ValueError, match=message):
            load_npz(path, mode)

    path.write_bytes(b"")
    refused("not a zip file")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "x")
    refused("'notes.txt' is not a .npy file")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"x")
    refused("not a .npy file, it begins with b'x'")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy(np.arange(9))[:-1])
    refused("takes 72 bytes, there are 71")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy(np.arange(9)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", npy(np.arange(9)))
    refused("has 'a' twice")
    save_npz(path, {"a": T.ones(9)})
    refused("checksums", "r+")
    data = bytearray(path.read_bytes())
    data[data.index(b"\x93NUMPY") + 150] ^= 1
    path.write_bytes(data)
    refused("CRC", None)
    with pytest.raises(FileNotFoundError):
        load_npz(tmp_path / "b.npz")


@pytest.mark.check
def test_damage_is_an_error_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    save_npz(path, {"a": T.arange(9), "b": T.ones(2, 2)})
    good = path.read_bytes()
    save_npz(path, {"a": T.arange(9), "b": T.ones(2, 2)}, compressed=True)
    packed = path.read_bytes()
    rng = random.Random(0)
    for i in range(400):
        data = bytearray((good, packed)[i % 2])
        data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        for options in ({}, {"mode": "r"}, {"mode": None}):
            with contextlib.suppress(ValueError):
                for t in load_npz(path, **options).values():
                    t.sum().item()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflate_is_read(method: int, tmp_path: Path) -> None:
    path = tmp_path / "packed.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", npy(np.zeros(1000)), method)
    with pytest.raises(ValueError, match="compressed by method"):
        load_npz(path)


def test_entries_that_claim_more_than_they_can_have_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "claims.npz"
    data = npy(np.zeros(1_000_000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", data)
    assert load_npz(path)["a"].shape == (1_000_000,)
    size = struct.pack("<I", len(data))
    assert path.read_bytes().count(size) == 2
    path.write_bytes(path.read_bytes().replace(size, struct.pack("<I", 2**31)))
    with pytest.raises(ValueError, match="claims 2147483648 bytes"):
        load_npz(path)


def test_entries_that_lie_on_each_other_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "overlap.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy(np.arange(10_000)))
        (first,) = archive.infolist()
        archive.filelist += [first] * 50  # written into the directory, all of them
    with pytest.raises(ValueError, match=r"claims 80128 bytes in \d+ of a file of \d+"):
        load_npz(path)
