"""How much a file may ask for.

By default, reading a file takes memory and time in proportion to the file's size. A few bytes
of a pickle can ask for a copy of something large, or for the hash of a long key, and a compressed
record can be a thousand times as long as its bytes in the file. All such requests are paid from one
sum; a file that saves what it holds needs a small part of it. What an instruction makes by itself
is of bounded size and costs nothing.
"""

from __future__ import annotations

import pickle
import zipfile
from typing import Any

from shmtensor.errors import ShmTensorError

__all__ = ["Budget", "Forbidden", "brief", "inflate", "pay_for"]

_FREE_BYTES = 64 << 20
_BYTES_PER_BYTE = 64


class Forbidden(ShmTensorError, pickle.UnpicklingError):
    """The error of the readers here for something that is not allowed."""


class Budget:
    """What is left of what a file may ask for.

    Args:
        n_bytes: The size of the file; None: it is trusted and may ask for everything.
    """

    def __init__(self, n_bytes: int | None) -> None:
        self._n_bytes = n_bytes
        self._left: float = (
            float("inf") if n_bytes is None else _FREE_BYTES + _BYTES_PER_BYTE * n_bytes
        )

    def spend(self, n_bytes: int) -> None:
        """Pay for something that takes *n_bytes*, or the time of copying them.

        Raises:
            pickle.UnpicklingError: The file wants too much.
        """
        self._left -= n_bytes
        if self._left < 0:
            raise Forbidden(
                f"a file of {self._n_bytes} bytes asks for more than "
                f"{_FREE_BYTES + _BYTES_PER_BYTE * (self._n_bytes or 0)} bytes of memory or work"
            )


def inflate(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> bytes:
    """Return the bytes of an entry, after a compressed one was paid for.

    Raises:
        pickle.UnpicklingError: The archive wants too much.
        zipfile.BadZipFile: It is damaged, or compressed in another way than torch's.
    """
    pay_for(info, budget)
    with archive.open(info) as entry:
        data = entry.read(info.file_size)  # not more, whatever is in there
    if len(data) != info.file_size:
        raise zipfile.BadZipFile(f"record {info.filename} ends after {len(data)} bytes")
    return data


def pay_for(info: zipfile.ZipInfo, budget: Budget) -> None:
    """Pay for an entry that is compressed.

    Raises:
        pickle.UnpicklingError: The archive wants too much.
        zipfile.BadZipFile: It is compressed in another way than torch's.
    """
    if info.compress_type == zipfile.ZIP_STORED:
        return
    if info.compress_type != zipfile.ZIP_DEFLATED:
        raise zipfile.BadZipFile(
            f"record {info.filename} is compressed by method {info.compress_type}, not by deflate"
        )
    budget.spend(info.file_size)


def brief(value: Any) -> str:
    """A short text for an error; the text of a nested value can be endless."""
    if type(value) in (str, bytes):
        return repr(value[:80])
    if type(value) is tuple:
        return f"({', '.join(map(_briefer, value[:6]))}{', ...' if len(value) > 6 else ''})"
    return _briefer(value)


def _briefer(value: Any) -> str:
    if type(value) in (str, bytes):
        return repr(value[:40])
    if type(value) is int and value.bit_length() <= 64:
        return str(value)
    return f"a {type(value).__name__}"
