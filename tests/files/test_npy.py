"""`.npy` files: what NumPy wrote and reads, the ways to map them, and files that lie."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

import shmtensor as T
import shmtensor.multiprocessing as mp
from shmtensor.files import load_npy, save_npy
from shmtensor.multiprocessing import reductions

DTYPES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()
MODES = ["r", "c", "r+", None]


def header(text: str, version: bytes = b"\1\0", length: int | None = None) -> bytes:
    raw = text.encode()
    width = 2 if version == b"\1\0" else 4
    size = len(raw) if length is None else length
    return b"\x93NUMPY" + version + size.to_bytes(width, "little") + raw


def padded(text: str) -> bytes:
    """A header of 128 bytes."""
    return header(text + " " * (118 - len(text)))


# --- round trips -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_goes_both_ways(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    t = T.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(T, name))
    save_npy(path, t)
    assert path.stat().st_size % 64 == t.nbytes % 64
    array = np.load(path)
    assert array.dtype == name
    assert array.tolist() == t.tolist()
    np.save(path, array)
    for mode in MODES:
        back = load_npy(path, mode)
        assert back.dtype is t.dtype
        assert back.tolist() == t.tolist()


@pytest.mark.check
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4), (1,) * 20])
def test_every_shape_goes_both_ways(shape: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "a"
    t = T.rand(shape)
    save_npy(path, t)
    assert np.array_equal(np.load(path), t.numpy())
    np.save(tmp_path / "b.npy", t.numpy())
    for mode in MODES:
        assert T.equal(load_npy(tmp_path / "b.npy", mode), t)


def test_columns_stay_columns(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "a.npy", array)
    t = load_npy(tmp_path / "a.npy")
    assert t.tolist() == array.tolist()
    assert t.stride() == (1, 2)
    save_npy(tmp_path / "b.npy", t)
    assert np.load(tmp_path / "b.npy").flags.f_contiguous
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_views_are_written_as_they_look(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    x = T.arange(12.0).reshape(3, 4)
    z = T.tensor([1 + 2j, 3 - 1j])
    for t in (x[:, ::2], x[1], x.expand(2, 3, 4), z.conj(), z.conj().imag, x.requires_grad_()):
        save_npy(path, t)
        assert np.load(path).tolist() == t.tolist()


@pytest.mark.parametrize("name", [n for n in DTYPES if n[-1] != "8" or n == "complex128"])
def test_the_other_byte_order_is_read_and_not_mapped(name: str, tmp_path: Path) -> None:
    array = np.arange(5).astype(name)
    path = tmp_path / "a.npy"
    np.save(path, array.astype(array.dtype.newbyteorder()))
    for options in ({"mode": "c"}, {"mode": None}, {"shared": True}):
        assert load_npy(path, **options).tolist() == array.tolist()
    swaps = array.dtype.itemsize > 1
    for mode in ("r", "r+"):
        if swaps:
            with pytest.raises(ValueError, match="byte order is not"):
                load_npy(path, mode)


def test_dtypes_without_numpy_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"NumPy has no type for torch\.bfloat16"):
        save_npy(tmp_path / "a", T.ones(2, dtype=T.bfloat16))
    assert list(tmp_path.iterdir()) == []


# --- mapping -----------------------------------------------------------------------------------


def test_modes_say_where_writes_go(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(4))
    read_only = load_npy(path, "r")
    with pytest.raises(RuntimeError, match="read-only"):
        read_only.fill_(1)
    private = load_npy(path, "c")
    private.fill_(2)
    copied = load_npy(path, None)
    copied.fill_(3)
    assert np.load(path).tolist() == [0.0] * 4
    written = load_npy(path, "r+")
    written[1] = 5
    assert np.load(path).tolist() == [0.0, 5.0, 0.0, 0.0]
    assert private.tolist() == [2.0] * 4
    assert copied.untyped_storage().nbytes() == private.untyped_storage().nbytes() == 32
    assert written.untyped_storage().filename == os.path.realpath(path)


@pytest.mark.check
def test_the_file_may_be_replaced_while_it_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    save_npy(path, T.ones(1000))
    t = load_npy(path, "r")
    save_npy(path, T.zeros(10))
    assert t.sum().item() == 1000
    path.unlink()
    assert t.sum().item() == 1000


def _add_one(queue: mp.SimpleQueue, answers: mp.SimpleQueue) -> None:
    tensor = queue.get()
    tensor += 1
    answers.put(tensor.untyped_storage().filename or "")


@pytest.mark.parametrize("how", ["mapped", "shared", "private"])
def test_other_processes_get_the_same_memory(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((2, 3), dtype="f4"))
    options = {"mapped": {"mode": "r+"}, "shared": {"shared": True}, "private": {}}[how]
    t = load_npy(path, **options)
    assert t.is_shared() is (how != "private")
    context = mp.get_context("fork")
    queue, answers = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=_add_one, args=(queue, answers))
    process.start()
    queue.put(t)
    name = answers.get()
    process.join()
    assert t.tolist() == [[1.0] * 3] * 2
    assert name == (os.path.realpath(path) if how == "mapped" else "")
    assert np.load(path).sum() == (6 if how == "mapped" else 0)
    del t
    reductions.shared_cache.free_dead_references()


def test_arguments_that_contradict_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(4))
    with pytest.raises(ValueError, match=r"mode must be one of .* got 'w'"):
        load_npy(path, "w")
    for mode in ("r", "r+"):
        with pytest.raises(ValueError, match="reads the file into shared memory"):
            load_npy(path, mode, shared=True)
    with pytest.raises(FileNotFoundError):
        load_npy(tmp_path / "b.npy")
    with pytest.raises(IsADirectoryError):
        load_npy(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        load_npy(tmp_path / "pipe")


# --- headers -----------------------------------------------------------------------------------

F8 = "'descr': '<f8', 'fortran_order': False, 'shape': (2,)"


@pytest.mark.parametrize(
    "text",
    [
        f"{{{F8}}}",
        f"{{{F8}, }}\n",
        "{'shape': (2,), 'descr': '=f8', 'fortran_order': False}",
        '{"descr":"<f8","fortran_order":False,"shape":(2,)}',
        "{'descr': 'f8', 'fortran_order': True, 'shape': ( 2 , ), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2L,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }",
    ],
)
@pytest.mark.parametrize("version", [b"\1\0", b"\2\0", b"\3\0"])
def test_headers_may_be_written_in_many_ways(text: str, version: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(header(text, version) + np.array([1.5, 2.5]).tobytes())
    for options in ({}, {"shared": True}):
        assert load_npy(path, **options).reshape(-1).tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a .npy file"),
        (b"PK\3\4" + b"0" * 100, "not a .npy file"),
        (b"\x93NUMPY", "version"),
        (b"\x93NUMPY\4\0" + b"0" * 100, r"version 4\.0"),
        (b"\x93NUMPY\1\0\xff\xff", "a header of 65535 bytes, at most"),
        (b"\x93NUMPY\2\0\xff\xff\xff\x7f" + b" " * 100, "at most 10000"),
        (header("{", length=500), "does not fit"),
        (header("__import__('os').abort()"), "not a dictionary"),
        (header("{'descr': open('x')}"), "unknown entry"),
        (header("{" * 5000), "not a dictionary"),
        (header("{" + "(" * 5000 + "}"), "unknown entry"),
        (header(f"{{{F8}, 'shape': (2,)}}"), "'shape' twice"),
        (header(f"{{{F8}, 'more': (2,)}}"), "not descr, fortran_order and shape"),
        (header("{'descr': '<f8'}"), "not descr, fortran_order and shape"),
        (header("{'descr': (2,), 'fortran_order': False, 'shape': (2,)}"), "other types"),
        (header("{'descr': '<f8', 'fortran_order': 'a', 'shape': (2,)}"), "other types"),
        (header("{'descr': '<f8', 'fortran_order': False, 'shape': '2'}"), "other types"),
        (header("{'descr': '<f8', 'fortran_order': False, 'shape': (-2,)}"), "unknown entry"),
        (header("{'descr': '<f8', 'fortran_order': False, 'shape': (2.0,)}"), "unknown entry"),
        (header("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}"), "cannot have the"),
        (header("{'descr': '<U4', 'fortran_order': False, 'shape': (2,)}"), "'<U4'"),
        (header("{'descr': '<f3', 'fortran_order': False, 'shape': (2,)}"), "'<f3'"),
        (header("{'descr': '>M8[s]', 'fortran_order': False, 'shape': (2,)}"), "cannot have the"),
        (
            header("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,)}"),
            "structured types",
        ),
        (padded(f"{{{F8}}}") + b"0" * 15, "takes 16 bytes, there are 15"),
        (
            padded("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904,)}"),
            "too many elements",
        ),
        (
            padded("{'descr': '<f8', 'fortran_order': False, 'shape': (0,9999999999999999999)}"),
            "too many elements",
        ),
        (
            header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'1,' * 65})}}"),
            "65 dimensions",
        ),
        (header(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'9' * 40},)}}"), "unknown"),
        (header("{'descr': '\xff'}", b"\3\0")[:-3] + b"\xff'}", "not text"),
    ],
)
def test_files_that_lie_are_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(data)
    for options in ({}, {"mode": "r"}, {"mode": None}, {"shared": True}):
        with pytest.raises(ValueError, match=message) as error:
            load_npy(path, **options)
        assert str(path) in str(error.value)


def test_elements_at_odd_places_are_read_and_not_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(header(f"{{{F8}}} ") + np.array([1.5, 2.5]).tobytes())
    begin = path.stat().st_size - 16
    assert begin % 8
    assert load_npy(path).tolist() == [1.5, 2.5]
    for mode in ("r", "r+"):
        text = f"begins at byte {begin}, which is not a multiple of 8"
        with pytest.raises(ValueError, match=text):
            load_npy(path, mode)


def test_what_is_not_refused_is_read_as_numpy_reads_it(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(12.0).reshape(3, 4))
    good = (tmp_path / "a.npy").read_bytes()
    rng = random.Random(0)
    path = tmp_path / "b.npy"
    read = 0
    for _ in range(600):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 2))):
            data[rng.randrange(len(data) if rng.random() < 0.2 else 80)] = rng.choice(
                b"0123456789(){}'\",: <>|fiubc\0\xff"
            )
        path.write_bytes(data)
        try:
            t = load_npy(path)
        except ValueError:
            continue
        read += 1
        array = np.load(path)
        assert array.shape == tuple(t.shape)
        assert array.tobytes() == t.contiguous().numpy().astype(array.dtype).tobytes()
    assert read > 20


@pytest.mark.check
def test_a_saved_file_has_the_rights_of_any_and_the_process_keeps_its_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            # For a moment without a mask, other threads would make files that all may write.
            patch.setattr(os, "umask", None)
            save_npy(tmp_path / "a.npy", T.ones(2))
    finally:
        os.umask(before)
    assert (tmp_path / "a.npy").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["a.npy"]


def test_an_interrupt_at_the_end_of_saving_leaves_one_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(source: str, target: str) -> None:
        os.rename(source, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            save_npy(tmp_path / "a.npy", T.ones(2))
    assert os.listdir(tmp_path) == ["a.npy"]
    assert load_npy(tmp_path / "a.npy").tolist() == [1, 1]
