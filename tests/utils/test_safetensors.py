"""Checkpoints: round trips, what other readers see, and files that lie."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import shmtensor
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import reductions
from shmtensor.utils.safetensors import (
    SafetensorsError,
    load,
    load_file,
    open_file,
    read_metadata,
    save,
    save_file,
)

DTYPES = (
    "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64"
    " complex64"
).split()


def sample(name: str) -> shmtensor.Tensor:
    return shmtensor.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(shmtensor, name))


def content(header: object, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if size is None else size).to_bytes(8, "little") + text + data


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_survives_a_file(name, tmp_path):
    tensor = sample(name)
    save_file({"x": tensor}, tmp_path / "a.safetensors")
    back = load_file(tmp_path / "a.safetensors")["x"]
    assert back.dtype == tensor.dtype
    assert back.shape == tensor.shape
    assert back.tolist() == tensor.tolist()


@pytest.mark.check
def test_strided_scalar_and_empty_tensors_survive():
    tensors = {
        "t": shmtensor.arange(6.0).reshape(2, 3).t(),
        "scalar": shmtensor.tensor(2.5),
        "empty": shmtensor.empty(0, 3),
    }
    back = load(save(tensors, {"note": "ü"}))
    assert back["t"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert back["scalar"].item() == 2.5
    assert back["empty"].shape == (0, 3)


def test_metadata_is_kept(tmp_path):
    save_file({}, tmp_path / "a", metadata={"epoch": "3"})
    assert read_metadata(tmp_path / "a") == {"epoch": "3"}


def test_writing_to_a_loaded_tensor_leaves_the_file_alone(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"x": shmtensor.zeros(4)}, path)
    before = path.read_bytes()
    tensor = load_file(path)["x"]
    tensor.fill_(7)
    assert tensor.tolist() == [7.0] * 4
    assert path.read_bytes() == before
    assert load_file(path)["x"].tolist() == [0.0] * 4


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"x": shmtensor.ones(1)}, path)
    with pytest.raises(SafetensorsError, match="no dtype"):
        save_file({"x": shmtensor.zeros(1, dtype=shmtensor.complex128)}, path)
    assert load_file(path)["x"].tolist() == [1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_the_reference_package_reads_ours_and_we_read_its(tmp_path):
    reference = pytest.importorskip("safetensors.numpy")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    save_file({"b": sample("int64"), "a": sample("float32")}, ours, metadata={"k": "v"})
    seen = reference.load_file(ours)
    assert seen["b"].tolist() == sample("int64").tolist()
    assert seen["a"].dtype == np.float32
    reference.save_file({"x": np.arange(5, dtype=np.int16), "y": np.eye(2)}, theirs)
    back = load_file(theirs)
    assert back["x"].tolist() == [0, 1, 2, 3, 4]
    assert back["y"].dtype == shmtensor.float64


@pytest.mark.check
def test_misaligned_data_is_copied_not_crashed_on():
    header = {
        "byte": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "wide": {"dtype": "F64", "shape": [1], "data_offsets": [1, 9]},
    }
    back = load(content(header, b"\1" + np.float64(2.5).tobytes()))
    assert back["wide"].tolist() == [2.5]


F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "header too small: 0 bytes"),
        (b"\0" * 7, "header too small: 7 bytes"),
        (content(b"{}", size=1 << 40), "header too large"),
        (content(b"{}", size=100), "does not fit"),
        (content(b"{"), "not JSON"),
        (content(b"\xff\xff"), "not JSON"),
        (content(b"[" * 100000), "not JSON"),
        (content([1]), "not a JSON object but list"),
        (content(b'{"a":1,"a":1}'), "'a' occurs twice"),
        (content({"a": 1}), "expected dtype, shape and data_offsets"),
        (content({"a": {**F32, "dtype": "F33"}}, b"0000"), "unknown dtype 'F33'"),
        (content({"a": {**F32, "dtype": ["F32"]}}, b"0000"), "unknown dtype"),
        (content({"a": {**F32, "shape": [-1]}}, b"0000"), "shape must be"),
        (content({"a": {**F32, "shape": [True]}}, b"0000"), "shape must be"),
        (content({"a": {**F32, "shape": [1] * 65}}, b"0000"), "at most 64 sizes"),
        (content({"a": {**F32, "shape": [2]}}, b"0000"), "takes 8 bytes"),
        (content({"a": {**F32, "shape": [1 << 62, 1 << 62]}}, b"0000"), "takes"),
        (content(b'{"a":' + b"9" * 100_000 + b"}"), "an integer of 100000 digits"),
        (content({"a": {**F32, "data_offsets": [4, 0]}}, b"0000"), "takes 4 bytes"),
        (content({"a": {**F32, "data_offsets": [0]}}, b"0000"), "must be two sizes"),
        (content({"a": F32}, b""), "4 bytes of data, there are 0"),
        (content({"a": F32}, b"00000"), "4 bytes of data, there are 5"),
        (content({"a": F32, "b": F32}, b"0000"), "overlaps"),
        (content({"a": {**F32, "data_offsets": [4, 8]}}, b"0" * 8), "leaves a hole"),
        (content({"__metadata__": {"a": 1}}), "strings to strings"),
    ],
)
def test_files_that_lie_are_refused(data, text, tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(SafetensorsError, match=text):
        load(data)
    with pytest.raises(SafetensorsError):
        load_file(path)


# --- modes -------------------------------------------------------------------------------------


def test_modes_say_where_writes_go(tmp_path):
    path = tmp_path / "a"
    save_file({"x": shmtensor.zeros(2), "y": shmtensor.ones(3, dtype=shmtensor.int16)}, path)
    with pytest.raises(RuntimeError, match="read-only"):
        load_file(path, "r")["x"].fill_(1)
    for options in ({"mode": "c"}, {"mode": None}, {"shared": True}):
        load_file(path, **options)["x"].fill_(2)
    assert load_file(path)["x"].tolist() == [0.0, 0.0]
    load_file(path, "r+")["x"].fill_(3)
    assert load_file(path)["x"].tolist() == [3.0, 3.0]
    assert load_file(path)["y"].tolist() == [1, 1, 1]
    for options in ({"mode": "w"}, {"mode": "r", "shared": True}):
        with pytest.raises(ValueError, match="mode"):
            load_file(path, **options)


def test_a_tensor_is_sent_without_the_others_unless_they_are_one_block(tmp_path):
    path = tmp_path / "a"
    save_file({"x": shmtensor.zeros(2), "y": shmtensor.ones(300)}, path)
    apart = load_file(path)
    assert apart["x"].untyped_storage().nbytes() == 8
    apart["x"].share_memory_()
    assert not apart["y"].is_shared()
    block = load_file(path, shared=True)
    assert all(tensor.is_shared() for tensor in block.values())
    assert block["x"].untyped_storage() is block["y"].untyped_storage()
    queue = mp.get_context("spawn").SimpleQueue()
    for tensors in (block, load_file(path, "r+")):
        queue.put(tensors["x"])
        queue.get().fill_(7)
        assert tensors["x"].tolist() == [7.0, 7.0]
        assert tensors["y"].sum().item() == 300
    assert load_file(path)["x"].tolist() == [7.0, 7.0]
    del tensors, block, apart
    reductions.shared_cache.free_dead_references()


def test_an_open_file_makes_tensors_one_by_one(tmp_path):
    path = tmp_path / "a"
    save_file({"x": shmtensor.zeros(2, 3), "y": shmtensor.ones(3)}, path, {"note": "n"})
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "b")
    file = open_file(path, "r")
    os.unlink(path)
    assert sorted(file) == ["x", "y"]
    assert len(file) == 2
    assert "z" not in file
    assert file.shape("x") == (2, 3)
    assert file.metadata == {"note": "n"}
    assert "2 tensors" in repr(file)
    x = file["x"]
    del file
    assert x.tolist() == [[0.0] * 3] * 2


def test_writes_to_odd_places_would_not_reach_the_file(tmp_path):
    path = tmp_path / "a"
    header = {
        "byte": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "wide": {"dtype": "F64", "shape": [1], "data_offsets": [1, 9]},
    }
    text = json.dumps(header).encode()
    path.write_bytes(content(text + b" " * (-len(text) % 8), b"\1" + np.float64(2.5).tobytes()))
    assert load_file(path)["wide"].tolist() == [2.5]
    with pytest.raises(SafetensorsError, match=r"wide: begins .* cannot reach the file"):
        load_file(path, "r+")
