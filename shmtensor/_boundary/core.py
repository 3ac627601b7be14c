"""``ffi``, ``lib``, and the way from a C status to a Python exception."""

from __future__ import annotations

import os
from typing import Any

from shmtensor import _C, errors
from shmtensor._boundary import _install as _install  # completes _C
from shmtensor._generated.errors import STATUSES

__all__ = [
    "address_of",
    "c_text",
    "check",
    "error_from",
    "ffi",
    "lib",
    "place_for",
    "pointer_to",
    "text",
]

ffi: Any = _C.ffi
lib: Any = _C.lib


def error_from(status: int) -> Exception:
    """Make the exception for a failed *status* from this thread's error record."""
    message = text(lib.shmt_error_message())
    _, built_in, own = STATUSES.get(status, ("", RuntimeError, ""))
    if built_in is OSError:
        number = lib.shmt_error_errno()
        return OSError(number, message) if number else OSError(message)
    kind: type[Exception] = getattr(errors, own) if own else built_in
    return kind(message)


def check(status: int) -> None:
    """Raise the exception for *status* unless it is success.

    Raises:
        Exception: The class that ``csrc/spec/errors.yaml`` gives for the status.
    """
    if status != 0:
        if status == lib.SHMT_E_PYTHON:
            _C._raise_interrupt()
        raise error_from(status)


def text(chars: Any) -> str:
    """Return a C string as Python text; ``""`` for NULL."""
    if chars == ffi.NULL:
        return ""
    raw: bytes = ffi.string(chars)
    return raw.decode("utf-8", "replace")


def address_of(pointer: Any) -> int:
    """Return the address a pointer holds."""
    return int(ffi.cast("uintptr_t", pointer))


def pointer_to(kind: str, address: int) -> Any:
    """Return *address* as a pointer of the C type *kind*.

    Raises:
        ValueError: *address* is zero.
    """
    if address == 0:
        raise ValueError(f"the address of a {kind} is zero")
    return ffi.cast(kind, address)


def place_for(kind: str, clear: Any) -> Any:
    """Return a place for a pointer of type *kind*, which C functions fill.

    The place owns what they store: *clear*, a C function, releases it. An exception may arrive
    after every call, so what C hands out goes into a place that was there before, and stays there.
    """
    return ffi.gc(ffi.new(f"{kind} *"), clear)


def c_text(name: str | bytes) -> bytes:
    """Return a name or path as C takes it.

    Raises:
        TypeError: It is no text.
        ValueError: It has a zero byte; C would read what is before that.
    """
    found = os.fsencode(name)
    if b"\0" in found:
        raise ValueError(f"a name or path must not contain a zero byte, got {name!r}")
    return found
