"""The dispatcher through cffi: schemas, keys, the trace."""

from __future__ import annotations

from collections.abc import Iterator

from shmtensor._C import ffi, lib

__all__ = [
    "dispatch_key_name",
    "find_schema",
    "included_keys",
    "operator_keys",
    "schemas",
    "set_dispatch_trace",
]


def _text(pointer: ffi.CData) -> str | None:
    return None if pointer == ffi.NULL else ffi.string(pointer).decode()


def schemas() -> Iterator[str]:
    """Yield the schema of every operator, in order of definition."""
    i = 0
    while (text := _text(lib.shmt_operator_schema(i))) is not None:
        yield text
        i += 1


def find_schema(name: str) -> str | None:
    """Return the schema of ``"name.overload"``, or None."""
    return _text(lib.shmt_find_operator_schema(name.encode()))


def dispatch_key_name(key: int) -> str:
    """Return the name of a dispatch key."""
    return _text(lib.shmt_dispatch_key_name(key)) or "Undefined"


def _key_names(bits: int) -> tuple[str, ...]:
    return tuple(dispatch_key_name(k) for k in range(63, -1, -1) if bits >> k & 1)


def operator_keys(name: str) -> tuple[str, ...]:
    """Return the keys that an operator has kernels or fallbacks for, highest first."""
    return _key_names(lib.shmt_operator_keys(name.encode()))


def included_keys() -> tuple[str, ...]:
    """Return the keys that every call of this thread includes."""
    return _key_names(lib.shmt_included_keys())


def set_dispatch_trace(on: bool) -> bool:
    """Print every call and redispatch to stderr; return what it was."""
    return bool(lib.shmt_set_dispatch_trace(on))
