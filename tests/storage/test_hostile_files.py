"""Files that mean harm: `load` ends in an exception, and runs nothing of theirs."""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import shmtensor
from shmtensor.serialization import (
    add_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    load,
    safe_globals,
    save,
)

STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


def archive(program: bytes, **records: bytes) -> io.BytesIO:
    """An archive with this data.pkl, and records of storages."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/data.pkl", b"\x80\x02" + program + b".")
        made.writestr("archive/version", b"3\n")
        for name, data in records.items():
            made.writestr(f"archive/data/{name.removeprefix('_')}", data)
    file.seek(0)
    return file


def number(value: int) -> bytes:
    return pickle.dumps(value, 2)[2:-1]


def tensor(count: int, offset: int, size: list[int], stride: list[int]) -> bytes:
    """The program of a float32 tensor over storage 0."""
    return (
        REBUILD
        + b"("
        + (STORAGE + number(count) + b"tQ")
        + number(offset)
        + b"".join(b"(" + b"".join(map(number, values)) + b"t" for values in (size, stride))
        + b"\x89ccollections\nOrderedDict\n)RtR"
    )


@pytest.mark.check
def test_the_programs_of_this_file_are_sound() -> None:
    loaded = load(archive(tensor(4, 1, [3], [1]), _0=struct.pack("<4f", 1, 2, 3, 4)))
    assert loaded.tolist() == [2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("count", "offset", "size", "stride"),
    [
        (4, 0, [5], [1]),
        (4, 2, [3], [1]),
        (4, 0, [2, 2], [3, 1]),
        (4, -1, [2], [1]),
        (4, 3, [4], [-1]),
        (4, 0, [-1], [1]),
        (4, 0, [2], [1, 1]),
        (4, 0, [2**62, 2**62], [0, 1]),
        (4, 0, [2**63], [0]),
        (4, 2**62, [2], [1]),
        (4, 0, [2], [2**62]),
        (4, 0, [2**40], [2**40]),
        (4, 0, [1] * 100_000, [1] * 100_000),
        (5, 0, [4], [1]),
        (2**62, 0, [4], [1]),
        (2**70, 0, [4], [1]),
        (-4, 0, [4], [1]),
    ],
)
def test_a_view_outside_of_its_storage_is_refused(
    count: int, offset: int, size: list[int], stride: list[int]
) -> None:
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        load(archive(tensor(count, offset, size, stride), _0=bytes(16)))


def test_a_second_reference_cannot_widen_a_storage() -> None:
    program = b"(" + tensor(4, 0, [4], [1]) + tensor(8, 0, [8], [1]) + b"t"
    with pytest.raises(RuntimeError, match="32 bytes of a storage of 16"):
        load(archive(program, _0=bytes(16)))


@pytest.mark.parametrize(
    "program",
    [
        b"cposix\nsystem\nX\x04\x00\x00\x00true\x85R",
        b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R",
        b"cbuiltins\ngetattr\n.",
        b"ctorch\nTensor\n)R",  # known as a value, not to be called
        b"ctorch\nFloatStorage\nJ\xff\xff\xff\x7f\x85R",
        b"ctorch\nTensor\n}X\x07\x00\x00\x00__add__Nsb",  # attributes of a class
        b"ctorch\nTensor\nN}X\x07\x00\x00\x00__add__Ns\x86b",
        b"]}X\x01\x00\x00\x00aNsb",
        b"(i__main__\nA\n",
        b"\x82\x01",
        b"Pname\n",
        b"cbuiltins\nset\ncbuiltins\nrange\nJ\xff\xff\xff\x7f\x85R\x85R",
        b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R",
        b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00idna\x86R",
        b"ctorch._tensor\n_rebuild_from_type_v2\n(cbuiltins\nset\nctorch\nTensor\n)}tR",
        b"ctorch._tensor\n_rebuild_from_type_v2\n"
        b"(ctorch._utils\n_rebuild_tensor_v2\nccollections\nOrderedDict\n)}tR",
        b"X\x01\x00\x00\x00aQ",
        b"(X\x07\x00\x00\x00storageK\x01K\x01K\x01K\x01tQ",
        b"X\xff\xff\xff\xffa",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa",
        b"K",
        b"h\x07",
        b"t",
        b"s",
        b"R",
        b"\x87",
        b"0",
        b"",
        b"]]s",
        b"N(u",
        b"(]Nd",
        b"I" + b"9" * 10_000 + b"\n",
    ],
)
def test_a_program_that_wants_more_than_values_is_refused(program: bytes) -> None:
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        load(archive(program))
    assert shmtensor.Tensor.__add__ is not None


@pytest.mark.parametrize("where", ["}%sNs", "(%sNd", "cbuiltins\nset\n](%se\x85R", "\x8f(%s\x90"])
@pytest.mark.parametrize("deeper", [b"\x85", b"q\x01h\x01\x86"], ids=["deep", "doubled"])
def test_a_key_of_many_tuples_is_refused(where: str, deeper: bytes) -> None:
    before, after = where.encode("latin-1").split(b"%s")
    with pytest.raises(pickle.UnpicklingError, match="has more than 1000 parts"):
        load(archive(before + b")" + deeper * 200_000 + after))


@pytest.mark.parametrize("wrap", [b"\x85", b"]q\x00h\x000", b"}K\x01Ns0"])
def test_a_deep_value_neither_recurses_nor_crashes(wrap: bytes) -> None:
    with contextlib.suppress(pickle.UnpicklingError):
        load(archive(b")" + wrap * 200_000))


def test_a_deep_list_is_read_and_freed() -> None:
    depth = 300_000
    value = load(archive(b"]" * depth + b"a" * (depth - 1)))
    for _ in range(10):
        value = value[0]


class Allowed:
    """A class of the user's."""


def test_allowed_classes_do_not_open_others() -> None:
    name = f"c{Allowed.__module__}\nAllowed\n".encode()
    with safe_globals([Allowed]):
        made = load(archive(name + b")\x81}X\x01\x00\x00\x00aK\x01sb"))
        assert made.a == 1
        with pytest.raises(pickle.UnpicklingError, match=r"posix\.system"):
            load(archive(name + b")\x81cposix\nsystem\nb"))


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


BLOCKED: dict[str, tuple[Any, bytes]] = {
    "posix.system": (os.system, b"cposix\nsystem\n"),
    "os.getcwd": ((os.getcwd, "os.getcwd"), b"cos\ngetcwd\n"),
    "os.path.join": ((os.path.join, "os.path.join"), b"cos.path\njoin\n"),
    "os.path.join as a name with dots": ((os.path.join, "os.path.join"), b"cos\npath.join\n"),
    "sys.exit": (sys.exit, b"csys\nexit\n"),
    "nt.system": ((os.system, "nt.system"), b"cnt\nsystem\n"),
    "sys.intern of Python 2": (sys.intern, b"c__builtin__\nintern\n"),
    "posix.system by stack": (os.system, text("posix") + text("system") + b"\x93"),
    "a method of a class of os": ((os._Environ.copy, "os._Environ.copy"), b"cos._Environ\ncopy\n"),
}


@pytest.mark.parametrize("name", BLOCKED)
def test_modules_of_the_system_are_blocked_even_where_allowed(name: str) -> None:
    item, program = BLOCKED[name]
    with safe_globals([item]):
        with pytest.raises(pickle.UnpicklingError, match=r"whose module \S+ is blocked"):
            load(archive(program))
        assert len(get_unsafe_globals_in_checkpoint(archive(program))) == 1


def test_an_object_of_a_blocked_module_under_a_name_of_the_users_is_read() -> None:
    with safe_globals([(os.getpid, "mine.getpid")]):
        assert load(archive(b"cmine\ngetpid\n)R")) == os.getpid()


def test_names_that_all_files_may_use_keep_their_meaning() -> None:
    with safe_globals([(os.getpid, "torch._utils._rebuild_tensor_v2"), (list, "builtins.set")]):
        assert load(archive(tensor(4, 0, [2], [1]), _0=bytes(16))).tolist() == [0.0, 0.0]
        assert load(archive(b"cbuiltins\nset\n]\x85R")) == set()


class Words(collections.UserDict[str, int]):
    """A class that is no dictionary, but takes items."""


def words() -> Words:
    return Words()


class Table(dict[str, int]):
    """A dictionary of the user's."""


def table() -> Table:
    return Table()


def test_items_are_set_in_allowed_classes_only() -> None:
    items = text("a") + b"K\x01s"
    here = __name__.encode()
    for function in (words, table):
        with (
            safe_globals([function]),
            pytest.raises(pickle.UnpicklingError, match="items for an object of type"),
        ):
            load(archive(b"c" + here + f"\n{function.__name__}\n)R".encode() + items))
    with safe_globals([Table]):
        assert load(archive(b"c" + here + b"\nTable\n)R" + items)) == {"a": 1}


@pytest.mark.parametrize(
    ("item", "kind", "words"),
    [
        ((os.getcwd,), ValueError, r"Expected tuple of length 2 .* but got tuple of length: 1"),
        ((os.getcwd, "a", "b"), ValueError, r"Expected tuple of length 2 .* length: 3"),
        ((os.getcwd, 3), TypeError, r"Expected second item in tuple to be str .*<class 'int'>"),
    ],
)
def test_what_is_no_pair_cannot_be_allowed(item: Any, kind: type[Exception], words: str) -> None:
    with safe_globals([item]), pytest.raises(kind, match=words):
        load(archive(b"N"))


def test_what_is_allowed_twice_is_listed_once() -> None:
    with safe_globals([Allowed]):
        add_safe_globals([Allowed])
        assert get_safe_globals() == [Allowed]
    assert get_safe_globals() == []


def test_names_of_python_2_are_those_of_today() -> None:
    error = pickle.dumps(ValueError("a"), 2)[2:-1]  # exceptions.ValueError
    assert b"exceptions" in error
    with safe_globals([ValueError]):
        assert load(archive(error)).args == ("a",)
    assert get_unsafe_globals_in_checkpoint(archive(error)) == ["builtins.ValueError"]
    assert load(archive(b"c__builtin__\nset\n]\x85R")) == set()


@pytest.mark.parametrize("protocol", [2, 4])
def test_unsafe_names_are_found_behind_others(protocol: int) -> None:
    values = [{"join": "posixpath", "x": 1.5}, os.path.join, os.path.split, Allowed, len, {3}]
    file = io.BytesIO()
    save(values, file, pickle_protocol=protocol)
    file.seek(0)
    unsafe = ["posixpath.join", "posixpath.split", f"{__name__}.Allowed", "builtins.len"]
    assert get_unsafe_globals_in_checkpoint(file) == unsafe
    with pytest.raises(ValueError, match="Expected input to be a checkpoint returned by"):
        get_unsafe_globals_in_checkpoint(io.BytesIO(b"something else"))


@pytest.mark.parametrize("order", [b"middle", b"", b"big\n"])
def test_an_unknown_order_of_bytes_is_refused(order: bytes) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/data.pkl", b"\x80\x02" + tensor(1, 0, [1], [1]) + b".")
        made.writestr("archive/byteorder", order)
        made.writestr("archive/data/0", bytes(4))
    file.seek(0)
    with pytest.raises(ValueError, match="Unknown endianness type: "):
        load(file)


# --- damaged files ----------------------------------------------------------------------------


def _whole(archived: bool) -> bytes:
    file = io.BytesIO()
    state = shmtensor.nn.BatchNorm1d(3).state_dict()
    save({"m": state, "s": {1}}, file, _use_new_zipfile_serialization=archived)
    return file.getvalue()


@pytest.mark.check
@pytest.mark.parametrize("archived", [True, False], ids=["archive", "legacy"])
@pytest.mark.parametrize("mapped", [False, True])
def test_a_truncated_file_is_refused_at_every_length(
    archived: bool, mapped: bool, tmp_path: Path
) -> None:
    if mapped and not archived:
        return
    data, path = _whole(archived), tmp_path / "cut.pt"
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        with pytest.raises((RuntimeError, pickle.UnpicklingError, EOFError)):
            load(path, mmap=mapped)


@pytest.mark.parametrize("archived", [True, False], ids=["archive", "legacy"])
def test_a_changed_byte_is_refused_or_harmless(archived: bool) -> None:
    data = _whole(archived)
    for at in range(0, len(data), 3):
        for value in (0, 0x7F, 0xFF, data[at] ^ 1):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            with contextlib.suppress(RuntimeError, pickle.UnpicklingError, EOFError):
                repr(load(io.BytesIO(changed)))


@pytest.mark.parametrize("field", ["offset", "size"])
def test_a_record_that_ends_behind_the_file_is_refused(field: str, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    save(shmtensor.ones(4), path)
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\1\2", 0, data.rindex(b"state/data/0"))
    if field == "size":
        data[entry + 20 : entry + 28] = struct.pack("<LL", 1 << 30, 1 << 30)
    else:
        data[entry + 42 : entry + 46] = struct.pack("<L", len(data) - 8)
    path.write_bytes(data)
    for mapped in (False, True):
        with pytest.raises(RuntimeError, match="failed reading zip archive"):
            load(path, mmap=mapped)


def test_legacy_storages_are_no_larger_than_the_file() -> None:
    file = io.BytesIO()
    save(shmtensor.ones(2), file, _use_new_zipfile_serialization=False)
    data = file.getvalue().replace(b"cpuq\x04K\x02", b"cpuq\x04J\xff\xff\xff\x7f")
    with pytest.raises(RuntimeError, match="a storage of 8589934588 bytes"):
        load(io.BytesIO(data))


def test_an_archive_without_program_or_of_torchscript_is_named() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a/other", b"")
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"0 records data\.pkl"):
        load(file)
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a/data.pkl", b"")
        made.writestr("a/constants.pkl", b"")
    file.seek(0)
    with pytest.raises(RuntimeError, match="TorchScript"):
        load(file)


def test_unknown_references_are_refused() -> None:
    references: list[Any] = [("storage",), ("module", 1, 2, 3), 3]
    for reference in references:
        with pytest.raises(pickle.UnpicklingError, match="unknown reference"):
            load(archive(pickle.dumps(reference, 2)[2:-1] + b"Q"))


@pytest.mark.parametrize(
    "program",
    [
        b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\nJ\xff\xff\xff\xff\x85K\x01\x85\x89tR",
        b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(ctorch\nfloat32\n"
        + (number(2**62) * 2 + b"\x86") * 2
        + b"\x89tR",
        b"ctorch._utils\n_rebuild_meta_tensor_no_storage\n(K\x01))\x89tR",
        b"ctorch._utils\n_rebuild_parameter\n(K\x01\x88NtR",
        b"ctorch\ndevice\nX\x03\x00\x00\x00cpu" + number(2**70) + b"\x86R",
        b"ctorch\nSize\nX\x03\x00\x00\x00cpu\x85\x85R",
        b"ctorch.serialization\n_get_layout\nX\x04\x00\x00\x00ones\x85R",
        b"ctorch._utils\n_rebuild_sparse_tensor\n)R",
        tensor(4, True, [1], [1]),
        tensor(4, 0, [True], [1]),
        tensor(4, 0, [1], [False]),
        tensor(4, 0, [1], [1]).replace(b"\x89", b"K\x01"),
        tensor(4, 0, [1], [1]).replace(b"\x89", b"N"),
        tensor(4, 0, [1], [1])[:-2] + b"K\x01tR",  # for a dictionary of bits
        b"ctorch._utils\n_rebuild_parameter\n(" + tensor(4, 0, [1], [1]) + b"K\x01NtR",
        tensor(4, 0, [4], [1]) + b"N}X\x09\x00\x00\x00__class__ccollections\nOrderedDict\ns\x86b",
    ],
)
def test_wrong_arguments_are_refused(program: bytes) -> None:
    with pytest.raises((pickle.UnpicklingError, RuntimeError)):
        load(archive(program, _0=bytes(16)))
