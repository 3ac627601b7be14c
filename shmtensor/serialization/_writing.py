"""Writes objects to files: the archive, and torch's older format."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import types
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any, ClassVar

from shmtensor.serialization._names import name_in_files, reduce_for_file
from shmtensor.storage import TypedStorage, UntypedStorage
from shmtensor.storage.typed import LEGACY_CLASSES

__all__ = [
    "LEGACY_MAGIC",
    "LEGACY_PROTOCOL",
    "aligned_entry",
    "stem_of",
    "write_archive",
    "write_legacy",
]

_ALIGNMENT = 64

#: What the first two pickles of the old format hold.
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001


class _LeavesStoragesOut:
    """What a pickler of files does besides: it refers to storages by keys."""

    def __init__(self, file: IO[bytes], protocol: int, legacy: bool) -> None:
        super().__init__(file, protocol=protocol)  # type: ignore[call-arg]
        self._legacy = legacy
        self._keys: dict[int, str] = {}
        #: Key -> the storage and the class that it is named by.
        self.storages: dict[str, tuple[UntypedStorage, Any]] = {}

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, TypedStorage):
            storage, kind = obj.untyped(), LEGACY_CLASSES[obj.pickle_storage_type()]
        elif isinstance(obj, UntypedStorage):
            storage, kind = obj, UntypedStorage
        else:
            return None
        key = self._keys.get(storage._cdata)
        if key is None:
            key = str(storage._cdata if self._legacy else len(self.storages))
            self._keys[storage._cdata] = key
            self.storages[key] = (storage, kind)
        elif self.storages[key][1] is not kind and len(storage):
            # Readers keep one dtype for a storage.
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types"
            )
        count = len(storage) // _itemsize(kind)
        reference = ("storage", kind, key, storage.device.type, count)
        return (*reference, None) if self._legacy else reference

    def reducer_override(self, obj: Any) -> Any:
        own = getattr(super(), "reducer_override", None)  # of a module's Pickler
        made = NotImplemented if own is None else own(obj)
        return reduce_for_file(obj) if made is NotImplemented else made


class _Pickler(_LeavesStoragesOut, pickle._Pickler):
    """A pickler that leaves storages out, and writes the names that files use.

    It derives from the pickler in Python, because the one in C imports every name that it writes.
    """

    proto: int
    save: Callable[[Any], None]
    write: Callable[[bytes], Any]
    memoize: Callable[[Any], None]

    def save_global(self, obj: Any, name: str | None = None) -> None:
        known = name_in_files(obj)
        if known is None:
            super().save_global(obj, name)  # type: ignore[misc]
            return
        module, name = known
        if self.proto >= 4:
            self.save(module)
            self.save(name)
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    dispatch: ClassVar[dict[type, Any]] = {
        **pickle._Pickler.dispatch,
        types.FunctionType: save_global,
    }


def _pickler_of(module: Any) -> Any:
    """The class that writes objects as *module*, such as dill, does."""
    if module is None or module.Pickler is pickle.Pickler:
        return _Pickler
    return type("_Pickler", (_LeavesStoragesOut, module.Pickler), {})


def _itemsize(kind: Any) -> int:
    return 1 if kind is UntypedStorage else int(kind.dtype.itemsize)


def aligned_entry(archive: zipfile.ZipFile, name: str, nbytes: int) -> zipfile.ZipInfo:
    """An entry to write next, whose *nbytes* bytes will begin at a multiple of 64."""
    info = zipfile.ZipInfo(name)  # a fixed date: equal contents give equal files
    info.file_size = nbytes
    assert archive.fp is not None
    # An entry's head is 30 bytes, its name and its extra field, which is id, length and padding.
    begin = archive.fp.tell() + 30 + len(name.encode()) + 4
    padding = -begin % _ALIGNMENT
    if nbytes * 1.05 > zipfile.ZIP64_LIMIT:  # as zipfile asks: compression may make it larger
        padding = (padding - 20) % _ALIGNMENT  # it puts a field of 20 bytes in front
    info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    return info


def _write_record(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Add a record whose bytes begin at a multiple of 64."""
    archive.writestr(aligned_entry(archive, name, memoryview(data).nbytes), data)


def _contents_id(archive: zipfile.ZipFile) -> str:
    """Return forty digits, computed from the names and contents of the records."""
    records = archive.infolist()
    names = zlib.crc32("\n".join(info.filename for info in records).encode())
    contents = zlib.crc32(struct.pack(f"<{len(records)}L", *(info.CRC for info in records)))
    return f"{names:020d}{contents:020d}"


def write_archive(
    obj: Any, file: IO[bytes], stem: str, protocol: int, module: Any, says_order: bool = True
) -> None:
    """Write the zip archive.

    Args:
        obj: What is in it.
        file: Takes it.
        stem: The folder that its records are in.
        protocol: Of its pickle.
        module: Whose pickler writes that.
        says_order: Whether there is a record of the order of bytes.
    """
    buffer = io.BytesIO()
    pickler = _pickler_of(module)(buffer, protocol, legacy=False)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write_record(archive, f"{stem}/data.pkl", buffer.getvalue())
        _write_record(archive, f"{stem}/.format_version", b"1")
        _write_record(archive, f"{stem}/.storage_alignment", str(_ALIGNMENT).encode())
        if says_order:
            _write_record(archive, f"{stem}/byteorder", sys.byteorder.encode())
        for key, (storage, _) in pickler.storages.items():
            if storage.device.type != "meta":
                _write_record(archive, f"{stem}/data/{key}", storage._view())
        _write_record(archive, f"{stem}/version", b"3\n")
        _write_record(archive, f"{stem}/.data/serialization_id", _contents_id(archive).encode())


def write_legacy(obj: Any, file: IO[bytes], protocol: int, module: Any) -> None:
    """Write the old format: pickles one after the other, then the bytes of the storages."""
    system = {
        "protocol_version": LEGACY_PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for head in (LEGACY_MAGIC, LEGACY_PROTOCOL, system):
        pickle.dump(head, file, protocol=protocol)
    pickler = _pickler_of(module)(file, protocol, legacy=True)
    pickler.dump(obj)
    present = {k: v for k, v in pickler.storages.items() if v[0].device.type != "meta"}
    pickle.dump(sorted(present), file, protocol=protocol)
    for _, (storage, kind) in sorted(present.items()):
        storage._write_file(file, False, True, _itemsize(kind))


def stem_of(f: Any) -> str:
    """Return the name of the folder in an archive: the file's name without its extension."""
    if isinstance(f, str | os.PathLike):
        return os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
    return "archive"
