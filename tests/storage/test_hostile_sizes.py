"""Small files that ask for much memory or time, and large ones that are as they should be.

Not covered: files that want to run code, or are damaged (test_hostile_files).
"""

from __future__ import annotations

import collections
import io
import pickle
import struct
import sys
import zipfile
from typing import Any

import pytest

import shmtensor
from shmtensor.serialization import get_unsafe_globals_in_checkpoint, load, save

N = 20_000
TOO_MUCH = "asks for more than"


def archive(
    program: bytes, method: int = zipfile.ZIP_STORED, **records: bytes | tuple[bytes, int]
) -> io.BytesIO:
    """An archive with this data.pkl, and records of storages; each may have a method of its own."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/data.pkl", b"\x80\x04" + program + b".", method)
        for name, record in records.items():
            data, how = record if isinstance(record, tuple) else (record, zipfile.ZIP_STORED)
            made.writestr(f"archive/data/{name.removeprefix('_')}", data, how)
    file.seek(0)
    return file


def plain(value: Any) -> bytes:
    """The program of a value without memo."""
    return pickle.dumps(value, 2)[2:-1]


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def data(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def repeated(large: bytes, step: bytes, called: bytes = b"N") -> bytes:
    """A list of what *step* makes again and again; memo r10 is *large*, r11 *called*."""
    memo = b"r" + struct.pack("<I", 1_000_010)
    memo_called = b"r" + struct.pack("<I", 1_000_011)
    begin = large + memo + b"0" + called + memo_called + b"0"
    return begin + b"](" + N * step + b"e"


LARGE = b"j" + struct.pack("<I", 1_000_010)
CALLED = b"j" + struct.pack("<I", 1_000_011)
CALL = CALLED + LARGE + b"\x85R"

INTS = plain(list(range(5000)))
FLOAT = b"ctorch\nFloatStorage\n"
STORAGE = b"(X\x07\x00\x00\x00storage" + FLOAT + text("0") + text("cpu") + plain(4) + b"tQ"
HOOKS = b"ccollections\nOrderedDict\n)R"
EXPANDED = (
    b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE + b"K\x00" + plain((2**50,)) + plain((0,))
    + b"\x89" + HOOKS + b"tR"
)  # fmt: skip
ONE = EXPANDED.replace(plain((2**50,)), plain((1,)))

#: Each takes a gigabyte or more, or minutes, when nobody counts.
PROGRAMS = {
    "bytearray": repeated(data(bytes(100_000)), CALL, b"cbuiltins\nbytearray\n"),
    "deque": repeated(INTS * 2 + b"0", CALL, b"ccollections\ndeque\n"),
    "set": repeated(INTS, CALL, b"cbuiltins\nset\n"),
    "frozenset": repeated(INTS, CALL, b"cbuiltins\nfrozenset\n"),
    "Size": repeated(b"(" + 20_000 * b"K\x01" + b"t", CALL, b"ctorch\nSize\n"),
    "encode": repeated(text(100_000 * "a"), CALL, b"c_codecs\nencode\n"),
    "OrderedDict": repeated(
        plain([(i, 0) for i in range(3000)]), CALL, b"ccollections\nOrderedDict\n"
    ),
    "Counter": repeated(
        plain(dict.fromkeys(range(3000), 0)), CALL, b"ccollections\nCounter\n"
    ),
    "attributes": repeated(
        plain(dict.fromkeys(map(str, range(3000)))),
        CALLED + b")R" + LARGE + b"b",
        b"ccollections\nOrderedDict\n",
    ),
    "attributes of a parameter": repeated(
        plain(dict.fromkeys(map(str, range(3000)))),
        CALLED + b"(j" + struct.pack("<I", 7) + b"\x89N" + LARGE + b"tR",
        ONE + b"r" + struct.pack("<I", 7) + b"0ctorch._utils\n_rebuild_parameter_with_state\n",
    ),
    "complex": repeated(text("1" * 100_000), CALL, b"cbuiltins\ncomplex\n"),
    "a key of many parts": repeated(
        b"(" + 990 * b"K\x01" + b"t", b"}" + 10 * (LARGE + b"Ns")
    ),
    "a long key that is an integer": repeated(
        b"\x8b" + struct.pack("<I", 100_001) + bytes(100_000) + b"\x01", b"}" + LARGE + b"Ns"
    ),
    "long keys that are equal": repeated(
        text(100_000 * "a"),
        CALLED + LARGE + b"Ns0N",
        b"}" + text(100_000 * "a") + b"Ns",
    ),
    "elements": b"ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n_get_layout\n"
    + text("torch.sparse_coo") + b"\x85R(" + ONE + EXPANDED + plain((4,)) + b"t\x86R",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_small_file_asks_for_no_more_than_its_share(name: str) -> None:
    with pytest.raises(pickle.UnpicklingError, match=TOO_MUCH):
        load(archive(PROGRAMS[name], _0=bytes(16)))


@pytest.mark.check
def test_keys_with_equal_hashes_are_few() -> None:
    modulus = sys.hash_info.modulus
    for keys in (
        [i * modulus for i in range(1, N)],
        [(i * modulus, 0) for i in range(1, N)],
    ):
        program = b"}(" + b"".join(plain(key) + b"N" for key in keys) + b"u"
        with pytest.raises(pickle.UnpicklingError, match="have the same hash"):
            load(archive(program))
        program = b"cbuiltins\nset\n](" + b"".join(map(plain, keys)) + b"e\x85R"
        with pytest.raises(pickle.UnpicklingError, match="have the same hash"):
            load(archive(program))


@pytest.mark.parametrize(
    "program",
    [
        b"I" + 1_000_000 * b"9" + b"\n",
        b"L" + 1_000_000 * b"9" + b"L\n",
        b"P" + 1_000_000 * b"9" + b"\n",
        b"g" + 1_000_000 * b"9" + b"\n",
        b"Np" + 1_000_000 * b"9" + b"\n",
        b"cbuiltins\nrange\nK\x00\x8b" + struct.pack("<I", 500_001) + bytes(500_000)
        + b"\x01\x8b" + struct.pack("<I", 250_001) + bytes(250_000) + b"\x01\x87R",
    ],
)  # fmt: skip
def test_numbers_without_end_are_refused(program: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        load(archive(program))


# A tuple of a tuple twice, fifty times: its text would have 2 ** 50 parts.
ENDLESS = b")" + 50 * b"q\x01h\x01\x86"


@pytest.mark.parametrize(
    "program",
    [
        ENDLESS + b"Q",
        b"(" + ENDLESS * 5 + b"tQ",
        b"(X\x07\x00\x00\x00storage" + ENDLESS + 3 * b"K\x01" + b"tQ",
        b"(X\x07\x00\x00\x00storage" + FLOAT + ENDLESS + 2 * b"K\x01" + b"tQ",
        ENDLESS + b")R",
        b"ctorch.serialization\n_get_layout\n" + ENDLESS + b"\x85R",
        b"c_codecs\nencode\nX\x01\x00\x00\x00a" + ENDLESS + b"\x86R",
        b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n"
        + ENDLESS + b")}tR",
        b"cbuiltins\ncomplex\n" + ENDLESS + b"\x85R",
        b"ctorch\ndevice\n" + ENDLESS + b"\x85R",
        b"ctorch\nSize\n" + ENDLESS + b"\x85R",
        b"]" + ENDLESS + b"Ns",
    ],
)  # fmt: skip
def test_errors_do_not_show_nested_values(program: bytes) -> None:
    with pytest.raises((pickle.UnpicklingError, RuntimeError)) as caught:
        load(archive(program))
    assert len(str(caught.value)) < 2000


def test_the_elements_of_a_tensor_are_not_set_by_its_attributes() -> None:
    program = (
        b"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_parameter\nctorch\nTensor\n"
        + b"(" + EXPANDED + b"\x89Nt" + b"N}" + text("real") + EXPANDED + b"s\x86tR"
    )  # fmt: skip
    with pytest.raises(pickle.UnpicklingError, match="sets the attribute 'real'"):
        load(archive(program, _0=bytes(16)))


# --- compressed records -----------------------------------------------------------------------


@pytest.mark.check
def test_a_compressed_program_is_paid_for() -> None:
    file = archive(b"N0" * 50_000_000 + b"N", zipfile.ZIP_DEFLATED)
    with pytest.raises(pickle.UnpicklingError, match=TOO_MUCH):
        load(file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=TOO_MUCH):
        get_unsafe_globals_in_checkpoint(file)
    with pytest.raises(RuntimeError, match=TOO_MUCH):
        shmtensor.PyTorchFileReader(file).get_record("data.pkl")


def _tensors(n: int, nbytes: int) -> bytes:
    storages = [
        b"(X\x07\x00\x00\x00storage"
        + FLOAT
        + text(str(i))
        + text("cpu")
        + plain(nbytes // 4)
        + b"tQ"
        for i in range(n)
    ]
    return b"](" + b"".join(storages) + b"e"


def test_compressed_storages_are_paid_for_together() -> None:
    nbytes = 20_000_000
    records = {f"_{i}": (bytes(nbytes), zipfile.ZIP_DEFLATED) for i in range(5)}
    file = archive(_tensors(5, nbytes), **records)
    with pytest.raises(pickle.UnpicklingError, match=TOO_MUCH):
        load(file)
    # Somebody who trusts the file gets all of them.
    file.seek(0)
    assert [len(s) for s in load(file, weights_only=False)] == [nbytes // 4] * 5
    one = load(archive(_tensors(1, nbytes), _0=(bytes(nbytes), zipfile.ZIP_DEFLATED)))
    assert one[0].nbytes() == nbytes


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflate_is_read(method: int) -> None:
    with pytest.raises(RuntimeError, match="not by deflate"):
        load(archive(b"N", method))


def test_a_record_that_claims_less_than_it_has_is_not_inflated_whole() -> None:
    file = archive(b"N0" * 50_000_000 + b"N", zipfile.ZIP_DEFLATED).getvalue()
    claimed = struct.pack("<I", 100_000_004)
    assert file.count(claimed) == 2
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        load(io.BytesIO(file.replace(claimed, struct.pack("<I", 1000))))


# --- large files that are as they should be ------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 5])
def test_large_files_with_much_in_common_are_loaded(protocol: int) -> None:
    common = {f"name{i}": (i, str(i)) for i in range(1000)}
    key = (1, "two", (3.0, None))
    value = {
        "common": [common] * 100_000,
        "keys": [{key: i, 2**63 + i: i} for i in range(20_000)],
        "bytes": [bytearray(b"x" * 100) for _ in range(10_000)],
        "queues": [collections.deque([i]) for i in range(10_000)],
        "ordered": [collections.OrderedDict(common) for _ in range(50)],
        "counts": [collections.Counter("abracadabra") for _ in range(1000)],
        "sets": [set(range(i, i + 50)) for i in range(1000)],
        "tensors": [shmtensor.ones(10).expand(1000, 10)] * 10_000,
    }
    file = io.BytesIO()
    save(value, file, pickle_protocol=protocol)
    file.seek(0)
    loaded = load(file)
    tensors, expected = loaded.pop("tensors"), value.pop("tensors")
    assert all(one is loaded["common"][0] for one in loaded["common"])
    assert len(loaded.pop("common")) == len(value.pop("common"))
    assert loaded == value
    assert len(tensors) == len(expected)
    assert tensors[0].shape == (1000, 10)
    assert all(tensor is tensors[0] for tensor in tensors)
