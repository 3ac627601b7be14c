"""Reading the records of an archive one by one.

Source:
    torch.PyTorchFileReader.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.serialization._budget import Budget, inflate

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """The records of a file that `save` wrote, by their names without the archive's folder.

    Args:
        file: A path, or a file that is open for reading.

    Raises:
        RuntimeError: It is not an archive.
    """

    def __init__(self, file: Any) -> None:
        try:
            self._archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise RuntimeError(f"PyTorchFileReader: {file!r} is not an archive: {error}") from None
        assert self._archive.fp is not None
        self._archive.fp.seek(0, os.SEEK_END)
        self._budget = Budget(self._archive.fp.tell())
        names = self._archive.namelist()
        self._folder = names[0].partition("/")[0] if names else ""

    def _name(self, name: str) -> str:
        full = f"{self._folder}/{name}"
        if full not in self._archive.NameToInfo:
            raise RuntimeError(f"PyTorchFileReader: the file has no record {name!r}")
        return full

    def get_record(self, name: str) -> bytes:
        """Return the bytes of a record.

        Raises:
            RuntimeError: There is none of this name, or it is damaged or compressed too far.
        """
        info = self._archive.getinfo(self._name(name))
        try:
            return inflate(self._archive, info, self._budget)
        except (zipfile.BadZipFile, pickle.UnpicklingError) as error:
            raise RuntimeError(f"PyTorchFileReader: {error}") from None

    def has_record(self, name: str) -> bool:
        """Return whether there is a record of this name."""
        return f"{self._folder}/{name}" in self._archive.NameToInfo

    def get_all_records(self) -> list[str]:
        """Return the names of all records, in their order."""
        return [name.partition("/")[2] for name in self._archive.namelist()]

    def get_record_offset(self, name: str) -> int:
        """Return where the bytes of a record begin in the file."""
        info = self._archive.getinfo(self._name(name))
        assert self._archive.fp is not None
        here = self._archive.fp.tell()
        self._archive.fp.seek(info.header_offset + 26)
        sizes = self._archive.fp.read(4)
        self._archive.fp.seek(here)
        lengths = int.from_bytes(sizes[:2], "little") + int.from_bytes(sizes[2:], "little")
        return info.header_offset + 30 + lengths

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """Return a record as a tensor of *numel* elements, ``(numel,)``.

        Raises:
            RuntimeError: The record has another size.
        """
        data = bytearray(self.get_record(name))
        if len(data) != numel * dtype.itemsize:
            raise RuntimeError(
                f"PyTorchFileReader: record {name!r} has {len(data)} bytes, not {numel} elements "
                f"of {dtype}"
            )
        if not numel:
            return _C.empty(0, dtype=dtype)  # type: ignore[no-any-return]
        return _C.frombuffer(data, dtype=dtype)  # type: ignore[no-any-return]

    def version(self) -> int:
        """Return the version of the format."""
        return int(self.get_record("version"))

    def serialization_id(self) -> str:
        """Return the digits that were computed from the contents."""
        return self.get_record(".data/serialization_id").decode()
