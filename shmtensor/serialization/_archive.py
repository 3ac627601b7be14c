"""Reads storages from files: the records of an archive, the older format, `map_location`."""

from __future__ import annotations

import contextlib
import enum
import io
import os
import pickle
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeAlias

from shmtensor import _C
from shmtensor.serialization._budget import Budget, brief, inflate, pay_for
from shmtensor.serialization._writing import LEGACY_MAGIC, LEGACY_PROTOCOL
from shmtensor.storage import TypedStorage, UntypedStorage, from_files
from shmtensor.storage.typed import LEGACY_CLASSES

__all__ = [
    "Archive",
    "FromCaller",
    "LoadEndianness",
    "MapLocation",
    "default_order",
    "default_restore_location",
    "read_legacy",
]

MapLocation: TypeAlias = Callable[[UntypedStorage, str], Any] | Any | dict[str, str] | None
ReadPickle: TypeAlias = Callable[[IO[bytes], Callable[[Any], Any]], Any]


class LoadEndianness(enum.Enum):
    """The order of bytes of archives that do not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


#: What `set_default_load_endianness` was given; None is little.
default_order: list[LoadEndianness | None] = [None]


def _order_of_silent() -> bytes:
    order = default_order[0]
    if order is LoadEndianness.NATIVE:
        return sys.byteorder.encode()
    return b"big" if order is LoadEndianness.BIG else b"little"


class FromCaller(Exception):
    """Carries what the function ``map_location`` raised past those who judge the file.

    Args:
        error: It.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


# --- references and places ----------------------------------------------------------------------


def _reference(reference: Any, length: int) -> tuple[Any, str, str, int]:
    """Check a reference to a storage; return dtype (None for bytes), key, location and bytes."""
    if (
        not isinstance(reference, tuple)
        or len(reference) != length
        or reference[0]
        not in (
            "storage",
            b"storage",  # of Python 2, read as bytes
        )
    ):
        raise pickle.UnpicklingError(f"unknown reference in the file: {brief(reference)}")
    parts: list[Any] = [p.decode("ascii") if type(p) is bytes else p for p in reference[:5]]
    _, kind, key, location, count = parts
    typed = any(kind is legacy for legacy in LEGACY_CLASSES.values())
    if not typed and kind is not UntypedStorage:
        raise pickle.UnpicklingError(f"expected a class of storages, got {brief(kind)}")
    if type(key) is not str or type(location) is not str or type(count) is not int or count < 0:
        raise pickle.UnpicklingError(f"unknown reference in the file: {brief(reference)}")
    dtype: Any = kind.dtype if typed else None
    return dtype, key, location, count * (dtype.itemsize if typed else 1)


def _with_dtype(storage: UntypedStorage, dtype: Any) -> Any:
    if dtype is None:
        return storage
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def default_restore_location(storage: UntypedStorage, location: str) -> UntypedStorage:
    """Return the storage on the device of a file's location.

    Raises:
        RuntimeError: There is no such device.
    """
    kind = location.partition(":")[0]
    if kind == "cpu":
        return storage.cpu()
    if kind == "meta":
        return UntypedStorage(len(storage), device="meta")
    if kind == "cuda":
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    raise RuntimeError(
        "don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
        f"{location})"
    )


def _place(storage: UntypedStorage, location: str, wanted: MapLocation) -> UntypedStorage:
    """Put a storage on the device that *wanted*, the argument ``map_location``, says."""
    if isinstance(wanted, dict):
        location = wanted.get(location, location)
    elif isinstance(wanted, str | _C.device):
        location = str(wanted)
    elif wanted is not None:
        try:
            placed = wanted(storage, location)
        except Exception as error:
            raise FromCaller(error) from error
        if isinstance(placed, TypedStorage | UntypedStorage):
            return placed.untyped()
        if placed is not None:
            wrong = TypeError(
                f"map_location should return a storage or None, got {type(placed).__name__}"
            )
            raise FromCaller(wrong)
    return default_restore_location(storage, str(location))


def _size(file: IO[bytes]) -> int:
    """Size of the file; it stands at its end afterwards."""
    file.seek(0, os.SEEK_END)
    return file.tell()


# --- the archive --------------------------------------------------------------------------------


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """Turn what a damaged archive raises into one kind of error."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        NotImplementedError,
        ValueError,
        OverflowError,
    ) as error:
        raise RuntimeError(f"load(): failed reading zip archive: {error}") from None


class _Part(io.RawIOBase):
    """The bytes of a file from *begin* to *end*, as a file of their own.

    Needs only ``read``, ``seek`` and ``tell`` of the file.
    """

    def __init__(self, file: Any, begin: int, end: int) -> None:
        self._file = file
        self._begin = begin
        self._length = end - begin
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._length}[whence]
        if start + offset < 0:
            raise ValueError(f"position {start + offset} is before the beginning")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer).cast("B")
        n = max(0, min(len(room), self._length - self._at))
        self._file.seek(self._begin + self._at)
        data = self._file.read(n)
        room[: len(data)] = data
        self._at += len(data)
        return len(data)


_END = b"PK\x05\x06"  # of the last record of an archive, of 22 bytes and a comment
_END_OF_64 = b"PK\x06\x06"  # of its form for large archives, 76 bytes before, with what locates it
_DIRECTORY = b"PK\x01\x02"
_CHUNK = 1 << 20


def _end_if_of(file: IO[bytes], begin: int, at: int) -> int | None:
    """The end of the archive that begins at *begin*, if its last record is at *at*."""
    file.seek(max(at - 76, begin))
    head = file.read(at - max(at - 76, begin))
    last = file.read(22)
    if len(last) < 22:
        return None
    size, offset, comment = struct.unpack("<LLH", last[12:22])
    directory_end = at
    if head.startswith(_END_OF_64):
        size, offset = struct.unpack("<QQ", head[40:56])
        directory_end = at - 76
    if begin + offset + size != directory_end:
        return None
    file.seek(begin + offset)
    is_directory = file.read(4) == _DIRECTORY
    return at + 22 + int(comment) if is_directory else None


def _end_of_first(file: IO[bytes], begin: int, size: int) -> int | None:
    """The end of the archive that begins at *begin*, when others follow it."""
    place = begin
    while place < size:
        file.seek(place)
        chunk = file.read(_CHUNK)
        at = chunk.find(_END)
        while at >= 0:
            if (end := _end_if_of(file, begin, place + at)) is not None:
                return end
            at = chunk.find(_END, at + 1)
        if len(chunk) <= len(_END):
            break
        place += len(chunk) - len(_END) + 1
    return None


class Archive:
    """The records of the zip archive that begins at a file's position.

    Attributes:
        end: Where it ends in the file.

    Args:
        file: The file.
        path: Where it is, to map it; None to read it.
        map_location: See `load`.
        budget: Pays for records that are compressed.

    Raises:
        RuntimeError: It is not such an archive, or is damaged.
    """

    def __init__(
        self, file: IO[bytes], mmap: bool, map_location: MapLocation, budget: Budget
    ) -> None:
        begin = file.tell()
        self.end = _size(file)
        self._file: IO[bytes] = file
        if not hasattr(file, "seekable"):
            self._file = io.BufferedReader(_Part(file, 0, self.end))
        self._zip = self._opened()
        if min((info.header_offset for info in self._zip.infolist()), default=begin) != begin:
            # The directory that was found is that of another archive, which follows this one.
            end = _end_of_first(file, begin, self.end)
            if end is not None:
                self.end = end
                self._file = io.BufferedReader(_Part(file, begin, end))
                self._zip = self._opened()
        names = [n for n in self._zip.namelist() if n.endswith("/data.pkl")]
        if len(names) != 1:
            raise RuntimeError(f"load(): the file holds {len(names)} records data.pkl, not 1")
        self._stem = names[0].removesuffix("data.pkl")
        if f"{self._stem}constants.pkl" in self._zip.namelist():
            raise RuntimeError("Cannot use load() with TorchScript archives")
        self._size = self._room = _size(self._file)
        self._budget = budget
        self._map_location = map_location
        self._mapped = from_files.mapped(file, 0, self._size, "c")[0] if mmap else None
        if f"{self._stem}byteorder" in self._zip.namelist():
            order = self._record("byteorder")
        else:
            order = _order_of_silent()
        if order not in (b"little", b"big"):
            raise ValueError(f"Unknown endianness type: {order[:40].decode(errors='replace')}")
        self._foreign = order != sys.byteorder.encode()
        self._loaded: dict[str, UntypedStorage] = {}

    def _opened(self) -> zipfile.ZipFile:
        try:
            with _reading():
                return zipfile.ZipFile(self._file)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: failed finding central directory") from None

    def _record(self, name: str) -> bytes:
        with _reading():
            return inflate(self._zip, self._zip.getinfo(f"{self._stem}{name}"), self._budget)

    def pickled(self) -> io.BytesIO:
        """The record data.pkl."""
        return io.BytesIO(self._record("data.pkl"))

    def find_storage(self, reference: Any) -> Any:
        """Return the storage for a reference: typed, or untyped if the reference is of bytes."""
        dtype, key, location, nbytes = _reference(reference, 5)
        storage = self._loaded.get(key)
        if storage is None:
            if location == "meta":
                storage = UntypedStorage(nbytes, device="meta")
            else:
                storage = self._read(f"{self._stem}data/{key}", nbytes, dtype)
            storage = self._loaded[key] = _place(storage, location, self._map_location)
        elif nbytes > len(storage):
            raise RuntimeError(f"load(): {nbytes} bytes of a storage of {len(storage)}")
        return _with_dtype(storage, dtype)

    def _read(self, name: str, nbytes: int, dtype: Any) -> UntypedStorage:
        try:
            info = self._zip.getinfo(name)
        except KeyError:
            raise RuntimeError(
                f"load(): failed locating file {name}: file not found, the record is missing"
            ) from None
        if nbytes > info.file_size:
            raise RuntimeError(
                f"load(): record {name} has {info.file_size} bytes, but {nbytes} are referred to"
            )
        with _reading():
            begin = self._begin(info)
            plain = info.compress_type == zipfile.ZIP_STORED
            if plain and not 0 <= begin <= self._size - info.file_size:
                raise zipfile.BadZipFile(f"record {name} ends behind the file")
            self._room -= info.file_size if plain else 0
            if self._room < 0:
                raise zipfile.BadZipFile("records overlap")
            if self._mapped is not None and plain:
                storage = from_files.own_part(self._mapped, begin, info.file_size)
                if begin % 16:  # the widest element wants its address to be a multiple of its size
                    storage = storage.clone()
            else:
                pay_for(info, self._budget)
                storage = UntypedStorage(info.file_size)
                with self._zip.open(info) as record:
                    storage._read_from(record, is_real_file=False)
        if self._foreign and dtype is not None:
            storage.byteswap(dtype)
        return storage

    def _begin(self, info: zipfile.ZipInfo) -> int:
        """Return where a record's bytes begin: after name and extra field of the local header."""
        self._file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", self._file.read(4))
        return int(info.header_offset + 30 + name + extra)


# --- the format from before the archive ---------------------------------------------------------


def read_legacy(file: IO[bytes], read_pickle: ReadPickle, map_location: MapLocation) -> Any:
    """Read pickles one after the other, then the bytes of the storages.

    Args:
        file: Positioned at the beginning; afterwards at the end of the object.
        read_pickle: Reads one pickle; its second argument finds storages.
        map_location: See `load`.

    Raises:
        EOFError: The file is empty.
        RuntimeError: The file has another format, or is damaged.
        pickle.UnpicklingError: From *read_pickle*.
    """
    start, size = file.tell(), _size(file)
    file.seek(start)
    if file.read(262)[257:] == b"ustar":
        raise RuntimeError(
            "Cannot use load() with files saved in the legacy .tar format (before 2017): save it "
            "again with a newer version of torch"
        )
    file.seek(start)
    loaded: dict[str, tuple[UntypedStorage, int]] = {}
    views: dict[str, UntypedStorage] = {}
    room = size - start

    def find_storage(reference: Any) -> Any:
        nonlocal room
        if isinstance(reference, tuple) and len(reference) == 4 and reference[0] == "module":
            return reference[1]  # a class, with its source
        dtype, key, location, nbytes = _reference(reference, 6)
        if key not in loaded:
            room -= nbytes
            if room < 0:
                raise RuntimeError(f"load(): a storage of {nbytes} bytes in a file of {size}")
            storage = _place(UntypedStorage(nbytes), location, map_location)
            loaded[key] = (storage, 1 if dtype is None else dtype.itemsize)
        storage = loaded[key][0]
        if nbytes > len(storage):
            raise RuntimeError(f"load(): {nbytes} bytes of a storage of {len(storage)}")
        if reference[5] is not None:
            storage = _part(storage, dtype, reference[5], views)
        return _with_dtype(storage, dtype)

    if read_pickle(file, find_storage) != LEGACY_MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = read_pickle(file, find_storage)
    if version != LEGACY_PROTOCOL:
        raise RuntimeError(f"Invalid protocol version: {brief(version)}")
    read_pickle(file, find_storage)  # the system that wrote the file; the bytes say all of it
    result = read_pickle(file, find_storage)
    keys = read_pickle(file, find_storage)
    for key in keys if isinstance(keys, list) else [keys]:
        key = key.decode("ascii") if type(key) is bytes else key
        if type(key) is not str or key not in loaded:
            raise RuntimeError(f"load(): bytes of an unknown storage {brief(key)}")
        storage, itemsize = loaded.pop(key)
        if storage.device.type == "meta":
            file.seek(8 + len(storage), os.SEEK_CUR)
        else:
            storage._set_from_file(file, None, False, itemsize)
    if any(storage.device.type != "meta" and len(storage) for storage, _ in loaded.values()):
        raise RuntimeError(f"load(): the bytes of {len(loaded)} storages are missing")
    return result


def _part(
    storage: UntypedStorage, dtype: Any, view: Any, views: dict[str, UntypedStorage]
) -> UntypedStorage:
    """A storage that is part of another, as files of torch 0.3 have them."""
    if not isinstance(view, tuple) or len(view) != 3 or type(view[0]) is not str:
        raise pickle.UnpicklingError(f"unknown part of a storage: {brief(view)}")
    key, offset, count = view
    if type(offset) is not int or type(count) is not int:
        raise pickle.UnpicklingError(f"unknown part of a storage: {brief(view)}")
    itemsize = 1 if dtype is None else dtype.itemsize
    begin, end = offset * itemsize, (offset + count) * itemsize
    if not 0 <= begin <= end <= len(storage):
        raise RuntimeError(f"load(): bytes {begin} to {end} of a storage of {len(storage)}")
    if key not in views:
        views[key] = storage[begin:end]
    return views[key]
