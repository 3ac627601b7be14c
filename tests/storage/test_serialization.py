"""Tensors to bytes and back: pickle, deepcopy, save and load."""

from __future__ import annotations

import copy
import io
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import shmtensor
from shmtensor import serialization
from shmtensor._generated.dtypes import DTYPES
from shmtensor.serialization import load, save


def same(a: Any, b: Any) -> bool:
    return (
        a.dtype is b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.tolist() == b.tolist()
    )


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", [row.name for row in DTYPES])
def test_pickle_keeps_every_dtype(name: str, protocol: int) -> None:
    tensor = shmtensor.tensor([[0, 1, 1], [1, 0, 1]], dtype=getattr(shmtensor._C, name))
    assert same(pickle.loads(pickle.dumps(tensor, protocol)), tensor)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_views_of_one_memory(protocol: int) -> None:
    base = shmtensor.arange(12.0).reshape(3, 4)
    base2, view, transposed = pickle.loads(pickle.dumps([base, base[1:, ::2], base.t()], protocol))
    assert same(view, base[1:, ::2])
    assert transposed.stride() == (1, 4)
    base2.zero_()
    assert view.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert transposed.untyped_storage() is base2.untyped_storage()


@pytest.mark.check
def test_pickle_keeps_requires_grad_and_drops_history() -> None:
    leaf = shmtensor.ones(2, requires_grad=True)
    loaded = pickle.loads(pickle.dumps(leaf))
    assert loaded.requires_grad
    assert loaded.is_leaf
    assert pickle.loads(pickle.dumps(leaf * 2)).is_leaf


def test_pickle_out_of_band_copies_nothing() -> None:
    tensor = shmtensor.arange(1000.0)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    assert len(data) < 1000
    assert len(buffers) == 1
    shown = pickle.loads(data, buffers=buffers)
    shown[0] = 5.0
    assert tensor[0].item() == 5.0
    copied = pickle.loads(data, buffers=[bytes(buffers[0])])
    copied[0] = 6.0
    assert tensor[0].item() == 5.0


def test_pickle_of_empty_scalar_and_meta() -> None:
    for tensor in (shmtensor.empty(0, 3), shmtensor.tensor(2.5)):
        assert same(pickle.loads(pickle.dumps(tensor)), tensor)
    meta = pickle.loads(pickle.dumps(shmtensor.empty(2, 3, device="meta")))
    assert (meta.is_meta, meta.shape) == (True, (2, 3))


def test_deepcopy_copies_storage_once() -> None:
    base = shmtensor.arange(6.0)
    copies = copy.deepcopy({"base": base, "view": base[2:], "again": base})
    assert copies["base"] is copies["again"]
    copies["base"].zero_()
    assert copies["view"].tolist() == [0.0] * 4
    assert base.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_deepcopy_copies_grad_and_attributes() -> None:
    leaf = shmtensor.ones(2, requires_grad=True)
    leaf.grad = shmtensor.full((2,), 3.0)
    leaf.note = ["x"]
    twin = copy.deepcopy(leaf)
    assert twin.requires_grad
    assert twin.grad.tolist() == [3.0, 3.0]
    assert twin.grad is not leaf.grad
    assert twin.note == ["x"]
    assert twin.note is not leaf.note


def test_deepcopy_of_non_leaf_refuses() -> None:
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(shmtensor.ones(2, requires_grad=True) * 2)


class Sub(shmtensor.Tensor):
    """A subclass of the user's."""


def test_subclass_survives_pickle_and_deepcopy() -> None:
    tensor = shmtensor.ones(2).as_subclass(Sub)
    tensor.note = 7
    for twin in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
        assert type(twin) is Sub
        assert twin.note == 7
        assert twin.tolist() == [1.0, 1.0]


def test_save_and_load_nested_containers(tmp_path: Path) -> None:
    weight = shmtensor.arange(12.0).reshape(3, 4)
    state = OrderedDict(
        weight=weight,
        part=weight[1],
        step=3,
        name="x",
        shape=weight.shape,
        dtype=weight.dtype,
        pair=(1, [2.5, None, True]),
    )
    path = tmp_path / "state.pt"
    save(state, path)
    loaded = load(path)
    assert list(loaded) == list(state)
    assert same(loaded["weight"], weight)
    loaded["weight"].zero_()
    assert loaded["part"].tolist() == [0.0] * 4
    assert (loaded["step"], loaded["name"], loaded["pair"]) == (3, "x", (1, [2.5, None, True]))
    assert loaded["dtype"] is shmtensor.float32


@pytest.mark.check
def test_save_writes_shared_storage_once_and_aligned(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    base = shmtensor.zeros(1000)
    save([base, base[:10], base[5:]], path)
    with zipfile.ZipFile(path) as archive:
        records = [i for i in archive.infolist() if "/data/" in i.filename]
        assert [i.file_size for i in records] == [4000]
        assert archive.testzip() is None
    data = path.read_bytes()
    begin = records[0].header_offset
    head = data[begin + 26 : begin + 30]
    start = begin + 30 + int.from_bytes(head[:2], "little") + int.from_bytes(head[2:], "little")
    assert start % 64 == 0


def test_load_from_and_save_to_file_objects() -> None:
    buffer = io.BytesIO()
    save({"a": shmtensor.ones(3)}, buffer)
    buffer.seek(0)
    assert load(buffer)["a"].tolist() == [1.0] * 3


def test_load_mapped_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save(shmtensor.arange(4.0), path)
    before = path.read_bytes()
    tensor = load(path, mmap=True)
    assert tensor.tolist() == [0.0, 1.0, 2.0, 3.0]
    tensor.zero_()
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="file path"):
        load(io.BytesIO(before), mmap=True)


def test_load_places_storages(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save(shmtensor.arange(4.0), path)
    assert load(path, map_location="meta").is_meta
    assert load(path, map_location={"cpu": "meta"}).is_meta
    assert load(path, map_location=lambda storage, _: storage.clone()).tolist() == [
        0.0,
        1.0,
        2.0,
        3.0,
    ]


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("exit 1",)


class Harmless:
    value = 1


def test_load_refuses_code_by_default(tmp_path: Path) -> None:
    path = tmp_path / "evil.pt"
    save(Evil(), path)
    with pytest.raises(pickle.UnpicklingError, match="system"):
        load(path)


def test_load_with_safe_globals_or_all(tmp_path: Path) -> None:
    path = tmp_path / "object.pt"
    save(Harmless(), path)
    with pytest.raises(pickle.UnpicklingError, match="Harmless"):
        load(path)
    assert load(path, weights_only=False).value == 1
    serialization.add_safe_globals([Harmless])
    try:
        assert load(path).value == 1
        assert serialization.get_safe_globals() == [Harmless]
    finally:
        serialization.clear_safe_globals()
    with serialization.safe_globals([Harmless]):
        assert load(path).value == 1
    assert serialization.get_safe_globals() == []


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (b"", EOFError, "Ran out of input"),
        (b"not an archive", pickle.UnpicklingError, "Weights only load failed"),
        (b"PK\3\4" + b"\0" * 100, RuntimeError, "failed finding central directory"),
        (pickle.dumps(3, 2), RuntimeError, "Invalid magic number"),
        (b"x" * 257 + b"ustar" + b"\0" * 250, RuntimeError, "tar format"),
    ],
)
def test_load_of_other_files_says_so(
    content: bytes, kind: type[Exception], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(kind, match=words):
        load(path)


def test_load_of_damaged_archives_fails_cleanly(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save(shmtensor.arange(4.0), path)
    cut = tmp_path / "cut.pt"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(cut, "w") as target:
        for info in source.infolist():
            data = source.read(info)
            target.writestr(info.filename, data[:8] if "/data/" in info.filename else data)
    with pytest.raises(RuntimeError, match="8 bytes, but 16"):
        load(cut)
    gone = tmp_path / "gone.pt"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(gone, "w") as target:
        for info in source.infolist():
            if "/data/" not in info.filename:
                target.writestr(info.filename, source.read(info))
    with pytest.raises(RuntimeError, match="missing"):
        load(gone)
