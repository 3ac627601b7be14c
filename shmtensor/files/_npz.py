"""NumPy's ``.npz`` files: zip archives of ``.npy`` files."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO

from shmtensor._core._tensor import Tensor
from shmtensor.files import _npy
from shmtensor.serialization._writing import aligned_entry
from shmtensor.storage import from_files

__all__ = ["load_npz", "save_npz"]

_SUFFIX = ".npy"
_ENCRYPTED = 1
#: How many bytes one byte of an entry can stand for, by method.
_MOST_INFLATED = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}


def _begin(file: IO[bytes], info: zipfile.ZipInfo, size: int) -> int:
    """Where a plain entry begins: after name and extra field of its own head."""
    file.seek(info.header_offset)
    head = file.read(30)
    if len(head) < 30 or head[:4] != b"PK\3\4":
        raise ValueError(f"the entry {info.filename!r} has no head")
    name, extra = struct.unpack("<HH", head[26:])
    begin = int(info.header_offset) + 30 + int(name) + int(extra)
    if begin + info.file_size > size:
        raise ValueError(f"the entry {info.filename!r} ends behind the file")
    return begin


def _check_sizes(infos: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse entries that cannot have the size that they claim, or lie on each other."""
    room = size
    for info in infos:
        factor = _MOST_INFLATED.get(info.compress_type)
        if factor is None:
            raise ValueError(
                f"the entry {info.filename!r} is compressed by method {info.compress_type}"
            )
        room -= info.compress_size
        if room < 0 or info.file_size > factor * info.compress_size:
            raise ValueError(
                f"the entry {info.filename!r} claims {info.file_size} bytes in "
                f"{info.compress_size} of a file of {size}"
            )


def _entry(
    file: IO[bytes],
    size: int,
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    mode: str | None,
    shared: bool,
) -> Tensor:
    if info.header_offset < 0:
        raise ValueError(f"the entry {info.filename!r} begins before the file")
    plain = info.compress_type == zipfile.ZIP_STORED and not info.flag_bits & _ENCRYPTED
    begin = _begin(file, info, size) if plain else -1
    with archive.open(info) as entry:
        header, length = _npy.read_header(entry, info.file_size)
        entry.seek(length)
        return _npy.place(file, entry, header, begin + length if plain else -1, mode, shared)


def load_npz(
    path: str | os.PathLike[str], mode: str | None = "c", *, shared: bool = False
) -> dict[str, Tensor]:
    """Return the arrays of a ``.npz`` file by name.

    Args:
        path: The file. You may replace or delete it afterwards, but not truncate it.
        mode: As in `load_npy`, without ``"r+"``: the archive has a checksum of each array. ``"c"``
            reads compressed arrays. NumPy puts arrays at any byte of the archive, and ``"c"`` reads
            those that are at odd ones; `save_npz` puts them where they can be mapped.
        shared: Read all arrays straight into shared memory.

    Raises:
        ValueError: The file is not an archive of arrays, is damaged, or cannot be mapped in this
            *mode*.
        OSError: It cannot be opened.
    """
    mode = from_files.check_mode(mode, shared)
    if mode == "r+":
        raise ValueError("load_npz(): mode 'r+' would make the archive's checksums wrong")
    result: dict[str, Tensor] = {}
    with from_files.open_regular(path) as (file, size):
        try:
            with zipfile.ZipFile(file) as archive:
                _check_sizes(archive.infolist(), size)
                for info in archive.infolist():
                    name = info.filename.removesuffix(_SUFFIX)
                    if name == info.filename:
                        raise ValueError(f"the entry {name!r} is not a .npy file")
                    if name in result:
                        raise ValueError(f"the archive has {name!r} twice")
                    result[name] = _entry(file, size, archive, info, mode, shared)
        except (
            zipfile.BadZipFile,
            zlib.error,
            struct.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
            ValueError,
            OverflowError,
        ) as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None
    return result


def save_npz(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], *, compressed: bool = False
) -> None:
    """Write tensors to a ``.npz`` file, which appears complete or not at all.

    Args:
        path: The file; replaced if it exists, also behind a link. Nothing is added to its name.
        tensors: Name to tensor, of dtypes that NumPy has.
        compressed: Compress them; such arrays cannot be mapped, only read.

    Raises:
        TypeError: NumPy has no such dtype.
        ValueError: There is a pipe or a device at *path*.
        OSError: Writing failed; an existing file is as it was.
    """
    with from_files.replaced(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, tensor in tensors.items():
            data, fortran_order = _npy.elements(tensor)
            head = _npy.header_of(tensor, fortran_order)
            info = aligned_entry(archive, name + _SUFFIX, len(head) + data.numel())
            if compressed:
                info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w") as entry:
                entry.write(head)
                entry.write(memoryview(data))
