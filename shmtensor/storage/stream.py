"""Reads bytes from file objects."""

from __future__ import annotations

from typing import Any

__all__ = ["read_into", "read_length"]

#: Most bytes to read in one call, because a file object may need as many again for a copy.
_AT_ONCE = 1 << 24


def _ended(missing: int) -> RuntimeError:
    return RuntimeError(
        f"unexpected EOF, expected {missing} more bytes. The file might be corrupted."
    )


def read_into(view: memoryview, f: Any) -> None:
    """Fill *view* with the next bytes of a file object.

    Args:
        view: Bytes to write to.
        f: Has ``readinto`` or ``read``.

    Raises:
        RuntimeError: The file ends too early.
    """
    done, size = 0, len(view)
    while done < size:
        part = view[done : done + _AT_ONCE]
        if hasattr(f, "readinto"):
            count = f.readinto(part)
        else:
            data = f.read(len(part))
            count = len(data)
            part[:count] = data
        if not count:
            raise _ended(size - done)
        done += count


def read_length(f: Any) -> int:
    """Read a number of 8 bytes, little-endian.

    Raises:
        RuntimeError: The file ends too early.
    """
    head = f.read(8)
    if len(head) != 8:
        raise _ended(8 - len(head))
    return int.from_bytes(head, "little")
