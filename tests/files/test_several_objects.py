"""Several objects in one file, files of other kinds, picklers of other modules."""

from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path
from typing import Any

import pytest

import shmtensor as st
from shmtensor.serialization import add_safe_globals, clear_safe_globals, get_safe_globals
from shmtensor.serialization import safe_globals as allowed


@pytest.mark.check
@pytest.mark.parametrize("zipped", [True, False])
def test_objects_are_loaded_in_turn(zipped: bool, tmp_path: Path) -> None:
    objects = [st.ones(2), {"a": st.zeros(300)}, st.arange(5)]
    path = tmp_path / "several"
    with path.open("wb") as file:
        for each in objects:
            st.save(each, file, _use_new_zipfile_serialization=zipped)
    with path.open("rb") as file:
        first, second, third = (st.load(file) for _ in objects)
        with pytest.raises(EOFError):
            st.load(file)
    assert first.tolist() == [1.0, 1.0]
    assert second["a"].shape == (300,)
    assert third.tolist() == [0, 1, 2, 3, 4]
    assert st.load(path).tolist() == [1.0, 1.0]
    if zipped:
        assert st.load(path, mmap=True).tolist() == [1.0, 1.0]


def test_bytes_around_an_archive_do_not_matter() -> None:
    file = io.BytesIO(b"head")
    file.seek(4)
    st.save(st.arange(3), file)
    file.write(b"tail" * 50)
    file.seek(4)
    assert st.load(file).tolist() == [0, 1, 2]


def test_a_tensor_that_holds_an_archive_is_no_archive() -> None:
    inner, file = io.BytesIO(), io.BytesIO()
    st.save(st.ones(1), inner)
    held = st.frombuffer(bytearray(inner.getvalue()), dtype=st.uint8)
    st.save(held, file)
    st.save(st.zeros(1), file)
    file.seek(0)
    assert st.equal(st.load(file), held)
    assert st.load(file).tolist() == [0.0]


class _Plain:
    """A file with the methods that loading needs, and no others."""

    def __init__(self, data: bytes) -> None:
        file = io.BytesIO(data)
        self.read, self.readline, self.tell, self.seek = (
            file.read,
            file.readline,
            file.tell,
            file.seek,
        )


@pytest.mark.parametrize("zipped", [True, False])
def test_files_with_few_methods(zipped: bool, tmp_path: Path) -> None:
    file = io.BytesIO()
    st.save(st.arange(3), file, _use_new_zipfile_serialization=zipped)
    assert st.load(_Plain(file.getvalue())).tolist() == [0, 1, 2]
    with gzip.open(tmp_path / "x.gz", "wb") as packed:
        st.save(st.arange(3), packed, _use_new_zipfile_serialization=zipped)
    with gzip.open(tmp_path / "x.gz", "rb") as packed:
        assert st.load(packed).tolist() == [0, 1, 2]


@pytest.mark.parametrize("zipped", [True, False])
def test_save_flushes(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as file:
        st.save(st.arange(3), file, _use_new_zipfile_serialization=zipped)
        assert st.load(path).tolist() == [0, 1, 2]


class _Module:
    """A stand-in for dill: a module with picklers of its own."""

    class Pickler(pickle.Pickler):
        def reducer_override(self, obj: Any) -> Any:
            return (str, ("replaced",)) if isinstance(obj, complex) else NotImplemented

    class Unpickler(pickle.Unpickler):
        pass


def test_pickle_module_writes_the_object() -> None:
    for zipped in (True, False):
        file = io.BytesIO()
        given = {"x": 1j, "t": st.arange(2)}
        st.save(given, file, pickle_module=_Module, _use_new_zipfile_serialization=zipped)
        file.seek(0)
        loaded = st.load(file, weights_only=False)
        assert loaded["x"] == "replaced"
        assert loaded["t"].tolist() == [0, 1]
    file = io.BytesIO()
    st.save({"a": 1}, file)
    file.seek(0)
    assert st.load(file, pickle_module=pickle) == {"a": 1}


def test_unknown_arguments_are_refused() -> None:
    file = io.BytesIO()
    st.save(1, file)
    file.seek(0)
    with (
        pytest.warns(UserWarning, match="weights_only=False"),
        pytest.raises(TypeError, match="nope"),
    ):
        st.load(file, nope=3)


def test_safe_globals_end_with_their_block() -> None:
    class One:
        pass

    class Other:
        pass

    try:
        add_safe_globals([One])
        with allowed([One]):
            add_safe_globals([Other])
        assert One not in get_safe_globals()
        assert Other in get_safe_globals()
        with allowed([One]):
            clear_safe_globals()
        assert get_safe_globals() == []
    finally:
        clear_safe_globals()


def test_bytes_of_a_storage_are_loaded() -> None:
    file = io.BytesIO()
    st.save(st.arange(3).untyped_storage(), file)
    assert len(st.storage._load_from_bytes(file.getvalue())) == 24
